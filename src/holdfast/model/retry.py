"""Retry policies: how long a job waits after a failed attempt. Pure values: the caller passes the random number.

    none                                       at once
    fixed(30s, no jitter)                      the same delay each time
    linear(10s, max 5m, no jitter)             10 s, 20 s, 30 s, ...
    exponential(2s, x2, max 1h, full jitter)   2 s, 4 s, 8 s, ...: the default

A policy decides the delay; ``max_attempts`` of the job decides the number of runs. The texts above are what ``str``
returns and ``parse`` reads. In the brackets only the first duration is required, and the order does not matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, assert_never

from holdfast.clock import from_timedelta, to_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration

MAX_FACTOR = 1000


class RetryPolicy(Protocol):
    """How long a job waits after a failed attempt."""

    def delay(self, attempt: int, random: float) -> timedelta:
        """Return the delay after ``attempt`` failed (1 is the first run); ``random`` is in [0, 1), for jitter."""
        ...


def check_policy(policy: object) -> None:
    """Raise ``InvalidInput`` for a value that is neither a ``RetryPolicy`` nor None."""
    if policy is not None and not callable(getattr(policy, "delay", None)):
        raise InvalidInput("retry", wanted="a policy such as Exponential(timedelta(seconds=2))", got=policy)


class Jitter(StrEnum):
    """How much of a delay is random, so that jobs that failed together do not all run again together."""

    NONE = "no jitter"
    FULL = "full jitter"  # from 0 to the whole delay: spreads the jobs best
    EQUAL = "equal jitter"  # from half of the delay to the whole delay

    def apply(self, delay: int, random: float) -> timedelta:
        """Return a delay, in microseconds, after its random part was applied."""
        match self:
            case Jitter.NONE:
                return to_timedelta(delay)
            case Jitter.FULL:
                return to_timedelta(int(delay * random))
            case Jitter.EQUAL:
                return to_timedelta(delay // 2 + int((delay - delay // 2) * random))
            case _:
                assert_never(self)


@dataclass(frozen=True, slots=True)
class NoDelay:
    """No delay."""

    @property
    def max_delay(self) -> timedelta:
        """The longest possible delay."""
        return timedelta()

    def delay(self, attempt: int, random: float) -> timedelta:  # noqa: ARG002 - of the protocol
        """Return no delay, after any attempt."""
        return timedelta()

    def __str__(self) -> str:
        return "none"


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same delay each time."""

    base: timedelta
    _: KW_ONLY
    jitter: Jitter = Jitter.NONE

    def __post_init__(self) -> None:
        """Check both values."""
        bounds.duration_from("base", self.base)
        _check_jitter(self.jitter)

    @property
    def max_delay(self) -> timedelta:
        """The longest possible delay."""
        return self.base

    def delay(self, attempt: int, random: float) -> timedelta:  # noqa: ARG002 - of the protocol
        """Return the same delay after each attempt; ``random`` is in [0, 1), for jitter."""
        return self.jitter.apply(from_timedelta(self.base), random)

    def __str__(self) -> str:
        return f"fixed({duration.format_exact(self.base)}, {self.jitter})"


@dataclass(frozen=True, slots=True)
class Linear:
    """A delay that grows by ``base`` with each attempt, up to ``max_delay``."""

    base: timedelta
    _: KW_ONLY
    max_delay: timedelta = timedelta(hours=1)
    jitter: Jitter = Jitter.NONE

    def __post_init__(self) -> None:
        """Check every value."""
        _check_growing(self)

    def delay(self, attempt: int, random: float) -> timedelta:
        """Return the delay after ``attempt`` failed (1 is the first run): ``base`` for each attempt, then jitter."""
        length = min(attempt * from_timedelta(self.base), from_timedelta(self.max_delay))
        return self.jitter.apply(length, random)

    def __str__(self) -> str:
        return f"linear({duration.format_exact(self.base)}, max {duration.format_exact(self.max_delay)}, {self.jitter})"


@dataclass(frozen=True, slots=True)
class Exponential:
    """A delay that grows by ``factor`` with each attempt, up to ``max_delay``."""

    base: timedelta = timedelta(seconds=2)
    _: KW_ONLY
    factor: float = 2
    max_delay: timedelta = timedelta(hours=1)
    jitter: Jitter = Jitter.FULL

    def __post_init__(self) -> None:
        """Check every value."""
        _check_growing(self)
        if type(self.factor) not in (int, float) or not 1 <= self.factor <= MAX_FACTOR:
            raise InvalidInput("factor", wanted=f"a number from 1 to {MAX_FACTOR}", got=self.factor)

    def delay(self, attempt: int, random: float) -> timedelta:
        """Return the delay after ``attempt`` failed (1 is the first run): the last one times ``factor``, and jitter."""
        return self.jitter.apply(self._length(attempt - 1), random)

    def _length(self, steps: int) -> int:
        """Compare logarithms first: the power of a large attempt overflows a float, and is slow as an integer."""
        base, cap = from_timedelta(self.base), from_timedelta(self.max_delay)
        if not base:
            return 0
        if steps * math.log(self.factor) >= math.log(cap / base):
            return cap
        return min(round(base * self.factor**steps), cap)

    def __str__(self) -> str:
        factor = int(self.factor) if self.factor == int(self.factor) else self.factor
        base, longest = duration.format_exact(self.base), duration.format_exact(self.max_delay)
        return f"exponential({base}, x{factor}, max {longest}, {self.jitter})"


@dataclass(frozen=True, slots=True)
class Custom:
    """The delay that ``function`` returns for the number of the attempt, up to ``max_delay``. Has no text form."""

    function: Callable[[int], timedelta]
    _: KW_ONLY
    max_delay: timedelta = timedelta(days=1)
    jitter: Jitter = Jitter.NONE

    def __post_init__(self) -> None:
        """Check every value. The function takes one argument, the number of the attempt."""
        if not callable(self.function):
            raise InvalidInput("function", wanted="a function of the attempt's number", got=self.function)
        bounds.duration_from("max_delay", self.max_delay)
        _check_jitter(self.jitter)

    def delay(self, attempt: int, random: float) -> timedelta:
        """Return what the function returns for ``attempt``, at most ``max_delay``; a negative delay counts as zero."""
        delay = self.function(attempt)
        if not isinstance(delay, timedelta):
            raise InvalidInput("delay", wanted="a timedelta from the policy's function", got=delay)
        return self.jitter.apply(from_timedelta(min(max(delay, timedelta()), self.max_delay)), random)

    def __str__(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"custom({name}, max {duration.format_exact(self.max_delay)}, {self.jitter})"


def _check_growing(policy: Linear | Exponential) -> None:
    base = bounds.duration_from("base", policy.base)
    if bounds.duration_from("max_delay", policy.max_delay) < base:
        wanted = f"at least the base, {duration.format_exact(policy.base)}"
        raise InvalidInput("max_delay", wanted=wanted, got=duration.format_exact(policy.max_delay))
    _check_jitter(policy.jitter)


def _check_jitter(jitter: object) -> None:
    if not isinstance(jitter, Jitter):
        raise InvalidInput("jitter", wanted="Jitter.NONE, Jitter.FULL or Jitter.EQUAL", got=jitter)


# With 25 attempts (the default) the delays add up to 7 hours on average and 14 at most: long enough for an outage of a
# night. After it, a job waits an hour at most.
DEFAULT = Exponential()


# Text form, for jobs, settings and command lines ----------------------------------------------------------------

FIELD = "retry policy"  # the name of the value in errors

BuiltInPolicy: TypeAlias = NoDelay | Fixed | Linear | Exponential

_POLICIES: dict[str, type[Fixed | Linear | Exponential]] = {
    "fixed": Fixed,
    "linear": Linear,
    "exponential": Exponential,
}
_POLICY = re.compile(r"([a-z]+)\s*(?:\((.*)\))?")
_FACTOR = re.compile(r"x([0-9]{1,18}(?:\.[0-9]{1,18})?)")
_BUILT_IN = (NoDelay, *_POLICIES.values())
_WANTED_BUILT_IN = (
    "NoDelay, Fixed, Linear or Exponential (a job carries its policy as text; one that is code belongs to the handler)"
)
_WANTED = "a policy such as none, fixed(30s), linear(10s, max 5m) or exponential(2s, x2, max 1h, full jitter)"


def parse(text: str) -> BuiltInPolicy:
    """Return the policy in a text; ``parse(str(policy)) == policy``. Raises ``InvalidInput``."""
    match = _POLICY.fullmatch(bounds.check_text(FIELD, text).strip().lower())
    name, inside = (match[1], match[2]) if match else ("", None)
    if name == "none" and inside is None:
        return NoDelay()
    if name not in _POLICIES or inside is None:
        raise InvalidInput(FIELD, wanted=_WANTED, got=text)
    allowed = _POLICIES[name].__dataclass_fields__
    fields: dict[str, Any] = {}
    for part in (part.strip() for part in inside.split(",")):
        field, value = _parse_part(part)
        if field not in allowed or field in fields:
            raise InvalidInput(FIELD, wanted=f"each part of {name}(...) once, and no others", got=part)
        fields[field] = value
    if "base" not in fields:
        raise InvalidInput(FIELD, wanted=f"a length in {name}(...), such as 2s", got=text)
    return _POLICIES[name](**fields)


def format_policy(policy: object) -> str:
    """Return the text of a policy for the meta of a job. Raises ``InvalidInput``.

    Only built-in policies have a text. A function or a class of the user is code: it belongs to the handler, because
    every worker that runs the handler has that code.
    """
    if type(policy) not in _BUILT_IN:
        raise InvalidInput("retry", wanted=_WANTED_BUILT_IN, got=policy)
    return str(policy)


def _parse_part(part: str) -> tuple[str, object]:
    """Return the field that one part between commas sets, and its value."""
    if part in list(Jitter):
        return "jitter", Jitter(part)
    if factor := _FACTOR.fullmatch(part):
        return "factor", float(factor[1])
    if part.startswith("max"):
        return "max_delay", duration.parse(FIELD, part.removeprefix("max"))
    return "base", duration.parse(FIELD, part)
