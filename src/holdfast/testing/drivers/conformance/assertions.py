"""Assertions with a message: outside pytest a bare ``assert`` does not show its operands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

E = TypeVar("E", bound=Exception)


def assert_equal(got: object, wanted: object, what: str) -> None:
    """Assert that ``got`` equals ``wanted``; ``what`` names the value in the message."""
    assert got == wanted, f"{what}: wanted {wanted!r}, got {got!r}"


def answer_types(answers: Iterable[object]) -> list[type[object] | None]:
    """Return the type of each answer, because errors do not compare by value; None stays None."""
    return [None if answer is None else type(answer) for answer in answers]


def assert_answers(answers: Iterable[object], *wanted: type[object] | None) -> None:
    """Assert that the answers have exactly these types, in this order; None means accepted."""
    got = answer_types(answers)
    assert got == list(wanted), f"wanted {_names(wanted)}, got {_names(got)}"


@contextmanager
def assert_raises(error: type[E], what: str = "the call") -> Iterator[list[E]]:
    """Assert that the block raises ``error``; after the block, the yielded list contains the error."""
    caught: list[E] = []
    try:
        yield caught
    except error as raised:
        caught.append(raised)
    except Exception as raised:
        raise AssertionError(f"{what}: wanted {error.__name__}, got {raised!r}") from raised
    assert caught, f"{what}: wanted {error.__name__}, nothing was raised"


def _names(types: Iterable[type[object] | None]) -> str:
    return "[" + ", ".join("accepted" if type_ is None else type_.__name__ for type_ in types) + "]"
