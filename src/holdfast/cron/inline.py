"""Inline runs: a fire without a queue runs in this process's own worker, as one attempt in a child.

Such a fire is a job too, in a queue of its own: it has a lease, a timeout, a dead letter and a ledger row. A job that a
killed process leaves behind is run with the next inline fire.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from holdfast.cron.fire import INLINE_QUEUE
from holdfast.drivers.capabilities import Feature
from holdfast.model.job import JobRecord

if TYPE_CHECKING:
    from holdfast.app import Holdfast

MAX_RUNS = 100  # of the worker, for jobs that others left behind


class InlineRun(NamedTuple):
    """The jobs as they are after a run. ``is_stopped``: a signal has stopped it, and nothing more must start."""

    jobs: dict[str, JobRecord]
    is_stopped: bool


def run_inline(app: Holdfast, job_ids: Sequence[str]) -> InlineRun:
    """Run the jobs of the inline queue until these have ended, or cannot run now."""
    run_one = _run_in_child if app.driver.capabilities.has(Feature.PROCESSES) else _run_here
    is_stopped = False
    for _ in range(MAX_RUNS):
        jobs = _read(app, job_ids)
        if is_stopped or all(job.state.has_ended for job in jobs.values()):
            break
        status, is_stopped = run_one(app)
        if status in ("empty", "released"):  # a lock is held by another job, for example
            break
    return InlineRun(_read(app, job_ids), is_stopped)


def _read(app: Holdfast, job_ids: Sequence[str]) -> dict[str, JobRecord]:
    found = {job_id: app.client.get(job_id) for job_id in job_ids}
    return {job_id: job for job_id, job in found.items() if job is not None}


def _run_in_child(app: Holdfast) -> tuple[str, bool]:
    worker = app.worker(queues=(INLINE_QUEUE,), processes=1, concurrency=1, cron=False)
    statuses = worker.run(until_drained=True, max_jobs=1)
    return next(iter(statuses), "empty"), worker.is_stopping


def _run_here(app: Holdfast) -> tuple[str, bool]:
    """Run one job in this thread, for a store that other processes cannot use: nothing interrupts it."""
    with closing(app.worker(queues=(INLINE_QUEUE,), cron=False)) as worker:
        return worker.process_once().status, False
