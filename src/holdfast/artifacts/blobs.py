"""``BlobStore``: where the bytes of artifacts are kept. A folder today; object storage needs the same four calls.

A blob is addressed by its content: a folder of the store, and the SHA-256 of the bytes. Names that users give never
reach it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import Protocol

CHUNK_BYTES = 1 << 20  # that are read, hashed and written at a time


class BlobWriter(Protocol):
    """One blob that is being written. Nothing is visible before ``commit``."""

    @property
    def size(self) -> int:
        """The bytes so far."""
        ...

    def write(self, data: bytes, /) -> None:
        """Append bytes."""
        ...

    def commit(self) -> str:
        """Make the blob durable and visible; return its SHA-256 in hex. The same blob may exist: nothing changes then.

        Does not compare the digest with anything: the caller does, by ``digest``.
        """
        ...

    def digest(self) -> str:
        """Return the SHA-256 of the bytes so far, in hex."""
        ...

    def abort(self) -> None:
        """Forget the bytes. After ``commit`` it does nothing."""
        ...


class BlobStore(Protocol):
    """Keeps blobs in folders. Safe to share between threads and processes. Raises ``OSError`` if it fails."""

    def create(self, folder: str) -> BlobWriter:
        """Begin a blob in a folder, which need not exist."""
        ...

    def read(self, folder: str, digest: str, *, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Return the bytes from ``start`` up to ``stop`` in pieces. Raises ``FileNotFoundError`` at once."""
        ...

    def remove(self, folder: str) -> None:
        """Remove a folder with all blobs in it and below it. One that does not exist is removed already."""
        ...

    def retain(self, folder: str, keep: Collection[str], *, before: float) -> bool:
        """Remove the parts of a folder that were last written before an instant, in seconds since the epoch.

        Some parts are kept. Returns whether there are no others left.
        """
        ...


def task_folder(space: str, task_id: str) -> str:
    """Return the folder of a task. Ids and spaces are hashed: ``..`` is a name, and ``A`` and ``a`` are two names."""
    spaces, tasks = (hashlib.sha256(one.encode()).hexdigest() for one in (space, task_id))
    return f"{spaces[:32]}/{tasks[:2]}/{tasks}"


def part_folder(space: str, task_id: str, part: str) -> str:
    """Return the folder of one upload for a task."""
    return f"{task_folder(space, task_id)}/{part}"
