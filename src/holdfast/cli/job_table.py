"""A list of jobs, printed once, or watched."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import timedelta

import click

from holdfast.cli import filters, json_values
from holdfast.cli.output import Column, Output
from holdfast.clock import monotonic
from holdfast.drivers.store import Store
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State

COLUMNS = (
    Column(title="ID"),
    Column(title="STATE"),
    Column(title="RUNS", align_right=True),
    Column(title="AGE", align_right=True),
    Column(title="QUEUE", truncate=True),
    Column(title="TYPE", truncate=True),
)


def print_jobs(output: Output, jobs: Sequence[JobRecord]) -> None:
    """Print a table of jobs."""
    if not jobs:
        output.print_note("no job matches")
        return
    cells = [
        (job.id, shown_state(output, job), job.attempts, output.age(job.created_at), job.queue, job.type)
        for job in jobs
    ]
    output.print_table(COLUMNS, cells)


def shown_state(output: Output, job: JobRecord) -> str:
    """The state; a ready job whose ``run_at`` is in the future is *scheduled*."""
    scheduled = job.state is State.READY and job.run_at is not None and job.run_at > output.now()
    return "scheduled" if scheduled else job.state


WATCH_INTERVAL_SECONDS = 2.0


def watch_jobs(
    output: Output,
    store: Store,
    where: JobFilter,
    *,
    limit: int,
    length: timedelta | None,
    as_json: bool,
) -> None:
    """Show the newest jobs at intervals, for ``length`` or until KeyboardInterrupt.

    A terminal shows a table. Otherwise a job is printed on one line when it is new in the list or has changed.
    """
    refresh = sys.stdout.isatty() and not as_json
    deadline = None if length is None else monotonic() + length.total_seconds()
    before: dict[str, JobRecord] = {}
    while True:
        jobs = filters.find_page(store, where, limit=limit, after=None, newest=True).items
        if refresh:
            click.clear()
            output.print_line(f"the newest {limit} jobs, every {WATCH_INTERVAL_SECONDS:g} s; Ctrl-C stops")
            output.print_line()
            print_jobs(output, jobs)
        else:
            for job in reversed(jobs):
                if before.get(job.id) != job:
                    _print_line(output, job, as_json=as_json)
        before = {job.id: job for job in jobs}
        left = WATCH_INTERVAL_SECONDS if deadline is None else min(WATCH_INTERVAL_SECONDS, deadline - monotonic())
        if left <= 0 and deadline is not None:
            return
        time.sleep(left)


def _print_line(output: Output, job: JobRecord, *, as_json: bool) -> None:
    if as_json:
        output.print_json_line(json_values.job(job))
    else:
        output.print_line(f"{job.id}  {shown_state(output, job):<9}  {job.attempts}  {job.queue}  {job.type}")
