"""What cases say when they are disappointed: outside pytest an assert does not explain itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

E = TypeVar("E", bound=Exception)


def equal(got: object, wanted: object, what: str) -> None:
    """``what`` is as wanted."""
    assert got == wanted, f"{what}: wanted {wanted!r}, got {got!r}"


def representatives(answers: Iterable[object]) -> list[type[object] | None]:
    """The answers of a batch as classes, so that errors compare; None stays None."""
    return [None if answer is None else type(answer) for answer in answers]


def refused(answers: Iterable[object], *wanted: type[object] | None) -> None:
    """A batch was answered with exactly these errors, in this order; None is acceptance."""
    got = representatives(answers)
    assert got == list(wanted), f"wanted {_names(wanted)}, got {_names(got)}"


@contextmanager
def raising(error: type[E], what: str = "the call") -> Iterator[list[E]]:
    """The block must raise this error; it is the only item of the list that is given."""
    caught: list[E] = []
    try:
        yield caught
    except error as raised:
        caught.append(raised)
    except Exception as raised:
        raise AssertionError(f"{what}: wanted {error.__name__}, got {raised!r}") from raised
    assert caught, f"{what}: wanted {error.__name__}, nothing was raised"


def _names(answers: Iterable[type[object] | None]) -> str:
    return "[" + ", ".join("accepted" if answer is None else answer.__name__ for answer in answers) + "]"
