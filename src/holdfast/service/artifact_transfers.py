"""``ArtifactTransfers``: bytes on their way between clients and the blob store, in pieces, in threads of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from holdfast.artifacts.blobs import CHUNK_BYTES, BlobStore, BlobWriter
from holdfast.service.limits import BodyStream
from holdfast.service.problems import BUSY_SECONDS, Code, Problem

if TYPE_CHECKING:
    from holdfast.service.operation import Call

P = ParamSpec("P")
T = TypeVar("T")

TRANSFER_THREADS = 8
MAX_TRANSFERS = 100  # uploads and downloads at the same time


class ArtifactTransfers:
    """The blob store of a service. Used by one event loop."""

    def __init__(self, blobs: BlobStore) -> None:
        self.blobs = blobs
        self._executor = ThreadPoolExecutor(TRANSFER_THREADS, thread_name_prefix="holdfast-artifacts")
        self._running = 0

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of the blob store in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, partial(function, *args, **kwargs))

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count one transfer. Raises ``Problem`` if there are too many."""
        if self._running >= MAX_TRANSFERS:
            raise Problem(Code.OVERLOADED, "too many uploads and downloads", retry_after=BUSY_SECONDS)
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    async def receive(
        self,
        body: BodyStream,
        folder: str,
        *,
        most: int,
        digest: str | None,
        before_commit: Callable[[BlobWriter], Awaitable[None]],
        on_piece: Callable[[], Awaitable[None]] | None = None,
    ) -> tuple[str, int]:
        """Store a body as a blob; return its digest and size.

        ``before_commit`` may refuse it. Raises ``Problem`` if the body is not that of the given digest. Whatever is
        raised, the blob is not stored.
        """
        writer = await self.run(self.blobs.create, folder)
        try:
            waiting: list[bytes] = []
            size = 0
            async for piece in body.pieces(most):
                waiting.append(piece)
                size += len(piece)
                if size >= CHUNK_BYTES:
                    await self.run(writer.write, b"".join(waiting))
                    waiting, size = [], 0
                    if on_piece is not None:
                        await on_piece()
            await self.run(writer.write, b"".join(waiting))
            if digest is not None and writer.digest() != digest:
                raise Problem(Code.DIGEST_MISMATCH, f"got {writer.size} bytes with another SHA-256; nothing was stored")
            await before_commit(writer)
            return await self.run(writer.commit), writer.size
        finally:
            await asyncio.shield(self.run(writer.abort))

    async def send(self, folder: str, digest: str, *, start: int, stop: int) -> AsyncIterator[bytes]:
        """Return the bytes of a blob in pieces. Raises ``FileNotFoundError`` or ``Problem`` at once."""
        with self.counted():
            pass  # it is counted while it is sent
        return self._send(await self.run(self.blobs.read, folder, digest, start=start, stop=stop))

    async def _send(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        self._running += 1
        try:
            while piece := await self.run(next, pieces, b""):
                yield piece
        finally:
            self._running -= 1

    def close(self) -> None:
        """End the threads once their calls have returned."""
        self._executor.shutdown(wait=True, cancel_futures=True)


def transfers_of(call: Call) -> ArtifactTransfers:
    """Return what moves the bytes. Raises ``Problem`` if the service has no folder for artifacts."""
    if call.service.artifacts is None:
        raise Problem(Code.UNSUPPORTED, "this service keeps no artifacts: the setting artifacts names no folder")
    return call.service.artifacts
