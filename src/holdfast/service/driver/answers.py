"""The answers of calls that must not be carried out twice, for clients whose connection was lost before the answer.

A reserve whose answer was lost holds leases that nobody knows. Its client repeats the call with the same id and gets
the first answer, if this process still has it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from holdfast.clock import monotonic

KEPT_SECONDS = 30.0  # longer than a client repeats a call
MAX_KEPT_BYTES = 32 << 20
MAX_KEPT_ANSWERS = 10_000

Key: TypeAlias = tuple[str, str, str]  # the space, the subject of the token, the id of the call


class CallAnswers:
    """The answers of the last calls. Used by one event loop."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._answers: OrderedDict[Key, tuple[float, asyncio.Future[bytes]]] = OrderedDict()
        self._kept_bytes = 0

    async def answer(self, key: Key, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return the answer of ``make``; of a call that was made before, the first answer.

        The call goes on when its client has gone. A call that failed is not kept.
        """
        known = self._answers.get(key)
        if known is None:
            made: asyncio.Future[bytes] = asyncio.ensure_future(make())
            self._answers[key] = self._now(), made
            made.add_done_callback(lambda done: self._keep(key, done))
        else:
            made = known[1]
        return await asyncio.shield(made)

    def _keep(self, key: Key, made: asyncio.Future[bytes]) -> None:
        if made.cancelled() or made.exception() is not None:
            self._answers.pop(key, None)
            return
        self._kept_bytes += len(made.result())
        self._forget_old()

    def _forget_old(self) -> None:
        while self._answers:
            key, (began, made) = next(iter(self._answers.items()))
            is_old = self._now() - began > KEPT_SECONDS
            is_too_much = self._kept_bytes > MAX_KEPT_BYTES or len(self._answers) > MAX_KEPT_ANSWERS
            if not made.done() or not (is_old or is_too_much):
                return
            del self._answers[key]
            if not made.cancelled() and made.exception() is None:
                self._kept_bytes -= len(made.result())
