"""The result of one check, and how a byte count is shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30


class Health(StrEnum):
    """The result of a check. A note is a warning: nothing is broken yet."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check and its result; ``advice`` says what to do next."""

    name: str
    health: Health
    text: str
    advice: str = ""

    @property
    def sentence(self) -> str:
        """The result and what to do next, in one line."""
        return f"{self.text}: {self.advice}" if self.advice else self.text


def format_bytes(count: int) -> str:
    """Return a size as people read it."""
    return f"{count / GIBIBYTE:.1f} GiB" if count >= GIBIBYTE else f"{count / MEBIBYTE:.1f} MiB"
