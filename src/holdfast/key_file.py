"""A file of signing keys, which only its owner can read. ``holdfast keys`` writes it.

A rotation adds a key. Producers and workers read the file again when it has changed: producers sign with the new key
after a few seconds, and a worker that meets an unknown key looks at once. So keys are rotated while jobs run.
"""

from __future__ import annotations

import base64
import fcntl
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.clock import SystemClock, monotonic, to_datetime
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.secret_file import read_secret_file
from holdfast.wire.signing import KeyRing, SigningKey

FILE_VERSION = 1
SECRET_BYTES = 32


class _StoredKey(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    id: str
    created_at: int
    secret: str  # base64
    queue: str | None = None


class _Content(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    version: int
    keys: list[_StoredKey]  # the newest last


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What tells two states of a file apart: a rotation replaces the file."""

    inode: int
    modified: int
    size: int


class KeyFile:
    """The keys of a file, read again when the file has changed. See ``KeySource``. Safe to share between threads."""

    def __init__(self, path: str | Path, *, check_interval_seconds: float = 2.0) -> None:
        """Read the file. Raises ``InvalidInput`` if it cannot be read, or if others can read it.

        The interval is the time between two looks for a change, while every key is known.
        """
        self._check_interval_seconds = check_interval_seconds
        self._path = Path(path)
        self._state = (_stamp(self._path), read_ring(self._path))
        self._checked_at = monotonic()

    def current(self) -> KeyRing:
        """Return the keys of the file; they may be a few seconds old."""
        return self.reload() if monotonic() - self._checked_at > self._check_interval_seconds else self._state[1]

    def reload(self) -> KeyRing:
        """Read the file again if it has changed, and return its keys. The known keys stay if it cannot be read."""
        self._checked_at = monotonic()
        with suppress(InvalidInput):
            stamp = _stamp(self._path)
            if stamp != self._state[0]:
                self._state = (stamp, read_ring(self._path))
        return self._state[1]


def read_ring(path: Path) -> KeyRing:
    """Return the keys of a file. Raises ``InvalidInput``, without any secret, for a file that cannot be used."""
    data = read_secret_file(f"key file {path}", path, owner_only=True)
    try:
        content = msgspec.json.decode(data, type=_Content)
        if content.version != FILE_VERSION:
            raise InvalidInput(f"key file {path}", wanted=f"version {FILE_VERSION}", got=str(content.version))
        return KeyRing(
            SigningKey(
                id=key.id,
                secret=base64.b64decode(key.secret, validate=True),
                created_at=key.created_at,
                queue=None if key.queue is None else bounds.check_name("queue", key.queue),
            )
            for key in content.keys
        )
    except (msgspec.MsgspecError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        wanted = "a file that `holdfast keys rotate` has written"
        raise InvalidInput(f"key file {path}", wanted=wanted, got="other content") from None  # it may quote a secret


def rotate(path: Path, *, queue: str | None = None) -> SigningKey:
    """Add a new key, which signs from now on, and return it. The older keys stay, and verify. Creates the file.

    The file is replaced in one step, so a reader sees either the old or the new one.
    """
    if queue is not None:
        bounds.check_name("queue", queue)
    with _lock(path.parent):
        keys = read_ring(path).keys if path.exists() else ()
        now = SystemClock().now()
        new = SigningKey(
            id=f"{to_datetime(now):%Y%m%d}-{secrets.token_hex(3)}",
            secret=secrets.token_bytes(SECRET_BYTES),
            created_at=now,
            queue=queue,
        )
        _write(path, (*keys, new))
    return new


def _write(path: Path, keys: Sequence[SigningKey]) -> None:
    stored = [
        _StoredKey(
            id=key.id, created_at=key.created_at or 0, secret=base64.b64encode(key.secret).decode(), queue=key.queue
        )
        for key in keys
    ]
    data = msgspec.json.format(msgspec.json.encode(_Content(version=FILE_VERSION, keys=stored)), indent=2)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # only the owner can read it
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data + b"\n")
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Let one rotation in a folder run at a time: two at once would lose a key."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InvalidInput(f"folder {folder}", wanted="a folder for the key file", got=error.strerror) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError as error:
        got = error.strerror or type(error).__name__
        raise InvalidInput(f"key file {path}", wanted="a file that can be read", got=got) from error
    return _Stamp(status.st_ino, status.st_mtime_ns, status.st_size)
