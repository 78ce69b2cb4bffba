"""``holdfast queue``: how full queues are, and what operators say of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any

import click

from holdfast.cli import json_values
from holdfast.cli.output import Column, Screen
from holdfast.cli.parameters import INSTANT, LENGTH, RATE, OrNone
from holdfast.cli.session import Code, Group, Session, Stop, pass_session
from holdfast.clock import from_datetime, from_timedelta, monotonic
from holdfast.drivers.contract import QueueCounts, QueueSettings, Store
from holdfast.model import bounds

COUNTED = ("ready", "scheduled", "inflight", "done", "dead", "cancelled")
HEADINGS = ("READY", "SCHED", "INFL", "DONE", "DEAD", "CANC")  # short, so that limits fit beside them
LOOK_EVERY = 0.5  # seconds between two counts, at the least
LOOK_SHARE = 20  # counting reads every job of the space: it may take one part in so many of the time

_TYPE = click.option("--type", "type_", metavar="TYPE", help="Only this type in the queue.")
_NEW = click.option("--new", is_flag=True, help="Also if the queue has no jobs and no settings yet.")
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object: the settings now.")


@click.group(cls=Group)
def queue() -> None:
    """See how full queues are; pause, limit and drain them."""


@queue.command("list")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--types", is_flag=True, help="One row per type.")
@click.option("--json", "as_json", is_flag=True, help="JSON: a list of counts with settings.")
@pass_session
def list_(session: Session, names: tuple[str, ...], *, types: bool, as_json: bool) -> None:
    """Count jobs by queue and state, and show pauses and limits."""
    store, screen = session.store(), session.screen
    counted = store.counts(list(names) or None)
    missing = [name for name in names if name not in {row.queue for row in counted} and not is_configured(store, name)]
    if missing:
        raise unknown(store, missing[0])
    rows = counted if types else summed(counted, names)
    settings = [store.settings(row.queue, type=row.type or None) for row in rows]
    if as_json:
        screen.document([_plain(row, of) for row, of in zip(rows, settings, strict=True)])
        return
    if not rows:
        screen.note("no jobs in this space")
        return
    columns = [Column(title="QUEUE", cut=True), *([Column(title="TYPE", cut=True)] if types else [])]
    screen.table(
        [*columns, *(Column(title=title, right=True) for title in HEADINGS), Column(title="LIMITS", cut=True)],
        [
            (row.queue, *([row.type] if types else []), *(getattr(row, word) for word in COUNTED), said(screen, of))
            for row, of in zip(rows, settings, strict=True)
        ],
    )


def summed(rows: Sequence[QueueCounts], names: Sequence[str] = ()) -> list[QueueCounts]:
    """One row per queue, its types added up; a queue that was asked for and has no jobs is there with zeros."""
    queues = sorted({row.queue for row in rows} | set(names))
    return [
        QueueCounts(
            queue=name,
            type="",
            **{word: sum(getattr(row, word) for row in rows if row.queue == name) for word in COUNTED},
        )
        for name in queues
    ]


def _plain(row: QueueCounts, settings: QueueSettings) -> dict[str, Any]:
    counts = {word: getattr(row, word) for word in COUNTED}
    kind = {"type": row.type} if row.type else {}
    return {"queue": row.queue, **kind, **counts, "settings": json_values.queue_settings(settings)}


def said(screen: Screen, settings: QueueSettings) -> str:
    """What differs from an ordinary queue, in a few words."""
    words = []
    if is_paused(screen, settings):
        until = settings.paused_until
        words.append("paused" if until == bounds.MAX_INSTANT else f"paused, ends {screen.ago(until)}")
    if settings.max_inflight is not None:
        words.append(f"max {settings.max_inflight}")
    if settings.rate is not None:
        words.append(f"{settings.rate:g}/s" + (f" burst {settings.burst}" if settings.burst is not None else ""))
    return ", ".join(words)


def is_paused(screen: Screen, settings: QueueSettings) -> bool:
    """Whether it is paused at this moment, by this host's clock."""
    return settings.paused_until is not None and screen.now() < settings.paused_until


# Settings ---------------------------------------------------------------------------------------------------


@queue.command()
@click.argument("name")
@click.option("--until", type=INSTANT, metavar="INSTANT", help="Resume by itself then.")
@click.option("--for", "length", type=LENGTH, metavar="LENGTH", help="Resume by itself after this long.")
@_TYPE
@_NEW
@_JSON
@pass_session
def pause(
    session: Session,
    name: str,
    until: datetime | None,
    length: timedelta | None,
    type_: str | None,
    *,
    new: bool,
    as_json: bool,
) -> None:
    """Hand out no more jobs of a queue.

    Running ones go on, new ones are accepted. Without --until or --for, until it is resumed.
    """
    if until is not None and length is not None:
        raise click.UsageError("wanted either --until or --for, got both")
    paused_until = bounds.MAX_INSTANT
    if until is not None:
        paused_until = from_datetime(until)
    elif length is not None:
        paused_until = session.screen.now() + from_timedelta(length)
    if paused_until <= session.screen.now():
        raise click.UsageError("wanted a pause that ends later than now")
    _change(session, name, type_, {"paused_until": paused_until}, new=new, as_json=as_json)


@queue.command()
@click.argument("name")
@_TYPE
@_JSON
@pass_session
def resume(session: Session, name: str, type_: str | None, *, as_json: bool) -> None:
    """End a pause."""
    _change(session, name, type_, {"paused_until": None}, new=False, as_json=as_json)


@queue.command()
@click.argument("name")
@click.option("--max-inflight", type=OrNone(click.INT), metavar="N|none", help="The most jobs that run at once.")
@click.option("--rate", type=OrNone(RATE), metavar="RATE|none", help="Reservations: 10/s, 600/m, 5/h; 10 is 10/s.")
@click.option("--burst", type=OrNone(click.INT), metavar="N|none", help="How many may come at once after a quiet time.")
@_TYPE
@_NEW
@_JSON
@pass_session
def limit(session: Session, /, name: str, type_: str | None, *, new: bool, as_json: bool, **options: Any) -> None:
    """Limit how much of a queue runs at once or per second.

    Without options, shows the limits. What is not named stays as it is; none takes a limit away. Taking the rate away
    takes the burst with it.
    """
    changes = {field: value or None for field, value in options.items() if value is not None}
    for field, value in options.items():
        if value == 0 and value is not False:
            raise click.UsageError(f"--{field.replace('_', '-')}: wanted at least 1, or none, got 0")
    if "rate" in changes and changes["rate"] is None:
        changes.setdefault("burst", None)
    _change(session, name, type_, changes, new=new, as_json=as_json)


def _change(
    session: Session, name: str, type_: str | None, changes: dict[str, Any], *, new: bool, as_json: bool
) -> None:
    """Change what is named and keep the rest; shows the settings as they are now."""
    store, screen = session.store(create=new), session.screen
    settings = store.settings(name, type=type_)
    if not new and not is_configured(store, name, type_) and not store.counts([name]):
        raise unknown(store, name)
    changed = replace(settings, **changes)
    if changed != settings:
        store.configure(name, changed, type=type_)
    if as_json:
        kind = {"type": type_} if type_ else {}
        screen.document({"queue": name, **kind, "settings": json_values.queue_settings(changed)})
    else:
        screen.line(f"{name}{f' ({type_})' if type_ else ''}: {said(screen, changed) or 'no pause and no limits'}")


def is_configured(store: Store, name: str, type_: str | None = None) -> bool:
    """Whether anybody has said anything of this queue."""
    given, default = store.settings(name, type=type_), QueueSettings()
    return any(getattr(given, field.name) != getattr(default, field.name) for field in fields(default))


def unknown(store: Store, name: str) -> Stop:
    """A queue is made by its first job: one without jobs and settings is most likely a slip of the pen."""
    queues = sorted({row.queue for row in store.counts()})
    known = f"; there are {', '.join(queues[:10])}{' ...' if len(queues) > 10 else ''}" if queues else ""
    return Stop(Code.NOT_FOUND, f"no queue {name} in this space: it has no jobs and no settings{known}")


# Draining ---------------------------------------------------------------------------------------------------


@queue.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--timeout", type=LENGTH, metavar="LENGTH", help="Give up after this long, with exit code 5.")
@click.option("--due", is_flag=True, help="Do not wait for jobs that are scheduled for later.")
@pass_session
def drain(session: Session, names: tuple[str, ...], timeout: timedelta | None, *, due: bool) -> None:
    """Wait until queues are empty.

    Empty is: nothing ready, nothing scheduled, nothing in flight. On the way it counts jobs now and then.
    """
    store, screen = session.store(), session.screen
    deadline = None if timeout is None else monotonic() + timeout.total_seconds()
    counted, took = _counted(store, names)
    for name in names:
        if name not in {row.queue for row in counted} and not is_configured(store, name):
            raise unknown(store, name)
        if is_paused(screen, store.settings(name)) and _left([row for row in counted if row.queue == name], due=due):
            screen.note(f"{name} is paused: it will not get empty before it is resumed")
    total = _left(counted, due=due)
    with screen.bar(f"drain {', '.join(names)}", total) as step:
        while left := _left(counted, due=due):
            total = max(total, left)  # more may come while we wait
            step(total - left, total)
            if deadline is not None and monotonic() >= deadline:
                raise Stop(Code.TIMED_OUT, f"{left} jobs are left in {', '.join(names)}")
            pause = max(LOOK_EVERY, took * LOOK_SHARE)
            time.sleep(pause if deadline is None else max(0.0, min(pause, deadline - monotonic())))
            counted, took = _counted(store, names)
    screen.line(f"{', '.join(names)}: empty")


def _counted(store: Store, names: Sequence[str]) -> tuple[list[QueueCounts], float]:
    began = monotonic()
    return store.counts(list(names)), monotonic() - began


def _left(counted: Sequence[QueueCounts], *, due: bool) -> int:
    return sum(row.ready + row.inflight + (0 if due else row.scheduled) for row in counted)
