"""``holdfast job``: inspect jobs, wait for them, cancel them, run them again."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import click

from holdfast.cli import filters, json_values
from holdfast.cli.command import Group
from holdfast.cli.job_table import print_jobs, shown_state, watch_jobs
from holdfast.cli.parameters import DURATION
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.client import Client
from holdfast.clock import from_timedelta, monotonic
from holdfast.drivers.answers import Inspection
from holdfast.drivers.requests import Cancel, Inspect
from holdfast.drivers.store import Store
from holdfast.model import duration
from holdfast.model.control_characters import escape_control_characters
from holdfast.model.execution import ExecutionResult
from holdfast.model.job import State
from holdfast.model.transition import UNREADABLE
from holdfast.settings import mask_secrets

MIN_POLL_INTERVAL_SECONDS = 0.05
MAX_POLL_INTERVAL_SECONDS = 1.0
POLL_INTERVAL_GROWTH = 1.5


@click.group(cls=Group)
def job() -> None:
    """Inspect jobs, wait for them, cancel them, run them again."""


@job.command("list")
@filters.job_options
@click.option("--newest", is_flag=True, help="The newest jobs first.")
@click.option("--watch", is_flag=True, help="Show the newest jobs again and again, until Ctrl-C.")
@click.option("--for", "length", type=DURATION, metavar="DURATION", help="Watch this long.")
@filters.page_options
@pass_session
def list_(
    session: Session,
    /,
    states: tuple[str, ...],
    limit: int,
    after: str | None,
    *,
    length: timedelta | None,
    newest: bool,
    watch: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """List jobs that match every filter, in order of their ids.

    Ids grow with time, unless a producer chose them. With --watch a terminal shows a table that is refreshed; a pipe
    gets one line for each job that is new or has changed.
    """
    where = filters.from_options(states=tuple(State(state) for state in states), options=options)
    store = session.store()
    if watch:
        if after is not None:
            raise click.UsageError("wanted either --watch or --after, got both")
        watch_jobs(session.output, store, where, limit=limit, length=length, as_json=as_json)
        return
    if length is not None:
        raise click.UsageError("--for: wanted --watch too")
    page = filters.find_page(store, where, limit=limit, after=after, newest=newest)
    if as_json:
        session.output.print_json({"items": [json_values.job(record) for record in page], "cursor": page.cursor})
        return
    print_jobs(session.output, page.items)
    if page.cursor is not None:
        session.output.print_note(f"more: {'--newest ' if newest else ''}--after {page.cursor}")


@job.command()
@click.argument("job_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_session
def show(session: Session, job_id: str, *, as_json: bool) -> None:
    """Show everything about one job, except its lease token."""
    store = session.store()
    inspection = inspect_job(store, job_id)
    print_inspection(session, inspection, as_json=as_json, execution=Client(store).execution(job_id))


def _without_markers(error: str) -> str:
    """The error without the lines of ``^`` and ``~`` that Python puts below the code of a traceback."""
    return "\n".join(line for line in error.splitlines() if not line.strip() or line.strip(" ^~"))


def inspect_job(store: Store, job_id: str) -> Inspection:
    """Return the job with its lease, or fail with ``NOT_FOUND``."""
    inspection = store.do(Inspect(job_ids=[job_id])).get(job_id)
    if inspection is None:
        raise CommandFailed(ExitCode.NOT_FOUND, f"no job {job_id} in this space")
    return inspection


def print_inspection(
    session: Session, inspection: Inspection, *, as_json: bool, execution: ExecutionResult | None = None
) -> None:
    """Print one job as names and values."""
    output, record, note = session.output, inspection.job, inspection.note
    if as_json:
        output.print_json(json_values.inspection(inspection) | {"execution": json_values.execution(execution)})
        return
    running = record.state is State.INFLIGHT
    cancelling = ", cancel requested" if running and inspection.cancel_requested else ""
    output.print_fields(
        [
            ("id", record.id),
            ("type", record.type),
            ("queue", record.queue),
            ("name", record.name),
            ("state", shown_state(output, record) + cancelling),
            ("runs", f"{record.attempts} of {record.max_attempts}"),
            ("crashes", record.crashes or None),
            ("priority", record.priority),
            ("created", output.instant(record.created_at)),
            ("run at", output.instant(record.run_at)),
            ("timeout", None if record.timeout is None else duration.format_rounded(record.timeout)),
            ("key", record.idempotency_key),
            ("domain", record.domain),
            ("offset", record.offset),
            ("limit key", record.limit_key),
            ("meta", ", ".join(f"{key}={value}" for key, value in record.meta.items())),
            ("webhook", None if record.webhook is None else mask_secrets(record.webhook)),
            ("worker", inspection.worker if running else None),
            ("fence", inspection.fence if running else None),
            ("reserved", output.instant(inspection.reserved_at) if running else None),
            ("started", output.instant(note.started_at) if running and note else None),
            ("expires", output.instant(inspection.expires_at) if running else None),
            ("ended", output.instant(inspection.ended_at)),
            ("reason", record.dead_reason),
            ("fingerprint", json_values.fingerprint_of(record) if record.state is State.DEAD else None),
            ("failed", output.instant(record.failed_at)),
            ("error", _without_markers(record.last_error)),
            ("progress", json_values.stored_text(note.progress) if note else None),
            ("checkpoint", json_values.stored_text(note.checkpoint) if note else None),
            ("payload", json_values.stored_text(record.payload)),
            ("result", json_values.stored_text(record.result)),
            *_execution_fields(execution),
        ]
    )


def _execution_fields(execution: ExecutionResult | None) -> list[tuple[str, object]]:
    if execution is None:
        return []
    length = duration.format_rounded(from_timedelta(execution.duration))
    how = f"attempt {execution.attempt} {'succeeded' if execution.success else 'failed'} after {length}"
    shown = f"...{execution.output}" if execution.truncated else execution.output
    return [("execution", how), ("output", shown.rstrip())]


@job.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--timeout", type=DURATION, metavar="DURATION", help="Give up after this long, with exit code 5.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per job, as it ends.")
@pass_session
def wait(session: Session, job_ids: tuple[str, ...], timeout: timedelta | None, *, as_json: bool) -> None:
    """Wait until jobs have ended.

    Exits 0 if all jobs are done, 1 if a job is dead or cancelled, 5 if the timeout came first.
    """
    store, output = session.store(), session.output
    waiting = list(dict.fromkeys(job_ids))
    deadline = None if timeout is None else monotonic() + timeout.total_seconds()
    interval = MIN_POLL_INTERVAL_SECONDS
    not_done = 0
    while True:
        for record in [inspect_job(store, job_id).job for job_id in waiting]:
            if not record.state.has_ended:
                continue
            not_done += record.state is not State.DONE
            waiting.remove(record.id)
            if as_json:
                output.print_json_line(json_values.job(record))
            else:
                reason = f"  {escape_control_characters(record.dead_reason)}" if record.dead_reason else ""
                output.print_line(f"{record.id}  {record.state}{reason}")
        if not waiting:
            break
        if deadline is not None and monotonic() >= deadline:
            raise CommandFailed(
                ExitCode.TIMED_OUT, f"{len(waiting)} of {len(set(job_ids))} jobs have not ended in time"
            )
        time.sleep(interval if deadline is None else max(0.0, min(interval, deadline - monotonic())))
        interval = min(interval * POLL_INTERVAL_GROWTH, MAX_POLL_INTERVAL_SECONDS)
    if not_done:
        raise CommandFailed(ExitCode.FAILED)


@job.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON line per job: id, state.")
@pass_session
def cancel(session: Session, job_ids: tuple[str, ...], *, as_json: bool) -> None:
    """Cancel jobs.

    Ready jobs end at once, running jobs are asked to stop. Exits 4 if a job is unknown, 1 if a job was already done or
    dead.
    """
    states = session.store().do(Cancel(job_ids=job_ids))
    for job_id, state in zip(job_ids, states, strict=True):
        if as_json:
            session.output.print_json_line({"id": job_id, "state": state})
        else:
            word = "asked to stop" if state is State.INFLIGHT else state or "unknown"
            session.output.print_line(f"{job_id}  {word}")
    if None in states:
        raise CommandFailed(ExitCode.NOT_FOUND, f"{states.count(None)} of {len(states)} jobs are unknown in this space")
    if State.DONE in states or State.DEAD in states:
        raise CommandFailed(ExitCode.FAILED, "a job that has ended cannot be cancelled")


@job.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON line per job: id, requeued, state.")
@pass_session
def retry(session: Session, job_ids: tuple[str, ...], *, as_json: bool) -> None:
    """Run dead or cancelled jobs again.

    Their attempts start again at zero. Exits 4 if a job is unknown, 1 if a job is neither dead nor cancelled.
    """
    store = session.store()
    unique = list(dict.fromkeys(job_ids))
    answers = Client(store).requeue(unique)
    refused = unknown = 0
    for job_id, requeued in zip(unique, answers, strict=True):
        record = store.get(job_id)
        unknown += record is None
        refused += record is not None and not requeued
        state = None if record is None else record.state
        if as_json:
            session.output.print_json_line({"id": job_id, "requeued": requeued, "state": state})
        else:
            kept = (
                f"{state}, {record.dead_reason}" if record is not None and record.dead_reason == UNREADABLE else state
            )
            word = "requeued" if requeued else f"not changed: {kept}" if state else "unknown"
            session.output.print_line(f"{job_id}  {word}")
    if unknown:
        raise CommandFailed(ExitCode.NOT_FOUND, f"{unknown} of {len(unique)} jobs are unknown in this space")
    if refused:
        raise CommandFailed(ExitCode.FAILED, "only dead and cancelled jobs whose rows can be read can be run again")
