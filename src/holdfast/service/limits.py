"""Limits that hold before a request is read: its size, its time, and how many there are."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from holdfast.clock import monotonic
from holdfast.model.fair_share import may_take_another
from holdfast.service.problems import BUSY_SECONDS, Code, Problem
from holdfast.service.timing import ServiceTiming

MIN_BYTES_PER_SECOND = (
    4 << 10
)  # of an upload, and of a client that reads: a slower one would hold its place for too long
SETTLE_SHARE = 2  # settlements are accepted up to this multiple of ``max_requests`` and of MAX_HELD_BYTES
MAX_HELD_BYTES = 16 << 20  # of all large bodies: each one is in memory several times, as text, values and bytes
LARGE_BODY_BYTES = 64 << 10  # smaller ones are bounded by the number of requests; of larger ones see StoreCalls.parse
MAX_UNSENT_BYTES = (
    256 << 20
)  # of large answers that their clients have not read; a caller may have half of what is left
WAITING_SHARE = 4  # requests may wait for work or for a result up to this multiple

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


async def receive_body(
    receive: Receive, *, length: int | None, most: int, counted: CountedRequest, timing: ServiceTiming
) -> bytes:
    """Return the body. Raises ``Problem`` if it is too large or too slow, or if too many are large."""
    if length is not None and length > most:
        raise _too_large(most)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timing.body_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(Code.TIMEOUT, "the client has gone")
                part = message.get("body", b"")
                size += len(part)
                if size > most:
                    raise _too_large(most)
                counted.hold(size)
                parts.append(part)
                if not message.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise Problem(Code.TIMEOUT, f"wanted the body within {timing.body_seconds:.0f} s", headers=CLOSE) from None


CLOSE = {"Connection": "close"}


class BodyStream:
    """The body of a request, which the handler reads as it arrives."""

    def __init__(self, receive: Receive, *, length: int | None, content_type: str, timing: ServiceTiming) -> None:
        self._receive = receive
        self._timing = timing
        self.length = length  # None: chunked
        self.content_type = content_type

    async def pieces(self, most: int) -> AsyncIterator[bytes]:
        """Return the bytes as they arrive. Raises ``Problem`` if they are too many, come too slowly, or are cut off."""
        if self.length is not None and self.length > most:
            raise _too_large(most)
        size, began = 0, monotonic()
        more = True
        while more:
            try:
                async with asyncio.timeout(self._timing.body_seconds):
                    message = await self._receive()
            except TimeoutError:
                raise Problem(Code.TIMEOUT, f"no byte for {self._timing.body_seconds:.0f} s", headers=CLOSE) from None
            if message["type"] == "http.disconnect":
                raise Problem(Code.TIMEOUT, "the client has gone")
            piece = message.get("body", b"")
            size += len(piece)
            if size > most:
                raise _too_large(most)
            if monotonic() - began > self._timing.upload_grace_seconds + size / MIN_BYTES_PER_SECOND:
                slowest = f"wanted at least {MIN_BYTES_PER_SECOND} bytes a second"
                raise Problem(Code.TIMEOUT, slowest, headers=CLOSE)
            more = message.get("more_body", False)
            if piece:
                yield piece


def _too_large(most: int) -> Problem:
    if most == 0:
        return Problem(Code.INVALID_REQUEST, "wanted no body", headers=CLOSE)
    return Problem(Code.BODY_TOO_LARGE, f"wanted at most {most} bytes", headers=CLOSE)


class RequestCount:
    """Bounds the requests that are answered at the same time. Settlements are refused last.

    A request that waits for work costs next to nothing, so it is counted apart: idle workers keep no producer away.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._running = 0
        self._waiting = 0
        self.held_bytes = 0  # of the large bodies of all requests

    @contextmanager
    def counted(self, *, settles: bool) -> Iterator[CountedRequest]:
        """Count one request. Raises ``Problem`` if there are too many."""
        share = SETTLE_SHARE if settles else 1
        if self._running >= self._most * share:
            raise Problem(Code.OVERLOADED, "too many requests at the same time", retry_after=BUSY_SECONDS)
        self._running += 1
        counted = CountedRequest(self, MAX_HELD_BYTES * share)
        try:
            yield counted
        finally:
            self._running -= 1
            self.held_bytes -= counted.held_bytes

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a request as one that waits. Raises ``Problem`` if too many wait."""
        if self._waiting >= self._most * WAITING_SHARE:
            raise Problem(Code.OVERLOADED, "too many requests wait", retry_after=BUSY_SECONDS)
        self._waiting += 1
        self._running -= 1
        try:
            yield
        finally:
            self._waiting -= 1
            self._running += 1


class CountedRequest:
    """One request, and the bytes of its body."""

    def __init__(self, requests: RequestCount, most: int) -> None:
        self._requests = requests
        self._most = most
        self.held_bytes = 0

    def hold(self, size: int) -> None:
        """Count what has arrived of a body until the request has ended. Raises ``Problem`` if there is too much.

        A small body is never refused for this reason, nor is one that is alone.
        """
        if size <= LARGE_BODY_BYTES:
            return
        others = self._requests.held_bytes - self.held_bytes
        if others and others + size > self._most:
            raise Problem(Code.OVERLOADED, "too many large bodies", retry_after=BUSY_SECONDS)
        self._requests.held_bytes = others + size
        self.held_bytes = size


class UnsentAnswers:
    """Bounds the large answers that are in memory because their clients read slowly, or not at all."""

    def __init__(self) -> None:
        self._held: Counter[tuple[str, str]] = Counter()  # by the space and subject of the caller

    def check(self, caller: tuple[str, str]) -> None:
        """Raise ``Problem`` if too many answers for a caller wait to be read."""
        if not may_take_another(self._held[caller], MAX_UNSENT_BYTES - self._held.total()):
            raise Problem(Code.OVERLOADED, "answers to earlier requests are not read", retry_after=BUSY_SECONDS)

    @contextmanager
    def counted(self, caller: tuple[str, str], size: int) -> Iterator[None]:
        """Count an answer until it is read."""
        self._held[caller] += size
        try:
            yield
        finally:
            self._held[caller] -= size
            if not self._held[caller]:
                del self._held[caller]
