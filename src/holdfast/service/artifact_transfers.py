"""``ArtifactTransfers``: bytes on their way between clients and the blob store, in pieces, in threads of their own."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from holdfast.artifacts.blobs import CHUNK_BYTES, BlobStore, BlobWriter
from holdfast.artifacts.uploads import begin_upload, end_upload
from holdfast.errors import HoldfastError, StoreError
from holdfast.log import events
from holdfast.log.failures import FailureLog
from holdfast.service.limits import BodyStream
from holdfast.service.problems import BUSY_SECONDS, OUTAGE_SECONDS, Code, Problem

if TYPE_CHECKING:
    from holdfast.service.operation import Call

P = ParamSpec("P")
T = TypeVar("T")

TRANSFER_THREADS = 8
MAX_TRANSFERS = 128  # uploads and downloads at the same time; a space gets half of what others leave free
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class ArtifactTransfers:
    """The blob store of a service. Used by one event loop."""

    def __init__(self, blobs: BlobStore) -> None:
        self.blobs = blobs
        self._executor = ThreadPoolExecutor(TRANSFER_THREADS, thread_name_prefix="holdfast-artifacts")
        self._running: Counter[str] = Counter()  # by space
        self._full = FailureLog(events.ARTIFACTS_FULL)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of the blob store in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, partial(function, *args, **kwargs))

    @contextmanager
    def counted(self, space: str) -> Iterator[None]:
        """Count one transfer of a space. Raises ``Problem`` if there are too many."""
        own, running = self._running[space], self._running.total()
        share = max(1, (MAX_TRANSFERS - (running - own)) // 2)
        if running >= MAX_TRANSFERS or own >= share:
            raise Problem(Code.OVERLOADED, "too many uploads and downloads", retry_after=BUSY_SECONDS)
        with self._counted(space):
            yield

    @contextmanager
    def _counted(self, space: str) -> Iterator[None]:
        self._running[space] += 1
        try:
            yield
        finally:
            self._running[space] -= 1
            if not self._running[space]:
                del self._running[space]

    async def receive(
        self,
        body: BodyStream,
        folder: str,
        *,
        most: int,
        digest: str | None,
        on_piece: Callable[[], Awaitable[None]],
    ) -> tuple[str, int]:
        """Store a body as a blob; return its digest and size.

        Raises ``Problem`` if the body is not that of the given digest, or if the disk is full. Whatever is raised, the
        blob is not stored.
        """
        try:
            writer = await self.run(self.blobs.create, folder)
            try:
                await self._write(writer, body.pieces(most), on_piece)
                if digest is not None and writer.digest() != digest:
                    got = f"got {writer.size} bytes with another SHA-256; nothing was stored"
                    raise Problem(Code.DIGEST_MISMATCH, got)
                return await self.run(writer.commit), writer.size
            finally:
                await asyncio.shield(self.run(writer.abort))
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._full.add(error)
            raise Problem(Code.ARTIFACTS_FULL, "nothing was stored", retry_after=OUTAGE_SECONDS) from error

    async def _write(
        self, writer: BlobWriter, pieces: AsyncIterator[bytes], on_piece: Callable[[], Awaitable[None]]
    ) -> None:
        waiting: list[bytes] = []
        size = 0
        async for piece in pieces:
            waiting.append(piece)
            size += len(piece)
            if size >= CHUNK_BYTES:
                await self.run(writer.write, b"".join(waiting))
                waiting, size = [], 0
                await on_piece()
        await self.run(writer.write, b"".join(waiting))

    async def send(self, space: str, folder: str, digest: str, *, start: int, stop: int) -> AsyncIterator[bytes]:
        """Return the bytes of a blob in pieces. Raises ``FileNotFoundError`` or ``Problem`` at once."""
        with self.counted(space):
            pieces = await self.run(self.blobs.read, folder, digest, start=start, stop=stop)
        return self._send(space, pieces)

    async def _send(self, space: str, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        with self._counted(space):  # while it is sent
            while piece := await self.run(next, pieces, b""):
                yield piece

    def close(self) -> None:
        """End the threads once their calls have returned."""
        self._executor.shutdown(wait=True, cancel_futures=True)


def transfers_of(call: Call) -> ArtifactTransfers:
    """Return what moves the bytes. Raises ``Problem`` if the service has no folder for artifacts."""
    if call.service.artifacts is None:
        raise Problem(Code.UNSUPPORTED, "this service keeps no artifacts: the setting artifacts names no folder")
    return call.service.artifacts


@asynccontextmanager
async def noted_upload(call: Call, task_id: str, undo: Callable[[str], None]) -> AsyncIterator[str]:
    """Count an upload, note it in the store while it lasts, and yield its key. Raises ``Problem`` if too many run.

    If it is refused, ``undo`` removes its bytes. After any other failure, such as a store that has not answered, a row
    may name the bytes: the collector looks.
    """
    store, calls = call.tenant.store, call.tenant.calls
    with transfers_of(call).counted(call.tenant.name), call.service.requests.waiting():
        key = await calls.settle(begin_upload, store, task_id, now=call.tenant.clock.now())
        try:
            yield key
        except (Problem, HoldfastError) as error:
            if not _is_refusal(error):
                raise
            await calls.settle(undo, key)
            await calls.settle(end_upload, store, key)
            raise
        await calls.settle(end_upload, store, key)


def _is_refusal(error: Problem | HoldfastError) -> bool:
    if isinstance(error, Problem):
        return error.status < 500 or error.code is Code.ARTIFACTS_FULL
    return not isinstance(error, StoreError)
