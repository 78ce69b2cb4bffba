"""What an operator says of a queue, or of one type in a queue, and the arithmetic that `reserve` does with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from holdfast.clock import DAY, SECOND
from holdfast.errors import InvalidInput
from holdfast.model import bounds


class OnExhausted(StrEnum):
    """What a domain does when its head fails for good."""

    SKIP = "skip"
    HALT = "halt"


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

    def allowance(self, *, inflight: int, full_at: int, now: int) -> int:
        """How many more jobs may be reserved now, given how many are in flight and when the bucket is full again."""
        if self.paused_until is not None and now < self.paused_until:
            return 0
        left = bounds.MAX_BATCH
        if self.max_inflight is not None:
            left = min(left, max(0, self.max_inflight - inflight))
        if self.rate is not None:
            missing = max(0, full_at - now) * self.rate / SECOND
            left = min(left, max(0, math.floor(self._burst - missing + _ROUNDING)))
        return left

    def full_at_after(self, taken: int, *, full_at: int, now: int) -> int:
        """When the bucket will be full again, now that ``taken`` were reserved. Its whole state is this one instant."""
        if self.rate is None:
            return full_at
        return max(full_at, now) + math.ceil(taken * SECOND / self.rate - _ROUNDING)

    @property
    def _burst(self) -> int:
        assert self.rate is not None
        return self.burst if self.burst is not None else max(1, math.ceil(self.rate))


# A float product such as 3 * (1/3) may end just beside a whole number; a millionth of a job is no job.
_ROUNDING = 1e-6
