"""A worker whose jobs come from another source than the queues of its store."""

from dataclasses import replace

from holdfast import JobRequest
from holdfast.drivers.requests import Reap
from holdfast.errors import StoreBusy
from holdfast.model.isolation import Isolation
from holdfast.model.settlement import Retry
from holdfast.worker.job_source import Demand, StoreJobSource
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes import dispatch
from holdfast.worker.worker import Worker


class RecordingSource:
    """Returns the jobs of a store, in batches of its own size once jobs are short; fails at its first call."""

    def __init__(self, store, batch):
        self.calls = []
        self._source = StoreJobSource(store, ["default"], ["t"], lease_for=60_000_000, worker="w")
        self._batch = batch
        self._is_failing = True

    def reserve(self, demand):
        if self._is_failing:
            self._is_failing = False
            raise StoreBusy(1.0)
        limit = self._batch if demand.short_jobs else demand.limit
        reservations = self._source.reserve(replace(demand, limit=limit))
        self.calls.append((demand.limit, demand.short_jobs, len(reservations)))
        return reservations

    def wait(self, timeout):
        self._source.wait(timeout)

    def is_drained(self):
        return self._source.is_drained()


def test_a_source_may_return_more_than_the_limit_once_jobs_are_short(app, monkeypatch):
    monkeypatch.setattr(dispatch, "MIN_SHORT_JOBS", 1)  # on a slow machine they would never be short
    task = app.handler("t")(lambda payload: payload)
    task.enqueue_many(range(9000))
    source = RecordingSource(app.driver, batch=2500)
    options = WorkerOptions(processes=2, until_drained=True)
    assert Worker(app.driver, options, catalogue=app.catalogue, source=source).run() == {"acked": 9000}
    assert source.calls[0] == (2, False, 2)  # nothing is known of the jobs: one for each process
    assert all(count <= limit for limit, short_jobs, count in source.calls if not short_jobs)
    assert any(count == 2500 > limit for limit, short_jobs, count in source.calls if short_jobs)
    assert {record.state for record in app.driver.find(limit=9000).items} == {"done"}


def test_the_store_gets_every_part_of_the_demand(app):
    app.handler("t")(lambda payload: payload).enqueue("isolated")
    [isolated] = app.driver.reserve(["default"], limit=1, lease_for=60_000_000)
    app.driver.settle([Retry(isolated.lease, crashed=True)])
    app.handler("other")(lambda payload: payload).enqueue("of another type")
    first, second, _ = app.client.enqueue([JobRequest(type="t", payload="x" * 98) for _ in range(3)])
    source = StoreJobSource(app.driver, ["default"], ["t"], lease_for=60_000_000, worker="w")
    reserved = source.reserve(Demand(limit=9, max_bytes=250, isolation=Isolation.SKIP, prefetch=True))
    assert [reservation.job.id for reservation in reserved] == [first.id, second.id]
    assert app.driver.do(Reap(worker="w")).count == 2
    assert app.client.get(first.id).attempts == 0  # it was prefetched
    assert len(source.reserve(Demand(limit=1))) == 1
