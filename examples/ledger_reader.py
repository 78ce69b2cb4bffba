"""A reader of the ledger that resumes exactly: what it has learnt and its cursor are one row of the registry.

A crash before the row is written changes nothing, and the same page is read again; a crash after it repeats nothing.
The row is written by compare-and-set, so a second reader cannot count a page that is counted already.
"""

from __future__ import annotations

import contextlib
import json
import tempfile

from holdfast import Client, JobRequest, connect
from holdfast.clock import SECOND
from holdfast.drivers.contract import Change, Store
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack


class Crash(Exception):
    """The reader's process is gone."""


def count_next_page(store: Store, *, crash: bool = False) -> bool:
    """Count the endings that follow the cursor; False when there are none yet."""
    [row] = store.read("reader", ["billing"])
    cursor, before = (None, 0) if row is None or row.value is None else json.loads(row.value)
    page = store.ledger(cursor, 25)
    acked = sum(ending.ending is Ending.ACKED for ending in page.items)
    if crash:
        raise Crash
    if not page.items:
        return False
    value = json.dumps([page.cursor, before + acked]).encode()
    [written] = store.write(
        [Change(kind="reader", key="billing", value=value, version=0 if row is None else row.version)]
    )
    assert written is not None, "another reader was faster, and has counted this page"
    print(f"  {acked} acked jobs more, {before + acked} in all; cursor {page.cursor}")
    return True


def run_jobs(store: Store, count: int) -> None:
    Client(store).enqueue([JobRequest(type="step", payload=number) for number in range(count)])
    while batch := store.reserve(["default"], limit=50, lease_for=30 * SECOND):
        store.settle([Ack(reservation.lease) for reservation in batch])


with tempfile.TemporaryDirectory() as folder:
    url = f"sqlite:///{folder}/jobs.db"
    with contextlib.closing(connect(url)) as store, contextlib.suppress(Crash):
        run_jobs(store, 60)
        print("60 jobs ran; the reader takes a page and crashes within the next")
        count_next_page(store)
        count_next_page(store, crash=True)

    with contextlib.closing(connect(url)) as store:
        run_jobs(store, 40)
        print("40 more ran; the reader is started again")
        while count_next_page(store):
            pass
        [row] = store.read("reader", ["billing"])
        assert row is not None
        assert row.value is not None
        cursor, counted = json.loads(row.value)
        assert counted == 100
        print(f"100 jobs, {counted} counted: none missed, none twice")
