"""The order of queues in the settings: stored by the first worker, and left alone once the store has another one."""

from __future__ import annotations

import logging

import holdfast
from holdfast import Holdfast
from holdfast.driver import Gaps, OnExhausted, QueueSettings
from holdfast.drivers.requests import Configure, Settings
from holdfast.model.queue_order import QueueOrder

ORDER = QueueOrder(gaps=Gaps.WAIT, on_exhausted=OnExhausted.HALT)


def start_worker(store, order: QueueOrder) -> None:
    app = Holdfast(driver=store)
    app.handler("book", queue="accounts")(lambda _payload: None)
    app.worker(queue_orders={"accounts": order}).process_once()


def test_a_worker_stores_the_order_of_the_settings_once(caplog):
    store = holdfast.connect("memory://")
    store.do(Configure(queue="accounts", settings=QueueSettings(max_inflight=7)))
    start_worker(store, ORDER)
    assert store.do(Settings(queue="accounts")) == QueueSettings(
        max_inflight=7, gaps=Gaps.WAIT, on_exhausted=OnExhausted.HALT
    )
    start_worker(store, ORDER)
    assert [one for one in caplog.records if getattr(one, "event", "") == "order.differs"] == []


def test_an_order_of_an_operator_stays_and_is_logged(caplog):
    caplog.set_level(logging.WARNING, "holdfast.worker")
    store = holdfast.connect("memory://")
    store.do(Configure(queue="accounts", settings=QueueSettings(gaps=Gaps.WAIT, gap_pass_after=5)))
    start_worker(store, ORDER)
    assert store.do(Settings(queue="accounts")) == QueueSettings(gaps=Gaps.WAIT, gap_pass_after=5)
    [record] = [one for one in caplog.records if getattr(one, "event", "") == "order.differs"]
    assert record.queue == "accounts"
