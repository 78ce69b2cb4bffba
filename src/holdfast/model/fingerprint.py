"""Which failures are the same one: an error text without what differs from job to job, and a short name for it."""

from __future__ import annotations

import hashlib
import re

LENGTH = 12  # characters of a fingerprint: enough for the groups of any one store
MOST = 1_000  # characters of a line that are looked at: what follows hardly tells failures apart

_TRACEBACK = "Traceback (most recent call last):"

# In this order: what stands in quotes first, because anything may; plain numbers last, because all others hold some.
_VARIES = (
    (re.compile(r"""(?<!\w)[bBrRuU]{0,2}(?:'(?:[^'\\]|\\.)*'(?!\w)|"(?:[^"\\]|\\.)*")|`[^`]*`"""), "'…'"),
    (re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,30}://[^\s,;)>\]]+"), "<url>"),
    (re.compile(r"[^\s@<>(),;:]{1,64}@[A-Za-z0-9.-]{1,255}"), "<address>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?::[0-9]{1,5})?\b"), "<address>"),
    (re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{1,4}(?![\w:])"), "<address>"),
    (re.compile(r"\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b"), "<id>"),
    (re.compile(r"\b(?=[A-Za-z_-]*[0-9])(?=[0-9_-]*[A-Za-z])[A-Za-z0-9_-]{20,}\b"), "<id>"),
    (re.compile(r"(?:(?<![\w.])[-+])?[0-9]+(?:[.,:_][0-9]+)*(?:[eE][-+]?[0-9]+)?"), "#"),
)


def normalised(error: str) -> str:
    """The one line that says what failed, with quoted texts, ids, addresses and numbers taken out.

    Of a Python traceback that is the exception; of any other text its first line.
    """
    line = _telling_line(error)[:MOST]
    for pattern, instead in _VARIES:
        line = pattern.sub(instead, line)
    return " ".join(line.split())


def fingerprint(*, type: str, reason: str | None, error: str) -> str:
    """A short name that the same failure of the same type has every time, in every process and version."""
    told = "\0".join((type, normalised(reason or ""), normalised(error)))
    return hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()[:LENGTH]


def _telling_line(error: str) -> str:
    lines = error.splitlines()
    start = max((place for place, line in enumerate(lines) if line.strip() == _TRACEBACK), default=None)
    if start is not None:
        # Frames are indented; the first line behind them that is not is the exception, even if its message has more.
        told = (line for line in lines[start + 1 :] if line.strip() and not line.startswith((" ", "\t")))
        return next(told, lines[-1])
    return next((line for line in lines if line.strip()), "")
