"""A store whose caller dies at a chosen call: before the call reaches the store, or before its answer comes back."""

from __future__ import annotations

from typing import TypeVar

from holdfast.drivers.requests import Request
from holdfast.drivers.store import Store

A = TypeVar("A")

CALLS = frozenset({"enqueue", "write", "read", "scan", "inspect"})


class Died(BaseException):
    """The process of the caller has died. Nothing may catch it."""


class CrashingStore(Store):
    """Passes every request to a store, and counts those of ``CALLS``. The one of number ``at`` raises ``Died``."""

    def __init__(self, store: Store, *, at: int | None = None, before: bool = True) -> None:
        super().__init__(store.engine)
        self.store = store
        self._at = at
        self._before = before
        self.calls: list[str] = []

    @property
    def capabilities(self):
        return self.store.capabilities

    def do(self, request: Request[A]) -> A:
        if request.verb not in CALLS:
            return self.store.do(request)
        self.calls.append(request.verb)
        is_last = len(self.calls) == self._at
        if is_last and self._before:
            raise Died
        answer = self.store.do(request)
        if is_last:
            raise Died
        return answer
