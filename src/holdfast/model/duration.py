"""Durations and rates as people write them: ``1500ms``, ``30s``, ``1h30m``, ``600/m``."""

from __future__ import annotations

import re
from datetime import timedelta

from holdfast.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND, to_timedelta
from holdfast.errors import InvalidInput

MAX_DURATION = 100 * 366 * DAY  # microseconds of a timeout, a delay or a lease
WANTED_DURATION = "a length such as 1500ms, 30s, 5m, 2h, 1d or 1h30m"
WANTED_RATE = "a rate such as 10, 10/s, 600/m or 5/h"

_UNITS = {"us": 1, "µs": 1, "ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_PART = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,6}))?(us|µs|ms|s|m|h|d|w)")
_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(?:/(s|m|h|d))?")
_SHOWN = (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", MILLISECOND), ("us", 1))


def parse(field: str, text: str) -> timedelta:
    """Return the duration in a text, exact to the microsecond; errors name it ``field``."""
    compact = text.strip().lower()
    parts = list(_PART.finditer(compact))
    if not parts or "".join(part[0] for part in parts) != compact:
        raise InvalidInput(field, wanted=WANTED_DURATION, got=text)
    total = sum(_microseconds(part) for part in parts)
    if total > MAX_DURATION:
        raise InvalidInput(field, wanted=f"at most {MAX_DURATION // DAY} days", got=text)
    return to_timedelta(total)


def _microseconds(part: re.Match[str]) -> int:
    whole, fraction, unit = part[1], part[2] or "", part[3]
    scaled: int = 10 ** len(fraction)
    return int(whole + fraction) * _UNITS[unit] // scaled


def format_rounded(microseconds: int) -> str:
    """Return a duration in its one or two largest units, rounded down: ``3m20s``, ``1d``, ``15ms``."""
    if microseconds <= 0:
        return "0s"
    for place, (unit, size) in enumerate(_SHOWN):
        if microseconds < size:
            continue
        count, rest = divmod(microseconds, size)
        if size > SECOND:
            smaller, smaller_size = _SHOWN[place + 1]
            more = rest // smaller_size
            return f"{count}{unit}" + (f"{more}{smaller}" if more else "")
        if size == SECOND and count < 10 and rest >= SECOND // 10:
            return f"{count}.{rest * 10 // SECOND}s"
        return f"{count}{unit}"
    raise AssertionError("the smallest unit is one microsecond")


def format_exact(duration: timedelta) -> str:
    """Return a duration as a text that ``parse`` reads back unchanged, unless it is negative: no text means that."""
    total = duration // timedelta(microseconds=1)
    left, text = abs(total), "-" if total < 0 else ""
    for unit, size in _SHOWN:
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def parse_rate(field: str, text: str) -> float:
    """Return a rate per second from ``10``, ``10/s``, ``600/m``, ``5/h`` or ``1/d``; errors name it ``field``."""
    match = _RATE.fullmatch(text.strip().lower())
    rate = float(match[1]) * SECOND / _UNITS[match[2] or "s"] if match else 0.0
    if rate <= 0:
        raise InvalidInput(field, wanted=WANTED_RATE, got=text)
    return rate
