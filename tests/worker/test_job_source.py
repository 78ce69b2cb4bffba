"""A worker whose jobs come from another source than the queues of its store."""

import time
from dataclasses import replace

from holdfast.errors import StoreBusy
from holdfast.worker.job_source import StoreJobSource
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes import dispatch
from holdfast.worker.worker import Worker


class RecordingSource:
    """Returns the jobs of a store, in batches of its own size once jobs are short; fails at its first call."""

    def __init__(self, store, batch):
        self.calls = []
        self.demands = []
        self._source = StoreJobSource(store, ["default"], ["t"], lease_for=60_000_000, worker="w")
        self._batch = batch
        self._is_failing = True

    def reserve(self, demand):
        if self._is_failing:
            self._is_failing = False
            raise StoreBusy(1.0)
        self.demands.append(demand)
        limit = self._batch if demand.short_jobs else demand.limit
        reservations = self._source.reserve(replace(demand, limit=limit))
        self.calls.append((demand.limit, demand.short_jobs, len(reservations)))
        return reservations

    def wait(self, timeout):
        self._source.wait(timeout)

    def is_drained(self):
        return self._source.is_drained()


def test_a_source_may_return_more_than_the_limit_once_jobs_are_short(app):
    task = app.handler("t")(lambda payload: payload)
    task.enqueue_many(range(9000))
    source = RecordingSource(app.driver, batch=2500)
    options = WorkerOptions(processes=2, until_drained=True)
    assert Worker(app.driver, options, catalogue=app.catalogue, source=source).run() == {"acked": 9000}
    assert source.calls[0] == (2, False, 2)  # nothing is known of the jobs: one for each process
    assert all(count <= limit for limit, short_jobs, count in source.calls if not short_jobs)
    assert any(count == 2500 > limit for limit, short_jobs, count in source.calls if short_jobs)
    assert {record.state for record in app.driver.find(limit=9000).items} == {"done"}


def test_a_worker_that_holds_its_budget_of_bytes_takes_one_job_at_a_time_for_an_idle_child(app, monkeypatch):
    monkeypatch.setattr(dispatch, "MAX_HELD_BYTES", 1000)
    nap = app.handler("t")(lambda _payload: time.sleep(0.1))
    nap.enqueue_many(["x" * 400] * 12)
    source = RecordingSource(app.driver, batch=12)
    options = WorkerOptions(processes=1, concurrency=6, until_drained=True)
    worker = Worker(app.driver, options, catalogue=app.catalogue, source=source)
    assert worker.run() == {"acked": 12}
    assert (source.demands[0].limit, source.demands[0].max_bytes) == (6, 1000)
    assert {demand.limit for demand in source.demands if demand.max_bytes == 1} == {1}
    source.demands.clear()
    worker.run()
    assert source.demands[0].max_bytes == 1000  # the payloads of settled jobs are not held
