"""``holdfast job``: look at jobs, wait for them, cancel them, run them again."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import click

from holdfast.cli import filters, json_values
from holdfast.cli.output import Column, Screen, visible
from holdfast.cli.parameters import LENGTH, as_text
from holdfast.cli.session import Code, Group, Session, Stop, pass_session
from holdfast.clock import monotonic
from holdfast.drivers.contract import Inspection, Page, Store
from holdfast.model import bounds, duration
from holdfast.model.job import JobRecord, State
from holdfast.settings import mask_secrets

LOOK_EVERY = (0.05, 1.0)  # seconds between two looks at a job that is waited for: the first, and the most


@click.group(cls=Group)
def job() -> None:
    """Look at jobs, wait for them, cancel them, run them again."""


@job.command("list")
@filters.any_job
@click.option(
    "--limit", type=click.IntRange(1, bounds.MAX_BATCH_ITEMS), default=50, show_default=True, help="The most to show."
)
@click.option("--after", metavar="CURSOR", help="Go on where a list ended.")
@click.option("--json", "as_json", is_flag=True, help='JSON: {"items": [...], "cursor": ...}.')
@pass_session
def list_(
    session: Session, /, states: tuple[str, ...], limit: int, after: str | None, *, as_json: bool, **options: Any
) -> None:
    """List jobs that fit every filter, in order of their ids."""
    where = filters.made(states=tuple(State(state) for state in states), options=options)
    page = session.store().find(where, limit=limit, after=after)
    listed(session.screen, page, as_json=as_json)


def listed(screen: Screen, page: Page[JobRecord], *, as_json: bool) -> None:
    """A page of jobs, and how to get the next."""
    if as_json:
        screen.document({"items": [json_values.job(record) for record in page], "cursor": page.cursor})
        return
    if not page.items:
        screen.note("no job fits")
        return
    screen.table(
        [
            Column(title="ID"),
            Column(title="STATE"),
            Column(title="RUNS", right=True),
            Column(title="AGE", right=True),
            Column(title="QUEUE", cut=True),
            Column(title="TYPE", cut=True),
        ],
        [
            (
                record.id,
                state_of(screen, record),
                record.attempts,
                screen.ago(record.created_at),
                record.queue,
                record.type,
            )
            for record in page
        ],
    )
    if page.cursor is not None:
        screen.note(f"more: --after {page.cursor}")


def state_of(screen: Screen, record: JobRecord) -> str:
    """The state; a ready job that has to wait is *scheduled*."""
    scheduled = record.state is State.READY and record.run_at is not None and record.run_at > screen.now()
    return "scheduled" if scheduled else record.state


@job.command()
@click.argument("job_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_session
def show(session: Session, job_id: str, *, as_json: bool) -> None:
    """Show all that is known of one job; never its lease token."""
    show_one(session, known(session.store(), job_id), as_json=as_json)


def known(store: Store, job_id: str) -> Inspection:
    """The job, or the end of the command."""
    seen = store.inspect(job_id)
    if seen is None:
        raise Stop(Code.NOT_FOUND, f"no job {job_id} in this space")
    return seen


def show_one(session: Session, seen: Inspection, *, as_json: bool) -> None:
    """One job, as names and values."""
    screen, record, note = session.screen, seen.job, seen.note
    if as_json:
        screen.document(json_values.inspection(seen))
        return
    running = record.state is State.INFLIGHT
    screen.fields(
        [
            ("id", record.id),
            ("type", record.type),
            ("queue", record.queue),
            ("name", record.name),
            ("state", state_of(screen, record) + (", cancel requested" if running and seen.cancel_requested else "")),
            ("runs", f"{record.attempts} of {record.max_attempts}"),
            ("crashes", record.crashes or None),
            ("priority", record.priority),
            ("created", screen.instant(record.created_at)),
            ("run at", screen.instant(record.run_at)),
            ("timeout", None if record.timeout is None else duration.format_rounded(record.timeout)),
            ("key", record.idempotency_key),
            ("domain", record.domain),
            ("offset", record.offset),
            ("meta", ", ".join(f"{key}={value}" for key, value in record.meta.items())),
            ("webhook", None if record.webhook is None else mask_secrets(record.webhook)),
            ("worker", seen.worker if running else None),
            ("fence", seen.fence if running else None),
            ("reserved", screen.instant(seen.reserved_at) if running else None),
            ("started", screen.instant(note.started_at) if running and note else None),
            ("expires", screen.instant(seen.expires_at) if running else None),
            ("ended", screen.instant(seen.ended_at)),
            ("reason", record.dead_reason),
            ("fingerprint", json_values.of(record) if record.state is State.DEAD else None),
            ("failed", screen.instant(record.failed_at)),
            ("error", record.last_error),
            ("progress", as_text(note.progress) if note else None),
            ("checkpoint", as_text(note.checkpoint) if note else None),
            ("payload", as_text(record.payload)),
            ("result", as_text(record.result)),
        ]
    )


@job.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--timeout", type=LENGTH, metavar="LENGTH", help="Give up after this long, with exit code 5.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per job, as it ends.")
@pass_session
def wait(session: Session, job_ids: tuple[str, ...], timeout: timedelta | None, *, as_json: bool) -> None:
    """Wait until jobs have ended.

    Exits 0 if all are done, 1 if one is dead or cancelled, 5 if the time was up first.
    """
    store, screen = session.store(), session.screen
    waiting = list(dict.fromkeys(job_ids))
    deadline = None if timeout is None else monotonic() + timeout.total_seconds()
    pause, most = LOOK_EVERY
    bad = 0
    while True:
        for record in [known(store, job_id).job for job_id in waiting]:
            if not record.state.has_ended:
                continue
            bad += record.state is not State.DONE
            waiting.remove(record.id)
            if as_json:
                screen.document_line(json_values.job(record))
            else:
                reason = f"  {visible(record.dead_reason)}" if record.dead_reason else ""
                screen.line(f"{record.id}  {record.state}{reason}")
        if not waiting:
            break
        if deadline is not None and monotonic() >= deadline:
            raise Stop(Code.TIMED_OUT, f"{len(waiting)} of {len(set(job_ids))} jobs have not ended in time")
        time.sleep(pause if deadline is None else max(0.0, min(pause, deadline - monotonic())))
        pause = min(pause * 1.5, most)
    if bad:
        raise Stop(Code.WRONG)


@job.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON line per job: id, state.")
@pass_session
def cancel(session: Session, job_ids: tuple[str, ...], *, as_json: bool) -> None:
    """Cancel jobs.

    Waiting ones end at once, running ones are asked to stop. Exits 4 if one is unknown, 1 if one had ended otherwise
    before.
    """
    states = session.store().cancel(job_ids)
    for job_id, state in zip(job_ids, states, strict=True):
        if as_json:
            session.screen.document_line({"id": job_id, "state": state})
        else:
            word = "asked to stop" if state is State.INFLIGHT else state or "unknown"
            session.screen.line(f"{job_id}  {word}")
    if None in states:
        raise Stop(Code.NOT_FOUND, f"{states.count(None)} of {len(states)} jobs are unknown in this space")
    if State.DONE in states or State.DEAD in states:
        raise Stop(Code.WRONG, "a job that has ended cannot be cancelled")


@job.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON line per job: id, requeued, state.")
@pass_session
def retry(session: Session, job_ids: tuple[str, ...], *, as_json: bool) -> None:
    """Run dead or cancelled jobs again.

    Their attempts begin at zero. Exits 4 if one is unknown, 1 if one is neither dead nor cancelled.
    """
    store = session.store()
    unique = list(dict.fromkeys(job_ids))
    answers = store.requeue(unique)
    refused = unknown = 0
    for job_id, requeued in zip(unique, answers, strict=True):
        record = store.get(job_id)
        unknown += record is None
        refused += record is not None and not requeued
        state = None if record is None else record.state
        if as_json:
            session.screen.document_line({"id": job_id, "requeued": requeued, "state": state})
        else:
            word = "requeued" if requeued else f"left as it is: {state}" if state else "unknown"
            session.screen.line(f"{job_id}  {word}")
    if unknown:
        raise Stop(Code.NOT_FOUND, f"{unknown} of {len(unique)} jobs are unknown in this space")
    if refused:
        raise Stop(Code.WRONG, "only dead and cancelled jobs can be run again")
