"""When a failed job runs again: retry policies as values, without a clock and without a random source of their own.

    none                                       at once
    fixed(30s, no jitter)                      always the same
    linear(10s, max 5m, no jitter)             10 s, 20 s, 30 s, ...
    exponential(2s, x2, max 1h, full jitter)   2 s, 4 s, 8 s, ...: the default

A policy says how long to wait; how often a job runs is its own ``max_attempts``. The texts above are what ``str`` gives
and ``parse`` reads; of what stands in the brackets only the first length is required, and the order does not matter.
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
        """The wait after ``attempt`` (1 is the first run) failed; ``random`` is a number in [0, 1), for jitter."""
        ...


class Jitter(StrEnum):
    """How much of a delay is left to chance, so that what failed together does not come back together."""

    NONE = "no jitter"
    FULL = "full jitter"  # anything from nothing to the whole delay: spreads best
    EQUAL = "equal jitter"  # half of it at least

    def applied(self, delay: int, random: float) -> timedelta:
        """The delay (microseconds) with its share of chance."""
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
    """Again at once."""

    @property
    def max_delay(self) -> timedelta:
        """No delay is longer than this."""
        return timedelta()

    def delay(self, attempt: int, random: float) -> timedelta:  # noqa: ARG002 - of the protocol
        """See ``RetryPolicy.delay``."""
        return timedelta()

    def __str__(self) -> str:
        return "none"


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same delay."""

    base: timedelta
    _: KW_ONLY
    jitter: Jitter = Jitter.NONE

    def __post_init__(self) -> None:
        """Both in range."""
        bounds.length("base", self.base)
        _check_jitter(self.jitter)

    @property
    def max_delay(self) -> timedelta:
        """No delay is longer than this."""
        return self.base

    def delay(self, attempt: int, random: float) -> timedelta:  # noqa: ARG002 - of the protocol
        """See ``RetryPolicy.delay``."""
        return self.jitter.applied(from_timedelta(self.base), random)

    def __str__(self) -> str:
        return f"fixed({duration.exact(self.base)}, {self.jitter})"


@dataclass(frozen=True, slots=True)
class Linear:
    """One ``base`` more after each attempt, up to ``max_delay``."""

    base: timedelta
    _: KW_ONLY
    max_delay: timedelta = timedelta(hours=1)
    jitter: Jitter = Jitter.NONE

    def __post_init__(self) -> None:
        """All in range."""
        _check_growing(self)

    def delay(self, attempt: int, random: float) -> timedelta:
        """See ``RetryPolicy.delay``."""
        length = min(attempt * from_timedelta(self.base), from_timedelta(self.max_delay))
        return self.jitter.applied(length, random)

    def __str__(self) -> str:
        return f"linear({duration.exact(self.base)}, max {duration.exact(self.max_delay)}, {self.jitter})"


@dataclass(frozen=True, slots=True)
class Exponential:
    """``factor`` times as long after each attempt, up to ``max_delay``."""

    base: timedelta = timedelta(seconds=2)
    _: KW_ONLY
    factor: float = 2
    max_delay: timedelta = timedelta(hours=1)
    jitter: Jitter = Jitter.FULL

    def __post_init__(self) -> None:
        """All in range."""
        _check_growing(self)
        if type(self.factor) not in (int, float) or not 1 <= self.factor <= MAX_FACTOR:
            raise InvalidInput("factor", wanted=f"a number from 1 to {MAX_FACTOR}", got=self.factor)

    def delay(self, attempt: int, random: float) -> timedelta:
        """See ``RetryPolicy.delay``."""
        return self.jitter.applied(self._length(attempt - 1), random)

    def _length(self, steps: int) -> int:
        """By logarithms first: the power of a large attempt fits no float, and takes for ever as a whole number."""
        base, cap = from_timedelta(self.base), from_timedelta(self.max_delay)
        if not base:
            return 0
        if steps * math.log(self.factor) >= math.log(cap / base):
            return cap
        return min(round(base * self.factor**steps), cap)

    def __str__(self) -> str:
        factor = int(self.factor) if self.factor == int(self.factor) else self.factor
        return (
            f"exponential({duration.exact(self.base)}, x{factor}, max {duration.exact(self.max_delay)}, {self.jitter})"
        )


@dataclass(frozen=True, slots=True)
class Custom:
    """Whatever ``function`` says of the attempt's number, up to ``max_delay``. It has no text that could be parsed."""

    function: Callable[[int], timedelta]
    _: KW_ONLY
    max_delay: timedelta = timedelta(days=1)
    jitter: Jitter = Jitter.NONE

    def __post_init__(self) -> None:
        """All in range; the function is called with nothing but the attempt."""
        if not callable(self.function):
            raise InvalidInput("function", wanted="a function of the attempt's number", got=self.function)
        bounds.length("max_delay", self.max_delay)
        _check_jitter(self.jitter)

    def delay(self, attempt: int, random: float) -> timedelta:
        """See ``RetryPolicy.delay``. A length below zero counts as zero."""
        given = self.function(attempt)
        if not isinstance(given, timedelta):
            raise InvalidInput("delay", wanted="a timedelta from the policy's function", got=given)
        return self.jitter.applied(from_timedelta(min(max(given, timedelta()), self.max_delay)), random)

    def __str__(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"custom({name}, max {duration.exact(self.max_delay)}, {self.jitter})"


def _check_growing(policy: Linear | Exponential) -> None:
    base = bounds.length("base", policy.base)
    if bounds.length("max_delay", policy.max_delay) < base:
        wanted = f"at least the base, {duration.exact(policy.base)}"
        raise InvalidInput("max_delay", wanted=wanted, got=duration.exact(policy.max_delay))
    _check_jitter(policy.jitter)


def _check_jitter(jitter: object) -> None:
    if not isinstance(jitter, Jitter):
        raise InvalidInput("jitter", wanted="Jitter.NONE, Jitter.FULL or Jitter.EQUAL", got=jitter)


# With 25 attempts (the default) its delays add up to 14 hours at the most and 7 on average: enough for a bad night of
# whatever the jobs need, and an hour at the most until they go on when it is back.
DEFAULT = Exponential()


# Texts, for jobs, settings and command lines ----------------------------------------------------------------

FIELD = "retry policy"  # what an error calls it

BuiltIn: TypeAlias = NoDelay | Fixed | Linear | Exponential

_POLICIES: dict[str, type[Fixed | Linear | Exponential]] = {
    "fixed": Fixed,
    "linear": Linear,
    "exponential": Exponential,
}
_POLICY = re.compile(r"([a-z]+)\s*(?:\((.*)\))?")
_FACTOR = re.compile(r"x([0-9]{1,18}(?:\.[0-9]{1,18})?)")
_WITH_TEXT = (NoDelay, *_POLICIES.values())
_CARRIED = (
    "NoDelay, Fixed, Linear or Exponential (a job carries its policy as text; one that is code belongs to the handler)"
)
_WANTED = "a policy such as none, fixed(30s), linear(10s, max 5m) or exponential(2s, x2, max 1h, full jitter)"


def parse(text: str) -> BuiltIn:
    """The policy that a text stands for; ``parse(str(policy))`` is equal to it. Raises ``InvalidInput``."""
    shape = _POLICY.fullmatch(bounds.text(FIELD, text).strip().lower())
    name, inside = (shape[1], shape[2]) if shape else ("", None)
    if name == "none" and inside is None:
        return NoDelay()
    if name not in _POLICIES or inside is None:
        raise InvalidInput(FIELD, wanted=_WANTED, got=text)
    allowed = _POLICIES[name].__dataclass_fields__
    fields: dict[str, Any] = {}
    for part in (part.strip() for part in inside.split(",")):
        field, value = _part(part)
        if field not in allowed or field in fields:
            raise InvalidInput(FIELD, wanted=f"each part of {name}(...) once, and no others", got=part)
        fields[field] = value
    if "base" not in fields:
        raise InvalidInput(FIELD, wanted=f"a length in {name}(...), such as 2s", got=text)
    return _POLICIES[name](**fields)


def written(policy: object) -> str:
    """The policy as a job carries it, which ``parse`` reads back as it was. Raises ``InvalidInput``.

    Only the built-in ones have such a text. A function, or a class of somebody's own, is code: it stays with the
    handlers, where every worker that knows the type has it too.
    """
    if type(policy) not in _WITH_TEXT:
        raise InvalidInput("retry", wanted=_CARRIED, got=policy)
    return str(policy)


def _part(part: str) -> tuple[str, object]:
    """What one part between the commas sets, and to what."""
    if part in list(Jitter):
        return "jitter", Jitter(part)
    if factor := _FACTOR.fullmatch(part):
        return "factor", float(factor[1])
    if part.startswith("max"):
        return "max_delay", duration.parse(FIELD, part.removeprefix("max"))
    return "base", duration.parse(FIELD, part)
