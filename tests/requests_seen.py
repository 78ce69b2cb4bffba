"""Stand at the door of a store: a function of the test answers the requests of one kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.drivers.requests import Request
from holdfast.drivers.store import Store


def answer_requests(
    monkeypatch: pytest.MonkeyPatch,
    store: Store,
    kind: type[Request[Any]],
    answer: Callable[[Any, Callable[[Any], Any]], Any],
) -> None:
    """Let ``answer(request, do)`` answer the requests of a kind; ``do`` is what the store would do."""
    do = store.do
    monkeypatch.setattr(store, "do", lambda request: answer(request, do) if isinstance(request, kind) else do(request))
