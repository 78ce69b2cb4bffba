"""Grouping failures: an error text without the parts that differ from job to job, and a short hash of it."""

from __future__ import annotations

import hashlib
import re

FINGERPRINT_CHARACTERS = 12  # enough to tell the failure groups of one store apart
MAX_LINE_CHARACTERS = 1_000  # the rest of a longer line rarely tells failures apart

MAX_FRAMES = 5  # of an error text, for the log
MAX_FRAME_CHARACTERS = 200
_FRAME = re.compile(r'  File "(.+)", line (\d+), in (.+)')

_TRACEBACK = "Traceback (most recent call last):"

# Applied in this order: quoted text first, because it may contain any of the others; numbers last, because the others
# contain numbers.
_VARYING_PARTS = (
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


def normalise(error: str) -> str:
    """Return the line that names the failure, with placeholders for quoted texts, ids, addresses and numbers."""
    line = failure_line(error)[:MAX_LINE_CHARACTERS]
    for pattern, placeholder in _VARYING_PARTS:
        line = pattern.sub(placeholder, line)
    return " ".join(line.split())


def fingerprint(*, type: str, reason: str | None, error: str) -> str:
    """Return a short hash that is equal for the same failure of the same job type, in every process and version."""
    text = "\0".join((type, normalise(reason or ""), normalise(error)))
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:FINGERPRINT_CHARACTERS]


def failure_line(error: str) -> str:
    """Return the line that names the failure: the exception of a Python traceback, the first line of any other text."""
    lines = error.splitlines()
    start = max((place for place, line in enumerate(lines) if line.strip() == _TRACEBACK), default=None)
    if start is not None:
        # Frames are indented. The first line after them that is not indented is the exception, even if its message has
        # more lines.
        exceptions = (line for line in lines[start + 1 :] if line.strip() and not line.startswith((" ", "\t")))
        return next(exceptions, lines[-1])
    return next((line for line in lines if line.strip()), "")


def failure_frames(error: str) -> list[str]:
    """Return the last frames of the first exception of an error text, each as ``file:line in function: source``."""
    frames: list[str] = []
    for line in error.splitlines():
        if found := _FRAME.fullmatch(line):
            frames.append("{}:{} in {}".format(*found.groups()))
            has_source = False
        elif frames and not line.startswith(" "):
            break  # a cause, with its own frames
        elif frames and not has_source and line.startswith("    "):
            frames[-1] += f": {line.strip()}"
            has_source = True
    return [frame[:MAX_FRAME_CHARACTERS] for frame in frames[-MAX_FRAMES:]]
