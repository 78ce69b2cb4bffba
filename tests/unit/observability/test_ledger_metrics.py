"""Metrics from the ledger: every row once, whoever reads it and however often the reader restarts."""

import pytest

import holdfast
from holdfast import Client, JobRequest
from holdfast.clock import DAY, SECOND, ManualClock
from holdfast.driver import Fail, Retry
from holdfast.drivers.requests import Trim, Write
from holdfast.errors import InvalidInput
from holdfast.model.registry import Change
from holdfast.observability import ledger_metrics
from holdfast.observability import metric_table as table
from holdfast.observability.ledger_metrics import KIND, LedgerMetrics
from holdfast.observability.metrics import InMemoryMetrics
from tests.requests_seen import answer_requests


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(clock):
    with holdfast.connect("memory://", clock=clock) as store:
        yield store


@pytest.fixture
def end_jobs(store, clock):
    """Enqueue, reserve after two seconds, settle half a second later."""

    def end_jobs(count, *, type="t", make=holdfast.driver.Ack):
        Client(store, clock=clock).enqueue([JobRequest(type=type) for _ in range(count)])
        clock.advance(2 * SECOND)
        reservations = store.reserve(["default"], limit=count, lease_for=60 * SECOND, types=[type])
        started_at = clock.now()
        clock.advance(SECOND // 2)
        store.settle([make(one.lease, started_at=started_at) for one in reservations])

    return end_jobs


def update(store, **options):
    metrics = InMemoryMetrics()
    exporter = LedgerMetrics(store, metrics, **options)
    while exporter.update():
        pass
    return metrics


def test_endings_waits_and_run_times_are_counted_from_the_first_start(store, end_jobs):
    end_jobs(2)
    assert update(store).value(table.LEDGER_ENDINGS.name) == 0
    end_jobs(3)
    end_jobs(1, make=lambda lease, **more: Fail(lease, reason="no", **more))
    end_jobs(1, type="u", make=lambda lease, **more: Retry(lease, delay=DAY, **more))
    metrics = update(store)
    endings = {tuple(labels.values()): n for labels, n in metrics.series(table.LEDGER_ENDINGS.name) if n}
    assert endings == {("default", "t", "acked"): 3, ("default", "t", "failed"): 1, ("default", "u", "retried"): 1}
    assert metrics.value(table.LEDGER_DEAD.name, type="t") == 1
    [(_, wait), _] = metrics.series(table.LEDGER_WAIT.name)
    [(_, run), _] = metrics.series(table.LEDGER_RUN.name)
    assert (wait.count, wait.total, run.count, run.total) == (4, 8, 4, 2)


def test_a_restart_goes_on_and_counts_no_row_twice(store, end_jobs, monkeypatch):
    monkeypatch.setattr(ledger_metrics, "PAGE_ROWS", 2)
    monkeypatch.setattr(ledger_metrics, "MAX_PAGES", 1)
    update(store)
    for _ in range(3):
        end_jobs(5)
        update(store)
    metrics = update(store)
    assert metrics.value(table.LEDGER_ENDINGS.name, ending="acked") == 15
    [(_, run)] = metrics.series(table.LEDGER_RUN.name)
    assert (run.count, run.total) == (15, 7.5)


def test_two_exporters_of_one_name_share_their_totals(store, end_jobs, monkeypatch):
    update(store)
    end_jobs(4)

    def overtake(request, do):  # another exporter writes between the read and the write of this one
        monkeypatch.undo()
        update(store)
        return do(request)

    metrics = InMemoryMetrics()
    answer_requests(monkeypatch, store, Write, overtake)
    LedgerMetrics(store, metrics).update()
    assert metrics.value(table.LEDGER_ENDINGS.name) == 4
    assert update(store).value(table.LEDGER_ENDINGS.name) == 4


def test_rows_that_were_trimmed_are_reported_and_the_rest_is_counted(store, end_jobs, clock):
    update(store)
    end_jobs(3)
    clock.advance(40 * DAY)
    end_jobs(2)
    store.do(Trim(ledger_for=DAY))
    metrics = update(store)
    assert metrics.value(table.LEDGER_TRIMMED.name) == 1
    assert metrics.value(table.LEDGER_ENDINGS.name) == 2


def test_more_names_than_fit_become_other(store, end_jobs, monkeypatch):
    monkeypatch.setattr(ledger_metrics, "MAX_NAMES", 2)
    update(store)
    for type_ in "abcd":
        end_jobs(1, type=type_)
        metrics = update(store)
    found = {labels["type"]: n for labels, n in metrics.series(table.LEDGER_ENDINGS.name) if n}
    assert found == {"a": 1, "b": 1, "other": 2}


def test_the_totals_of_many_names_fit_into_one_entry():
    totals = ledger_metrics._Totals("cursor")
    for n in range(ledger_metrics.MAX_NAMES):
        one = totals.jobs.setdefault((f"queue {n}", f"type {n * n}"), ledger_metrics._JobTotals())
        one.wait.counts = one.run.counts = [n * 7919**k % 10**12 for k in range(18)]
    data = totals.pack()
    assert len(data) < 64 << 10
    assert ledger_metrics._Totals.unpack(data) == totals


def test_an_entry_that_is_no_total_is_an_error_that_says_what_to_do(store):
    store.do(Write(changes=[Change(kind=KIND, key="prometheus", value=b"?")]))
    with pytest.raises(InvalidInput, match="use another --name"):
        update(store)
    update(store, name="another")
