"""The settings of a queue, or of one type in a queue, and how ``reserve`` computes with them."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from holdfast.clock import DAY, SECOND
from holdfast.errors import InvalidInput
from holdfast.model import bounds


class OnExhausted(StrEnum):
    """What happens to a domain when its first job fails for good."""

    SKIP = "skip"
    HALT = "halt"


class Gaps(StrEnum):
    """What happens when an offset of a domain is missing between those that have ended and those that have arrived."""

    PASS = "pass"  # noqa: S105 - not a password. The next larger offset runs
    WAIT = "wait"  # the domain waits for the missing offset


class LimitOrigin(StrEnum):
    """Who set the limits of a queue or of a type in it: a later one wins over an earlier one."""

    HANDLER = "handler"
    SETTINGS = "settings"
    OPERATOR = "operator"


LEVEL_PER_JOB = 1_000_000  # the level of a bucket is in millionths of jobs
DEFAULT_BREAKER_COOLDOWN = timedelta(minutes=1)
ROUNDING_TOLERANCE = 0.001  # millionths of jobs: 0.1 * 10_000_000 may be just below 1_000_000


class Bucket(NamedTuple):
    """What was left of a rate limit at an instant. A rate limit without a bucket is unused."""

    level: int
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Pause, concurrency and rate limits. ``reserve`` applies them exactly, without extra round trips.

    If a queue and a type in it both have settings, both apply to a job of that type. Only a queue has limits that begin
    with ``key_``: they apply to the jobs of each ``limit_key`` in it, beside the others, and not to jobs without one.
    ``on_exhausted``, ``gaps`` and the times of gaps are settings of a queue too: they apply to each of its domains.
    """

    paused_until: int | None = None  # an instant; bounds.MAX_INSTANT: until an operator resumes the queue
    max_inflight: int | None = None
    rate: float | None = None  # reservations per second
    burst: int | None = None  # reservations at once after an idle time; default: as many as in one second
    on_exhausted: OnExhausted = OnExhausted.SKIP
    dedupe_window: int = DAY  # minimum time that a key is remembered; of a queue, not of a type
    # Set by workers, so that an operator's pause and limits stay. The stricter of both applies.
    held_until: int | None = None  # an instant: an open breaker, or a handler that paused its type
    probing: bool = False  # a breaker is open or half open: at most one job in flight
    key_max_inflight: int | None = None
    key_rate: float | None = None  # reservations per second
    key_burst: int | None = None  # like ``burst``
    gaps: Gaps = Gaps.PASS
    gap_report_after: int | None = None  # microseconds that a domain waits before the gap is overdue; None: never
    gap_pass_after: int | None = None  # microseconds that a domain waits before it passes the gap; None: for ever
    limits_from: LimitOrigin | None = None  # who set the limits; limits without an origin count as an operator's

    def __post_init__(self) -> None:
        """Check every value; a rate of 0 is refused, because that is a pause."""
        if self.paused_until is not None:
            bounds.check_integer("paused_until", self.paused_until, most=bounds.MAX_INSTANT)
        _check_limits(self.max_inflight, self.rate, self.burst)
        _check_limits(self.key_max_inflight, self.key_rate, self.key_burst, prefix="key_")
        bounds.check_integer("dedupe_window", self.dedupe_window, least=1, most=bounds.MAX_DURATION)
        if self.held_until is not None:
            bounds.check_integer("held_until", self.held_until, most=bounds.MAX_INSTANT)
        if type(self.probing) is not bool:
            raise InvalidInput("probing", wanted="True or False", got=self.probing)
        if not isinstance(self.on_exhausted, OnExhausted):
            raise InvalidInput("on_exhausted", wanted="an OnExhausted", got=self.on_exhausted)
        if not isinstance(self.gaps, Gaps):
            raise InvalidInput("gaps", wanted="a Gaps", got=self.gaps)
        bounds.check_optional_integer("gap_report_after", self.gap_report_after, least=1, most=bounds.MAX_DURATION)
        bounds.check_optional_integer("gap_pass_after", self.gap_pass_after, least=1, most=bounds.MAX_DURATION)
        if self.limits_from is not None and not isinstance(self.limits_from, LimitOrigin):
            raise InvalidInput("limits_from", wanted="a LimitOrigin", got=self.limits_from)

    def merge(self, other: QueueSettings, only: Collection[str] | None) -> QueueSettings:
        """Return these settings with the fields ``only`` of the others; with all fields of the others for None."""
        if only is None:
            return other
        return replace(self, **{name: getattr(other, name) for name in changed_fields(only)})

    def accepts(self, other: QueueSettings, only: Collection[str] | None) -> bool:
        """Whether ``configure`` may change these settings: proposed limits replace none of a higher origin."""
        if not is_proposal(other, only) or self.limit_origin in {None, LimitOrigin.HANDLER}:
            return True
        return self.limit_origin is other.limits_from

    @property
    def limit_origin(self) -> LimitOrigin | None:
        """Who set the limits; None if nobody did."""
        if self.limits_from is None and any(getattr(self, name) is not None for name in LIMIT_FIELDS):
            return LimitOrigin.OPERATOR
        return self.limits_from

    @property
    def has_key_limits(self) -> bool:
        """Whether jobs are limited by their ``limit_key``."""
        return self.key_max_inflight is not None or self.key_rate is not None

    @property
    def has_gap_settings(self) -> bool:
        """Whether domains wait for missing offsets, or would after a change of ``gaps``."""
        return self.gaps is Gaps.WAIT or self.gap_report_after is not None or self.gap_pass_after is not None

    def of_key(self, held_until: int | None = None) -> QueueSettings:
        """Return the limits of one key as settings; ``held_until`` is the end of the hold of this key."""
        return QueueSettings(
            max_inflight=self.key_max_inflight, rate=self.key_rate, burst=self.key_burst, held_until=held_until
        )

    def is_limiting(self, now: int) -> bool:
        """Whether a pause or a limit may keep due jobs from being reserved."""
        return self._is_paused(now) or self.max_inflight is not None or self.rate is not None or self.probing

    def allowance(self, *, inflight: int, bucket: Bucket | None, now: int) -> int:
        """Return how many more jobs may be reserved now; ``inflight`` jobs and the rate bucket count against it."""
        if self._is_paused(now):
            return 0
        left = bounds.MAX_BATCH_ITEMS
        if self.probing:
            left = max(0, 1 - inflight)
        elif self.max_inflight is not None:
            left = min(left, max(0, self.max_inflight - inflight))
        if self.rate is not None:
            left = min(left, self._level(bucket, now) // LEVEL_PER_JOB)
        return left

    def bucket_after(self, taken: int, bucket: Bucket | None, now: int) -> Bucket:
        """Return the bucket after ``taken`` jobs were reserved."""
        return Bucket(self._level(bucket, now) - taken * LEVEL_PER_JOB, now)

    def opens_at(self, bucket: Bucket | None, now: int) -> int:
        """Return when the pause and the rate allow the next job; ``now`` if they allow one already.

        ``max_inflight`` has no instant: it allows the next job when one has ended.
        """
        opens_at = max(now, self.paused_until or now, self.held_until or now)
        if self.rate is not None and bucket is not None and self._level(bucket, opens_at) < LEVEL_PER_JOB:
            missing = LEVEL_PER_JOB - bucket.level
            opens_in = min((missing - ROUNDING_TOLERANCE) / self.rate, float(bounds.MAX_INSTANT))
            opens_at = bucket.at + math.ceil(opens_in)
            if self._level(bucket, opens_at) < LEVEL_PER_JOB:  # the division was rounded down
                opens_at += 1
        return opens_at

    def is_idle(self, bucket: Bucket | None, now: int) -> bool:
        """Whether no pause is in force and the rate is unused: nothing of the past limits the next jobs."""
        level = self.unused_level
        return not self._is_paused(now) and (level is None or bucket is None or self._refilled(bucket, now) >= level)

    @property
    def unused_level(self) -> int | None:
        """The level from which on a bucket is as good as none; None without a rate."""
        return None if self.rate is None else self._full + LEVEL_PER_JOB

    def _is_paused(self, now: int) -> bool:
        return now < max(self.paused_until or 0, self.held_until or 0)

    def _level(self, bucket: Bucket | None, now: int) -> int:
        """Return the level now. Microseconds times jobs per second are millionths of jobs, so whole rates are exact.

        What exceeds the full level by less than one job is kept: a reserve that comes late by less than the time of
        one job loses nothing, and a busy queue keeps its rate, whatever the burst. More than that is an idle time.
        """
        if bucket is None:
            return self._full
        level = self._refilled(bucket, now)
        return level if level < self._full + LEVEL_PER_JOB else self._full

    @property
    def _full(self) -> int:
        assert self.rate is not None
        return (self.burst if self.burst is not None else max(1, math.ceil(self.rate))) * LEVEL_PER_JOB

    def _refilled(self, bucket: Bucket, now: int) -> int:
        assert self.rate is not None
        return bucket.level + math.floor(max(0, now - bucket.at) * self.rate + ROUNDING_TOLERANCE)


def _check_limits(max_inflight: object, rate: object, burst: object, *, prefix: str = "") -> None:
    if max_inflight is not None:
        bounds.check_integer(f"{prefix}max_inflight", max_inflight, least=1)
    if rate is not None and not (isinstance(rate, int | float) and 0 < rate <= SECOND):
        raise InvalidInput(f"{prefix}rate", wanted="more than 0 and at most 1000000 per second", got=rate)
    if burst is not None:
        bounds.check_integer(f"{prefix}burst", burst, least=1)
        if rate is None:
            raise InvalidInput(f"{prefix}burst", wanted="a rate beside it", got="burst alone")


def replaces_key_limits(only: Collection[str] | None) -> bool:
    """Whether ``configure`` with this ``only`` replaces limits by key."""
    return only is None or not set(KEY_LIMIT_FIELDS).isdisjoint(only)


def changed_fields(only: Collection[str] | None) -> tuple[str, ...]:
    """Return the fields that ``configure`` with this ``only`` replaces: ``limits_from`` with any limit."""
    if only is None:
        return SETTINGS_FIELDS
    return tuple(only) if set(LIMIT_FIELDS).isdisjoint(only) else (*only, "limits_from")


def is_proposal(settings: QueueSettings, only: Collection[str] | None) -> bool:
    """Whether ``configure`` with these arguments proposes limits, which do not replace those of a higher origin."""
    return only is not None and settings.limits_from in PROPOSERS and "limits_from" in changed_fields(only)


PROPOSERS = (LimitOrigin.HANDLER, LimitOrigin.SETTINGS)
TYPE_LIMIT_FIELDS = ("max_inflight", "rate", "burst")
KEY_LIMIT_FIELDS = ("key_max_inflight", "key_rate", "key_burst")
LIMIT_FIELDS = (*TYPE_LIMIT_FIELDS, *KEY_LIMIT_FIELDS)  # of a queue; a type has those of TYPE_LIMIT_FIELDS
SETTINGS_FIELDS = tuple(field.name for field in fields(QueueSettings))
