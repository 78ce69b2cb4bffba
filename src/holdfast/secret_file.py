"""Read a file with tokens, keys or secrets. No error has its content."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from holdfast.errors import InvalidInput
from holdfast.log import events
from holdfast.log.records import log_event

MAX_FILE_BYTES = 1 << 20
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_secret_file(name: str, path: Path, *, owner_only: bool = False) -> bytes:
    """Return the content. ``name`` is that of the file in errors. Raises ``InvalidInput``.

    A file that others than its owner can read or write is refused if ``owner_only``, else logged: an orchestrator
    mounts its secrets for a group.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # else a pipe would wait for its writer
        try:
            mode = os.fstat(handle).st_mode
            if not stat.S_ISREG(mode):
                raise InvalidInput(name, wanted="a regular file", got="a folder, a pipe or a device")
            _check_mode(name, path, mode, owner_only=owner_only)
            with os.fdopen(handle, "rb", closefd=False) as file:
                data = file.read(MAX_FILE_BYTES + 1)
        finally:
            os.close(handle)
    except OSError as error:
        got = error.strerror or type(error).__name__
        raise InvalidInput(name, wanted="a file that can be read", got=got) from error
    if len(data) > MAX_FILE_BYTES:
        raise InvalidInput(name, wanted=f"at most {MAX_FILE_BYTES} bytes", got="more")
    return data


def _check_mode(name: str, path: Path, mode: int, *, owner_only: bool) -> None:
    if not mode & OTHERS:
        return
    shown = f"{stat.S_IMODE(mode):04o}"
    if owner_only:
        raise InvalidInput(name, wanted="a file that only its owner can use", got=f"mode {shown}; run chmod 600")
    log_event(events.SECRETS_EXPOSED, file=str(path), mode=shown)
