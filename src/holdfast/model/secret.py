"""A text that must not be seen: no repr, no message and no pickle has it."""

from __future__ import annotations

MASK = "***"


class Secret:
    """A text that only ``reveal`` returns. It is not pickled: the copy in another process is empty, and false."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return MASK

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, ("",)
