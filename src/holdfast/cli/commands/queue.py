"""``holdfast queue``: count, pause, limit, configure and drain queues."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import click

from holdfast.cli import json_values
from holdfast.cli.command import Group
from holdfast.cli.output import Column, Output
from holdfast.cli.parameters import DURATION, RATE, ValueOrNone
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.clock import from_timedelta, monotonic
from holdfast.drivers.answers import QueueCounts
from holdfast.drivers.requests import Configure, Counts, Settings
from holdfast.drivers.store import Store
from holdfast.model import bounds, duration
from holdfast.model.job import State
from holdfast.model.queue_settings import KEY_LIMIT_FIELDS, PROPOSERS, Gaps, LimitOrigin, OnExhausted, QueueSettings
from holdfast.worker.breaker import BreakerPhase, phase_of
from holdfast.worker.type_holds import forget_holds, read_holds

RATES = (("rate", "burst"), ("key_rate", "key_burst"))  # each is changed together
COUNTED_STATES = ("ready", "scheduled", "inflight", "done", "dead", "cancelled")
HEADINGS = ("READY", "SCHED", "INFL", "DONE", "DEAD", "CANC")  # short, so that the limits fit into the same row
MIN_COUNT_INTERVAL_SECONDS = 0.5
COUNT_INTERVAL_FACTOR = 20  # counting reads every open job: the next count waits 20 times as long as the last one took
OPEN = (State.READY, State.INFLIGHT)
NOT_DONE = tuple(state for state in State if state is not State.DONE)

_TYPE = click.option("--type", "type_", metavar="TYPE", help="Only this type in the queue.")
NEW = click.option("--new", is_flag=True, help="Allow a queue that has no jobs and no settings yet.")
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object: the settings after the change.")


@click.group(cls=Group)
def queue() -> None:
    """Count, pause, limit and drain queues."""


@queue.command("list")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--types", is_flag=True, help="One row per type.")
@click.option("--estimate", is_flag=True, help="Estimate large numbers: quick, however many jobs there are.")
@click.option("--json", "as_json", is_flag=True, help="JSON: a list of counts with settings.")
@pass_session
def list_(session: Session, names: tuple[str, ...], *, types: bool, estimate: bool, as_json: bool) -> None:
    """Count jobs by queue and state, and show pauses and limits."""
    store, output = session.store(), session.output
    counts = store.do(Counts(queues=list(names) or None, estimate=estimate))
    _check_known(store, names, counts)
    rows = counts if types else sum_by_queue(counts, names)
    settings = [store.do(Settings(queue=row.queue, type=row.type or None)) for row in rows]
    of_types = [[] if types else _type_settings(store, row.queue, counts) for row in rows]
    if as_json:
        output.print_json([_to_json(*found) for found in zip(rows, settings, of_types, strict=True)])
        return
    if not rows:
        output.print_note("no jobs in this space")
        return
    columns = [Column(title="QUEUE", truncate=True), *([Column(title="TYPE", truncate=True)] if types else [])]
    output.print_table(
        [
            *columns,
            *(Column(title=title, align_right=True) for title in HEADINGS),
            Column(title="LIMITS", truncate=True),
        ],
        [
            (
                row.queue,
                *([row.type] if types else []),
                *(getattr(row, state) for state in COUNTED_STATES),
                "; ".join(_describe_all_limits(output, one, type_settings)),
            )
            for row, one, type_settings in zip(rows, settings, of_types, strict=True)
        ],
    )
    if any(row.is_estimate for row in counts):
        output.print_note("large numbers are estimates")


def sum_by_queue(rows: Sequence[QueueCounts], names: Sequence[str] = ()) -> list[QueueCounts]:
    """One row per queue, the sum over its types; a named queue without jobs gets a row of zeros."""
    queues = sorted({row.queue for row in rows} | set(names))
    return [
        QueueCounts(
            queue=name,
            type="",
            **{state: sum(getattr(row, state) for row in rows if row.queue == name) for state in COUNTED_STATES},
        )
        for name in queues
    ]


def _type_settings(store: Store, name: str, counts: Sequence[QueueCounts]) -> list[tuple[str, QueueSettings]]:
    """Return the types of a queue that have settings of their own; a type is known by its jobs."""
    found = ((row.type, store.do(Settings(queue=name, type=row.type))) for row in counts if row.queue == name)
    return [(type_, settings) for type_, settings in found if settings != QueueSettings()]


def _to_json(
    row: QueueCounts, settings: QueueSettings, type_settings: Sequence[tuple[str, QueueSettings]]
) -> dict[str, Any]:
    counts = {state: getattr(row, state) for state in COUNTED_STATES}
    type_field = (
        {"type": row.type}
        if row.type
        else {"types": {type_: json_values.queue_settings(one) for type_, one in type_settings}}
    )
    return {"queue": row.queue, **counts, "settings": json_values.queue_settings(settings), **type_field}


def _describe_all_limits(
    output: Output, settings: QueueSettings, type_settings: Sequence[tuple[str, QueueSettings]]
) -> list[str]:
    """The limits of a queue, then those of each type in it."""
    described = [("", settings), *((f"{type_}: ", one) for type_, one in type_settings)]
    return [f"{prefix}{words}" for prefix, one in described if (words := _describe_limits(output, one))]


def _describe_limits(output: Output, settings: QueueSettings) -> str:
    """The pause, the limits and another window of keys in a few words; empty if there are none."""
    words = []
    if is_paused(output, settings):
        until = settings.paused_until
        words.append("paused" if until == bounds.MAX_INSTANT else f"paused, ends {output.age(until)}")
    phase = phase_of(settings, output.now())
    if phase is not BreakerPhase.CLOSED:
        words.append(
            f"breaker {phase}" + (f", ends {output.age(settings.held_until)}" if _is_held(output, settings) else "")
        )
    elif _is_held(output, settings):
        words.append(f"paused by a handler, ends {output.age(settings.held_until)}")
    if settings.max_inflight is not None:
        words.append(f"max {settings.max_inflight}")
    if settings.rate is not None:
        words.append(_describe_rate(settings.rate, settings.burst))
    if settings.key_max_inflight is not None:
        words.append(f"max {settings.key_max_inflight} per key")
    if settings.key_rate is not None:
        words.append(f"{_describe_rate(settings.key_rate, settings.key_burst)} per key")
    if settings.limits_from in PROPOSERS:
        words.append(f"from the {settings.limits_from}")
    if settings.dedupe_window != QueueSettings().dedupe_window:
        words.append(f"keys {_format_window(settings)}")
    return ", ".join([*words, *describe_order(settings)])


def describe_order(settings: QueueSettings) -> list[str]:
    """What the domains of a queue do at a gap and at a dead job, in a few words each, where it is not the default."""
    words = []
    if settings.on_exhausted is OnExhausted.HALT:
        words.append("a dead job halts its domain")
    if settings.gaps is Gaps.WAIT:
        words.append("waits for gaps")
        if settings.gap_report_after is not None:
            words.append(f"overdue after {_format_length(settings.gap_report_after)}")
        if settings.gap_pass_after is not None:
            words.append(f"passed after {_format_length(settings.gap_pass_after)}")
    return words


def _describe_rate(rate: float, burst: int | None) -> str:
    return f"{rate:g}/s" + (f" burst {burst}" if burst is not None else "")


def is_paused(output: Output, settings: QueueSettings) -> bool:
    """Whether the queue is paused now, by this host's clock."""
    return settings.paused_until is not None and output.now() < settings.paused_until


def _is_held(output: Output, settings: QueueSettings) -> bool:
    return settings.held_until is not None and output.now() < settings.held_until


# Settings ---------------------------------------------------------------------------------------------------


@queue.command()
@click.argument("name")
@click.option("--for", "length", type=DURATION, metavar="DURATION", help="Resume automatically after this long.")
@click.option("--wait", is_flag=True, help="Then wait until no job of the queue is in flight.")
@click.option("--timeout", type=DURATION, metavar="DURATION", help="With --wait: give up after this long, exit code 5.")
@_TYPE
@NEW
@JSON
@pass_session
def pause(
    session: Session,
    name: str,
    *,
    length: timedelta | None,
    timeout: timedelta | None,
    type_: str | None,
    wait: bool,
    new: bool,
    as_json: bool,
) -> None:
    """Stop reserving jobs of a queue, in all workers.

    Running jobs continue, new jobs are accepted. Without --for, the pause lasts until `queue resume`. With
    --wait, the command returns when nothing of the queue runs any more.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout: wanted --wait beside it")
    paused_until = bounds.MAX_INSTANT
    if length is not None:
        paused_until = session.output.now() + from_timedelta(length)
    if paused_until <= session.output.now():
        raise click.UsageError("wanted a pause that ends later than now")
    change_settings(session, name, type_, {"paused_until": paused_until}, new=new, as_json=as_json)
    if wait:
        _wait_for_inflight(session, name, type_, timeout)


def _wait_for_inflight(session: Session, name: str, type_: str | None, timeout: timedelta | None) -> None:
    """Wait until no job of a queue, or of one type in it, is in flight."""
    store = session.store()
    deadline = None if timeout is None else monotonic() + timeout.total_seconds()
    while True:
        counts, seconds = _timed_counts(store, [name], states=(State.INFLIGHT,))
        left = sum(row.inflight for row in counts if type_ in (None, row.type))
        if not left:
            return
        _sleep(seconds, deadline, f"{left} jobs of {name} are in flight")


@queue.command()
@click.argument("name")
@_TYPE
@JSON
@pass_session
def resume(session: Session, name: str, type_: str | None, *, as_json: bool) -> None:
    """End a pause.

    Without --type, ends the pause of the queue; a type that is paused itself stays paused. With --type, ends the pause
    of the type, closes its circuit breaker, and ends a pause that its handler asked for.
    """
    changes: dict[str, Any] = {"paused_until": None}
    if type_ is not None:
        changes |= {"held_until": None, "probing": False}
    change_settings(session, name, type_, changes, new=False, as_json=as_json)
    store = session.store()
    if type_ is not None:
        forget_holds(store, name, type_)
        return
    for held in sorted(one.type for one in read_holds(store) if one.queue == name):
        session.output.print_note(f"{held} is still paused: see `holdfast queue resume {name} --type {held}`")


@queue.command()
@click.argument("name")
@click.option("--max-inflight", type=ValueOrNone(click.INT), metavar="N|none", help="The most jobs in flight.")
@click.option("--rate", type=ValueOrNone(RATE), metavar="RATE|none", help="Reservations: 10/s, 600/m, 5/h; 10 is 10/s.")
@click.option("--burst", type=ValueOrNone(click.INT), metavar="N|none", help="The most at once after idle time.")
@click.option("--key-max-inflight", type=ValueOrNone(click.INT), metavar="N|none", help="The same for each limit key.")
@click.option("--key-rate", type=ValueOrNone(RATE), metavar="RATE|none", help="Reservations of each limit key.")
@click.option("--key-burst", type=ValueOrNone(click.INT), metavar="N|none", help="The most of a key at once.")
@click.option("--reset", is_flag=True, help="Remove all limits; a worker that starts proposes its own again.")
@_TYPE
@NEW
@JSON
@pass_session
def limit(
    session: Session, /, name: str, type_: str | None, *, reset: bool, new: bool, as_json: bool, **options: Any
) -> None:
    """Limit how many jobs of a queue run at once or start per second.

    Without options, shows the limits. Limits that are not named do not change; none removes a limit. Removing the rate
    also removes the burst. Limits that are set here replace those of the settings and of handlers, until --reset.

    --key-max-inflight, --key-rate and --key-burst limit the jobs of each limit key of the queue: of each host or
    customer. Setting one of them also lets keys run that a handler has paused.
    """
    if type_ is not None:
        _refuse_key_limits(options)
    if reset and any(value is not None for value in options.values()):
        raise click.UsageError("wanted either --reset or limits, got both")
    changes = _limit_changes(dict.fromkeys(options, False) if reset else options)
    if changes:
        changes["limits_from"] = None if reset else LimitOrigin.OPERATOR
    change_settings(session, name, type_, changes, new=new, as_json=as_json)


def _refuse_key_limits(options: dict[str, Any]) -> None:
    """Remove the options of limits by key, which a type does not have."""
    named = [field for field in KEY_LIMIT_FIELDS if options.pop(field) is not None]
    if named:
        raise click.UsageError(f"--{named[0].replace('_', '-')}: wanted a queue without --type")


def _limit_changes(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields to change; a limit that is False, from ``none``, is removed."""
    changes = {field: value or None for field, value in options.items() if value is not None}
    for field, value in options.items():
        if value == 0 and value is not False:
            raise click.UsageError(f"--{field.replace('_', '-')}: wanted at least 1, or none, got 0")
    for rate, burst in RATES:
        if rate in changes and changes[rate] is None:
            changes.setdefault(burst, None)
    return changes


@queue.command()
@click.argument("name")
@click.option("--for", "length", type=DURATION, metavar="DURATION", help="For jobs that do not say how long: 1h, 2d.")
@NEW
@JSON
@pass_session
def keys(session: Session, name: str, length: timedelta | None, *, new: bool, as_json: bool) -> None:
    """Set for how long idempotency keys of a queue are taken at least.

    Without --for, shows it; the default is 1d. A job can have its own rule: see `enqueue --unique`. Keys that exist
    keep their end.
    """
    changes = {} if length is None else {"dedupe_window": from_timedelta(length)}
    change_settings(session, name, None, changes, new=new, as_json=as_json, describe=_describe_keys)


def _describe_keys(_: Output, settings: QueueSettings) -> str:
    return f"a key is taken for {_format_window(settings)}, and while its job has not ended"


def _format_window(settings: QueueSettings) -> str:
    return _format_length(settings.dedupe_window)


def _format_length(microseconds: int) -> str:
    return duration.format_exact(timedelta(microseconds=microseconds))


def change_settings(
    session: Session,
    name: str,
    type_: str | None,
    changes: dict[str, Any],
    *,
    new: bool,
    as_json: bool,
    describe: Callable[[Output, QueueSettings], str] | None = None,
) -> None:
    """Change some settings, keep the others, and print the result."""
    store, output = session.store(create=new), session.output
    settings = store.do(Settings(queue=name, type=type_))
    if not new and not _is_configured(store, name, type_):
        _check_known(store, [name], store.do(Counts(queues=[name], states=NOT_DONE)))
    changed = replace(settings, **changes)
    fields_changed = set(changes).union(*(pair for pair in RATES if set(pair) & changes.keys()))
    if changed != settings or fields_changed & set(KEY_LIMIT_FIELDS):  # which also ends the holds of keys
        store.do(Configure(queue=name, settings=changed, type=type_, only=sorted(fields_changed)))
    if as_json:
        type_field = {"type": type_} if type_ else {}
        output.print_json({"queue": name, **type_field, "settings": json_values.queue_settings(changed)})
    else:
        shown = (describe or _describe_limits)(output, changed) or "no pause and no limits"
        output.print_line(f"{name}{f' ({type_})' if type_ else ''}: {shown}")


def _is_configured(store: Store, name: str, type_: str | None = None) -> bool:
    """Whether a setting of this queue differs from its default."""
    settings, default = store.do(Settings(queue=name, type=type_)), QueueSettings()
    return any(getattr(settings, field.name) != getattr(default, field.name) for field in fields(default))


def _check_known(store: Store, names: Sequence[str], counts: Sequence[QueueCounts]) -> None:
    """Raise for a queue without jobs and settings. Done jobs are counted only if nothing else is known of the queue."""
    for name in names:
        if name in {row.queue for row in counts} or _is_configured(store, name):
            continue
        if not store.counts([name]):
            raise _unknown_queue(store, name)


def _unknown_queue(store: Store, name: str) -> CommandFailed:
    """The error for a queue without jobs and settings: a queue exists from its first job, so its name may be a typo."""
    queues = sorted({row.queue for row in store.counts()})
    known = f"; there are {', '.join(queues[:10])}{' ...' if len(queues) > 10 else ''}" if queues else ""
    return CommandFailed(ExitCode.NOT_FOUND, f"no queue {name} in this space: it has no jobs and no settings{known}")


# Draining ---------------------------------------------------------------------------------------------------


@queue.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--timeout", type=DURATION, metavar="DURATION", help="Give up after this long, with exit code 5.")
@click.option("--due", is_flag=True, help="Do not wait for jobs that are scheduled for later.")
@pass_session
def drain(session: Session, names: tuple[str, ...], timeout: timedelta | None, *, due: bool) -> None:
    """Wait until queues are empty.

    A queue is empty if no job is ready, scheduled or in flight. The jobs are counted from time to time.
    """
    store, output = session.store(), session.output
    deadline = None if timeout is None else monotonic() + timeout.total_seconds()
    counts, seconds = _timed_counts(store, names)
    _check_known(store, names, counts)
    for name in names:
        rows = [row for row in counts if row.queue == name]
        if is_paused(output, store.do(Settings(queue=name))) and _unfinished(rows, due=due):
            output.print_note(f"{name} is paused: it cannot become empty before it is resumed")
    total = _unfinished(counts, due=due)
    with output.progress_bar(f"drain {', '.join(names)}", total) as update:
        while left := _unfinished(counts, due=due):
            total = max(total, left)  # jobs may be enqueued meanwhile
            update(total - left, total)
            _sleep(seconds, deadline, f"{left} jobs are left in {', '.join(names)}")
            counts, seconds = _timed_counts(store, names)
    output.print_line(f"{', '.join(names)}: empty")


def _sleep(seconds: float, deadline: float | None, failure: str) -> None:
    """Sleep until the next count, after one that took so many seconds. Raises ``CommandFailed`` at the deadline."""
    if deadline is not None and monotonic() >= deadline:
        raise CommandFailed(ExitCode.TIMED_OUT, failure)
    interval = max(MIN_COUNT_INTERVAL_SECONDS, seconds * COUNT_INTERVAL_FACTOR)
    time.sleep(interval if deadline is None else max(0.0, min(interval, deadline - monotonic())))


def _timed_counts(
    store: Store, names: Sequence[str], states: Sequence[State] = OPEN
) -> tuple[list[QueueCounts], float]:
    """Return the counts and the seconds that counting took."""
    began = monotonic()
    return store.do(Counts(queues=list(names), states=states)), monotonic() - began


def _unfinished(counts: Sequence[QueueCounts], *, due: bool) -> int:
    return sum(row.ready + row.inflight + (0 if due else row.scheduled) for row in counts)
