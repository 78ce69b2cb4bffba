"""``Schedule``: when a job is enqueued again and again, and which job. A value that can be stored as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.clock import from_timedelta, to_timedelta
from holdfast.cron.expression import CronExpression
from holdfast.cron.window import TimeWindow
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.request import RequestKeywords, check_meta, check_single_instance
from holdfast.wire.codec import JSON

MAX_PAYLOAD_BYTES = 32 << 10  # a schedule is one registry entry, together with its state
MAX_META_BYTES = 8 << 10
MAX_DEPENDENCIES = 100
MAX_ENVIRONMENTS = 32
MAX_MISSED = 10_000  # the largest ``max_missed``
DEFAULT_GRACE = timedelta(minutes=1)
FINGERPRINT_CHARACTERS = 16

_canonical = msgspec.json.Encoder(order="sorted").encode
_DURATIONS = frozenset({"timeout", "jitter", "grace"})  # microseconds in JSON
_NAMES = frozenset({"environments", "depends_on"})  # arrays in JSON


class Missed(StrEnum):
    """What happens to fires that are late by more than ``grace``, because no scheduler was running."""

    SKIP = "skip"  # none of them fires
    LAST = "last"  # only the newest one fires
    ALL = "all"  # each one fires, at most ``max_missed``; the oldest are dropped first


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A cron expression and the job that each fire enqueues. All values are checked here, once.

    ``queue``, ``priority``, ``max_attempts`` and ``timeout`` that are None are those of the handler of the type. A
    schedule without a queue runs inline in ``CronRunner.run`` and is enqueued by a scheduler that loops.
    """

    name: str
    expression: str
    timezone: str = "UTC"
    window: TimeWindow | None = None  # only fires with a wall time in it
    type: str
    payload: object = None  # JSON, kept as plain values
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    timeout: timedelta | None = None
    meta: Mapping[str, object] = field(default_factory=dict)
    single_instance: bool | str = False  # as in ``JobRequest``
    jitter: timedelta = timedelta(0)  # each job runs up to this much later, by an amount that every node agrees on
    enabled: bool = True
    environments: tuple[str, ...] = ()  # fires only where the setting ``environment`` is one of them; empty: everywhere
    depends_on: tuple[str, ...] = ()  # names of schedules
    missed: Missed = Missed.LAST
    max_missed: int = 100
    grace: timedelta = DEFAULT_GRACE

    def __post_init__(self) -> None:
        """Check every field."""
        bounds.check_name("schedule", self.name)
        self.cron  # noqa: B018 - checks expression, time zone and window
        bounds.check_name("type", self.type)
        if self.queue is not None:
            bounds.check_name("queue", self.queue)
        bounds.check_optional_integer("priority", self.priority, most=bounds.PRIORITIES[-1])
        bounds.check_optional_integer("max_attempts", self.max_attempts, least=1)
        if self.timeout is not None:
            bounds.duration_from("timeout", self.timeout, least=1)
        check_single_instance(self.single_instance)
        bounds.duration_from("jitter", self.jitter)
        bounds.duration_from("grace", self.grace)
        bounds.check_integer("max_missed", self.max_missed, least=1, most=MAX_MISSED)
        if type(self.enabled) is not bool:
            raise InvalidInput("enabled", wanted="true or false", got=self.enabled)
        object.__setattr__(self, "missed", _missed(self.missed))
        object.__setattr__(self, "environments", _names("environments", self.environments, MAX_ENVIRONMENTS))
        object.__setattr__(self, "depends_on", _names("depends_on", self.depends_on, MAX_DEPENDENCIES))
        if self.name in self.depends_on:
            raise InvalidInput("depends_on", wanted="other schedules", got=f"{self.name} itself")
        # Plain JSON values: equal to what ``from_json`` returns, and not shared with the caller.
        payload = bounds.check_blob("payload", JSON.encode(self.payload), most=MAX_PAYLOAD_BYTES)
        object.__setattr__(self, "payload", JSON.decode(payload))
        check_meta(self.meta)
        meta = bounds.check_blob("meta", JSON.encode(self.meta, field="meta"), most=MAX_META_BYTES)
        object.__setattr__(self, "meta", JSON.decode(meta))

    @property
    def cron(self) -> CronExpression:
        """The expression in its time zone and window."""
        return CronExpression(self.expression, self.timezone, self.window)

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after an instant, in the time zone: see ``CronExpression.next_after``."""
        return self.cron.next_after(instant)

    def describe(self) -> str:
        """Return when it fires, in words."""
        return self.cron.describe()

    def fires_in(self, environment: str) -> bool:
        """Whether it fires where the setting ``environment`` has this value."""
        return not self.environments or environment in self.environments

    def fire_key(self, fire: datetime) -> str:
        """Return the idempotency key of the job of a fire: one job for each schedule, time zone and instant."""
        return f"cron:{self.name}:{self.timezone}:{_instant(fire)}"

    def run_at(self, fire: datetime) -> datetime:
        """Return when the job of a fire may start, in UTC: the fire and its jitter, which is the same on every node."""
        start = fire.astimezone(UTC)  # Python adds to a datetime with a zone as wall time
        if not self.jitter:
            return start
        digest = hashlib.sha256(f"{self.name}\0{_instant(fire)}".encode()).digest()
        share = int.from_bytes(digest[:8]) % from_timedelta(self.jitter)
        return start + to_timedelta(share)

    def request_keywords(self) -> RequestKeywords:
        """Return the fields of ``JobRequest`` that the schedule sets. The handler of the type says the others."""
        keywords: RequestKeywords = {}
        if self.queue is not None:
            keywords["queue"] = self.queue
        if self.priority is not None:
            keywords["priority"] = self.priority
        if self.max_attempts is not None:
            keywords["max_attempts"] = self.max_attempts
        if self.timeout is not None:
            keywords["timeout"] = self.timeout
        if self.single_instance:
            keywords["single_instance"] = self.single_instance
        if self.meta:
            keywords["meta"] = self.meta
        return keywords

    def to_json(self) -> dict[str, object]:
        """Return a JSON object with the fields that differ from their defaults."""
        values: dict[str, object] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value != _DEFAULTS.get(each.name, _REQUIRED):
                values[each.name] = _to_json(value)
        return values

    @classmethod
    def from_json(cls, value: object) -> Schedule:
        """Return the schedule in a JSON object. Raises ``InvalidInput``, also for an unknown field."""
        if not isinstance(value, dict):
            raise InvalidInput("schedule", wanted="a JSON object", got=value)
        known = [each.name for each in fields(cls)]
        for name in ("name", "expression", "type"):
            if name not in value:
                raise InvalidInput("schedule", wanted=f"an object with {name}", got=f"the fields {', '.join(value)}")
        if unknown := sorted(value.keys() - set(known)):
            raise InvalidInput("schedule", wanted=f"the fields {', '.join(known)}", got=f"the unknown {unknown[0]!r}")
        return cls(**{name: _from_json(name, one) for name, one in value.items()})

    def fingerprint(self) -> str:
        """Return a hash of what decides when and what fires: of every field but ``enabled``, on every node the same."""
        values = {name: value for name, value in self.to_json().items() if name != "enabled"}
        return hashlib.sha256(_canonical(values)).hexdigest()[:FINGERPRINT_CHARACTERS]


_REQUIRED = object()
_DEFAULTS: dict[str, object] = {
    "meta": {},
    **{each.name: each.default for each in fields(Schedule) if each.name not in {"name", "expression", "type", "meta"}},
}


def _instant(fire: datetime) -> str:
    """Return a fire in UTC: ``2027-03-28T01:00:00Z``."""
    instant = bounds.instant_from("fire", fire)
    return f"{datetime.fromtimestamp(instant // 1_000_000, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"


def _missed(value: object) -> Missed:
    try:
        return Missed(value)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidInput("missed", wanted=f"one of {', '.join(Missed)}", got=value) from None


def _names(field_name: str, names: object, most: int) -> tuple[str, ...]:
    """Check several names: each once."""
    if isinstance(names, str) or not isinstance(names, (tuple, list)) or len(names) > most:
        raise InvalidInput(field_name, wanted=f"at most {most} names", got=names)
    return tuple(dict.fromkeys(bounds.check_name(field_name, name) for name in names))


def _to_json(value: object) -> object:
    match value:
        case timedelta():
            return from_timedelta(value)
        case TimeWindow() | StrEnum():
            return str(value)
        case tuple():
            return list(value)
        case _:
            return value


def _from_json(name: str, value: object) -> Any:  # the constructor checks it
    if name in _DURATIONS and value is not None:
        return to_timedelta(bounds.check_integer(name, value, most=bounds.MAX_DURATION))
    if name == "window" and value is not None:
        start, _, end = str(value).partition("-")
        return TimeWindow.parse(start, end)
    if name in _NAMES and isinstance(value, list):
        return tuple(value)
    return value
