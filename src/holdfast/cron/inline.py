"""Inline runs: a fire without a queue runs in this process's own worker, as one attempt in a child.

Such a fire is a job too, in a queue of its own: it has a lease, a timeout, a dead letter and a ledger row. A job that a
killed process leaves behind is run by the next ``CronRunner.run``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from holdfast.cron.fire import INLINE_QUEUE
from holdfast.drivers.contract import Feature
from holdfast.model.job import JobRecord

if TYPE_CHECKING:
    from holdfast.app import Holdfast

MAX_RUNS = 100  # of the worker, for jobs that others left behind


def run_inline(app: Holdfast, job_ids: Sequence[str]) -> dict[str, JobRecord]:
    """Run the jobs of the inline queue until these have ended, or cannot run now; return them as they are then."""
    has_children = app.driver.capabilities.has(Feature.PROCESSES)
    for _ in range(MAX_RUNS):
        records = {job_id: app.client.get(job_id) for job_id in job_ids}
        if all(record is None or record.state.has_ended for record in records.values()):
            break
        status = _run_in_child(app) if has_children else _run_here(app)
        if status in ("empty", "released"):
            break
    found = {job_id: app.client.get(job_id) for job_id in job_ids}
    return {job_id: record for job_id, record in found.items() if record is not None}


def _run_in_child(app: Holdfast) -> str:
    worker = app.worker(queues=(INLINE_QUEUE,), processes=1, concurrency=1, cron=False)
    statuses = worker.run(until_drained=True, max_jobs=1)
    return next(iter(statuses), "empty")


def _run_here(app: Holdfast) -> str:
    """Run one job in this thread, for a store that other processes cannot use: nothing interrupts it."""
    with closing(app.worker(queues=(INLINE_QUEUE,), cron=False)) as worker:
        return worker.process_once().status
