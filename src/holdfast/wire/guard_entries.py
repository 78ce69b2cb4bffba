"""The registry entries of the guards: idempotency marks and single-instance locks.

A key is a hash: a queue and an idempotency key together can be longer than a key of the registry.
"""

from __future__ import annotations

import hashlib

import msgspec

from holdfast.model.registry import Entry

MARK_KIND = "guard.idempotency"
LOCK_KIND = "guard.lock"
KEY_BYTES = 32


class Holder(msgspec.Struct, kw_only=True, frozen=True):
    """The value of an entry: the attempt that holds it, or that finished the work (``done``)."""

    job_id: str
    fence: int
    done: bool = False

    def encode(self) -> bytes:
        """Return the holder as the store keeps it."""
        return msgspec.json.encode(self)


def read_holder(entry: Entry | None) -> Holder | None:
    """Return the holder; None if there is no entry, or it cannot be read: then nobody holds it."""
    try:
        return None if entry is None else msgspec.json.decode(entry.value or b"", type=Holder)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def is_done(entry: Entry) -> bool:
    """Whether the entry is the mark of work that was finished."""
    holder = read_holder(entry)
    return holder is not None and holder.done


def mark_key(queue: str, idempotency_key: str) -> str:
    """Return the key of the mark of an idempotency key in its queue."""
    return _hash("key", queue, idempotency_key)


def lock_key(queue: str, type_: str, name: str | None) -> str:
    """Return the key of a lock: of a queue and type, or of a name that any jobs of the space may share."""
    return _hash("type", queue, type_) if name is None else _hash("name", name)


def _hash(*parts: str) -> str:
    framed = "".join([f"{len(part)}:{part}" for part in parts])
    return hashlib.blake2b(framed.encode(), digest_size=KEY_BYTES).hexdigest()
