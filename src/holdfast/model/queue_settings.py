"""What an operator says of a queue, or of one type in a queue, and the arithmetic that `reserve` does with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from holdfast.clock import DAY, SECOND
from holdfast.errors import InvalidInput
from holdfast.model import bounds


class OnExhausted(StrEnum):
    """What a domain does when its head fails for good."""

    SKIP = "skip"
    HALT = "halt"


JOB = 1_000_000  # the level of a bucket is counted in millionths of jobs
FLOAT_NOISE = 0.001  # of such a millionth: 0.1 * 10_000_000 may end just below 1_000_000


class Bucket(NamedTuple):
    """What was left of a rate limit at an instant; no bucket is a full one."""

    level: int
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Pause, concurrency and rate limits, honoured inside ``reserve``: exact, and free of extra round trips.

    With settings for both a queue and a type in it, a job must fit both.
    """

    paused_until: int | None = None  # an instant; bounds.MAX_INSTANT is until resumed
    max_inflight: int | None = None
    rate: float | None = None  # reservations per second
    burst: int | None = None  # how many may come at once after a quiet time; default: one second's worth
    on_exhausted: OnExhausted = OnExhausted.SKIP
    dedupe_window: int = DAY  # how long an idempotency key is remembered at least (of a queue, not of a type)

    def __post_init__(self) -> None:
        """Everything in range; a rate of nothing is a pause."""
        if self.paused_until is not None:
            bounds.integer("paused_until", self.paused_until, most=bounds.MAX_INSTANT)
        if self.max_inflight is not None:
            bounds.integer("max_inflight", self.max_inflight, least=1)
        if self.rate is not None and not (isinstance(self.rate, int | float) and 0 < self.rate <= SECOND):
            raise InvalidInput("rate", wanted="more than 0 and at most 1000000 per second", got=self.rate)
        if self.burst is not None:
            bounds.integer("burst", self.burst, least=1)
            if self.rate is None:
                raise InvalidInput("burst", wanted="a rate beside it", got="burst alone")
        bounds.integer("dedupe_window", self.dedupe_window, least=1, most=bounds.MAX_LENGTH)

    def limits(self, now: int) -> bool:
        """Whether not everything that is due may be reserved now."""
        paused = self.paused_until is not None and now < self.paused_until
        return paused or self.max_inflight is not None or self.rate is not None

    def allowance(self, *, inflight: int, bucket: Bucket | None, now: int) -> int:
        """How many more jobs may be reserved now, given how many are in flight and what is left in the bucket."""
        if self.paused_until is not None and now < self.paused_until:
            return 0
        left = bounds.MAX_BATCH
        if self.max_inflight is not None:
            left = min(left, max(0, self.max_inflight - inflight))
        if self.rate is not None:
            left = min(left, self._level(bucket, now) // JOB)
        return left

    def bucket_after(self, taken: int, bucket: Bucket | None, now: int) -> Bucket:
        """The bucket once ``taken`` jobs were reserved."""
        return Bucket(self._level(bucket, now) - taken * JOB, now)

    def _level(self, bucket: Bucket | None, now: int) -> int:
        """Microseconds times jobs per second are millionths of jobs: whole rates lose nothing to rounding."""
        assert self.rate is not None
        full = (self.burst if self.burst is not None else max(1, math.ceil(self.rate))) * JOB
        if bucket is None:
            return full
        return min(full, bucket.level + math.floor(max(0, now - bucket.at) * self.rate + FLOAT_NOISE))
