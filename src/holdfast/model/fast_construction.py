"""Filling frozen values fast, for code that makes them by the thousand.

The ``__init__`` of a frozen dataclass calls ``object.__setattr__`` for every field: some microseconds for a job, more
than all else that a reserve does for it. A draft is a class of the same shape without the freezing: it is filled with
plain assignments (ten times as fast) and then *becomes* the frozen class, which CPython allows for equal ``__slots__``.

    job = JobDraft()
    job.id = ...            # every field: a draft has no defaults
    job.__class__ = JobRecord
"""

from __future__ import annotations

from typing import Any


def mutable_twin(frozen: type) -> Any:
    """A mutable class with the slots of a frozen, slotted dataclass that inherits from nothing."""
    return type(f"{frozen.__name__}Draft", (), {"__slots__": frozen.__slots__})  # type: ignore[attr-defined]
