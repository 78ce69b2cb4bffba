"""``BlobFolder``: blobs as files. A file appears under its digest once its bytes are on disk.

A blob is written to a temporary file, which is synced and renamed, and then its folder is synced.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from holdfast.artifacts.blobs import CHUNK_BYTES
from holdfast.errors import InvalidInput

TEMPORARY = ".upload-"  # before the name of a file that is being written
FOLDER_MODE, FILE_MODE = 0o700, 0o600
_FOLDER = re.compile(r"[0-9a-z]+(/[0-9a-z]+)*")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BlobFolder:
    """Blobs below one folder of a file system. Processes on several machines may share it."""

    def __init__(self, root: str | Path) -> None:
        """Create the folder if there is none. Raises ``InvalidInput`` if it cannot be used."""
        self._root = Path(root).absolute()
        try:
            self._root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        except OSError as error:
            got = f"{self._root}: {error.strerror or error}"
            raise InvalidInput("artifacts", wanted="a folder that can be written", got=got) from error

    def create(self, folder: str) -> FileWriter:
        """Begin a blob in a folder, which need not exist."""
        place = self._path(folder)
        place.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        return FileWriter(place, self._root)

    def read(self, folder: str, digest: str, *, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Return the bytes from ``start`` up to ``stop`` in pieces."""
        if not _DIGEST.fullmatch(digest):
            raise InvalidInput("digest", wanted="a SHA-256 in hex", got=digest)
        descriptor = os.open(self._path(folder) / digest, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return _Pieces(descriptor, start, stop)

    def remove(self, folder: str) -> None:
        """Remove a folder with all blobs in it and below it."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._path(folder))

    def retain(self, folder: str, keep: Collection[str], *, before: float) -> bool:
        """Remove the parts of a folder that were last written before an instant, in seconds since the epoch."""
        place = self._path(folder)
        left = 0
        try:
            parts = list(place.iterdir())
        except FileNotFoundError:
            return True
        for part in parts:
            if part.name in keep:
                continue
            with contextlib.suppress(FileNotFoundError):  # an upload ends just now
                if all(one.lstat().st_mtime < before for one in (part, *part.iterdir())):
                    shutil.rmtree(part)
                else:
                    left += 1
        return not left

    def _path(self, folder: str) -> Path:
        if not _FOLDER.fullmatch(folder):
            raise InvalidInput("folder", wanted="names of small letters and digits", got=folder)
        return self._root / folder


class _Pieces(Iterator[bytes]):
    """The bytes of a file from one place to another. No generator: the file is closed also if nobody reads it."""

    def __init__(self, descriptor: int, start: int, stop: int | None) -> None:
        self._descriptor: int | None = descriptor
        self._at = start
        self._stop = stop

    def __next__(self) -> bytes:
        if self._descriptor is None:
            raise StopIteration
        most = CHUNK_BYTES if self._stop is None else min(CHUNK_BYTES, self._stop - self._at)
        piece = os.pread(self._descriptor, most, self._at)
        if not piece:
            self._close()
            raise StopIteration
        self._at += len(piece)
        return piece

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class FileWriter:
    """One blob that is being written, in a file of its own until it is whole."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._root = root
        self._path = folder / f"{TEMPORARY}{secrets.token_hex(16)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file: BinaryIO | None = os.fdopen(os.open(self._path, flags, FILE_MODE), "wb", buffering=0)
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes, /) -> None:
        """Append bytes."""
        assert self._file is not None
        view = memoryview(data)
        while view:  # an unbuffered file may take less than it is given
            view = view[self._file.write(view) :]
        self._hash.update(data)
        self.size += len(data)

    def digest(self) -> str:
        """Return the SHA-256 of the bytes so far, in hex."""
        return self._hash.hexdigest()

    def commit(self) -> str:
        """Make the blob durable and visible; return its SHA-256 in hex.

        A file that has the name already has the same bytes, so replacing it is safe.
        """
        assert self._file is not None
        os.fsync(self._file.fileno())
        self._close()
        digest = self.digest()
        self._path.replace(self._folder / digest)
        folder = self._folder
        while folder != self._root.parent:  # each one may be new in the one above it
            _sync_folder(folder)
            folder = folder.parent
        return digest

    def abort(self) -> None:
        """Forget the bytes."""
        if self._file is not None:
            try:
                self._close()
            finally:
                self._path.unlink(missing_ok=True)

    def _close(self) -> None:
        assert self._file is not None
        file, self._file = self._file, None
        file.close()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
