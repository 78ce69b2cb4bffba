"""What schedulers keep in the registry: the state of each schedule, and one index of what is due.

| kind | key | value |
|---|---|---|
| ``schedule`` | the name | ``ScheduleState`` |
| ``schedule.due`` | ``<instant>.s.<name>.<random tag>`` | empty |

A scan of the index in the order of its keys stops at the first instant after now, so that a tick costs what is due and
not what exists. The index only points: a key counts if the state that it names has the same key as its ``due``. Every
write of a state makes a new key, so a key that does not count now never will, and can be removed.

An older version let fires wait for jobs: their entries have the kind ``schedule.watch``, and the letter ``w`` in the
index. They fire nothing, and are removed when they are due.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import msgspec

from holdfast.cron.schedule import Schedule
from holdfast.model.registry import Change, Entry

STATE_KIND = "schedule"
WATCH_KIND = "schedule.watch"
DUE_KIND = "schedule.due"
INSTANT_DIGITS = 18  # of the largest instant: keys sort as instants do

_KINDS = {"s": STATE_KIND, "w": WATCH_KIND}
_REMOVED_FIELDS = frozenset({"completed", "on_complete"})  # an older version stored them: fires wait for no job


class Source(StrEnum):
    """Where a schedule comes from."""

    CODE = "code"  # of an app or its settings: a scheduler declares it when it starts
    DYNAMIC = "dynamic"  # put into the store by ``app.schedules``


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A fire that did not become a job, although it was due."""

    fire: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """A schedule as it is stored. Instants are microseconds.

    ``due`` is the key in the index. It is None for a schedule that does not fire: it is disabled, paused, or a schedule
    of code that no running scheduler declares.
    """

    source: Source
    definition: dict[str, object]  # of ``Schedule.to_json``
    fingerprint: str
    signature: str | None = None  # of the definition
    declared_at: int
    next_fire: int | None = None
    due: str | None = None
    paused: bool = False
    undeclared: bool = False  # it was overdue, and no scheduler that declares it was running
    last_fire: int | None = None
    last_job: str | None = None  # of the last fire
    last_drop: Drop | None = None

    @property
    def schedule(self) -> Schedule:
        """The definition. Raises ``InvalidInput`` for one that this version of Holdfast cannot read."""
        return Schedule.from_json({name: one for name, one in self.definition.items() if name not in _REMOVED_FIELDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A state with its key, and with the version of its entry; version 0: there is no entry yet."""

    key: str
    value: ScheduleState
    version: int = 0


class DueKey(NamedTuple):
    """A key of the index, taken apart."""

    text: str
    instant: int
    kind: str
    key: str  # of the entry


def make_due_key(name: str, instant: int) -> str:
    """Return a new key of the index for a schedule."""
    return f"{instant:0{INSTANT_DIGITS}d}.s.{name}.{secrets.token_hex(4)}"


def read_due_key(text: str) -> DueKey | None:
    """Take a key of the index apart; None if a later version of Holdfast has written it."""
    instant, _, rest = text.partition(".")
    letter, _, rest = rest.partition(".")
    key, _, _tag = rest.rpartition(".")
    if not instant.isdecimal() or letter not in _KINDS or not key:
        return None
    return DueKey(text, int(instant), _KINDS[letter], key)


def with_next_fire(name: str, state: ScheduleState, next_fire: int | None) -> ScheduleState:
    """Return the state with another next fire, and a new key in the index; without both if it must not fire."""
    if state.paused or next_fire is None:
        return replace(state, next_fire=None, due=None)
    return replace(state, next_fire=next_fire, due=make_due_key(name, next_fire))


_encode = msgspec.json.Encoder().encode


def read_state(entry: Entry) -> Stored | None:
    """Return the state of an entry; None for one that this version of Holdfast cannot read."""
    try:
        value = msgspec.json.decode(entry.value or b"", type=ScheduleState)
    except msgspec.MsgspecError:
        return None
    return Stored(key=entry.key, value=value, version=entry.version)


def changes_of(before: Stored | None, after: Stored | None) -> list[Change]:
    """Return the changes that create, replace or remove a state, and its key in the index. They are made together.

    Only the change of the entry expects a version: if another scheduler was first, none is made.
    """
    one = after or before
    assert one is not None, "there is something to change"
    old = None if before is None else before.value.due
    new = None if after is None else after.value.due
    assert new is None or new != old, "every write makes a new key: another scheduler may be removing the old one"
    value = None if after is None else _encode(after.value)
    changes = [Change(kind=STATE_KIND, key=one.key, value=value, version=0 if before is None else before.version)]
    if old is not None:
        changes.append(Change(kind=DUE_KIND, key=old, value=None))
    if new is not None:
        changes.append(Change(kind=DUE_KIND, key=new, value=b""))
    return changes
