"""A store whose caller dies at a chosen call: before the call reaches the store, or before its answer comes back."""

from __future__ import annotations

from typing import Any

CALLS = frozenset({"enqueue", "write", "read", "scan", "get"})


class Died(BaseException):
    """The process of the caller has died. Nothing may catch it."""


class CrashingStore:
    """Passes every call to a store, and counts the calls of ``CALLS``. The call number ``at`` raises ``Died``."""

    def __init__(self, store: Any, *, at: int | None = None, before: bool = True) -> None:
        self._store = store
        self._at = at
        self._before = before
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in CALLS:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            is_last = len(self.calls) == self._at
            if is_last and self._before:
                raise Died
            answer = found(*args, **kwargs)
            if is_last:
                raise Died
            return answer

        return call
