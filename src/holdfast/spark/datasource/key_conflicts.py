"""The text about two rows with one key: the values of the key, and the columns that differ. Runs on executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.drivers.contract import Store
from holdfast.errors import InvalidInput
from holdfast.wire.codec import JSON

MAX_SHOWN_COLUMNS = 10


def key_conflict(store: Store, job_id: str, payload: bytes, key: str) -> InvalidInput:
    """Return the error for a row whose key another job has; ``key`` shows the values of the key columns."""
    job = store.get(job_id)
    difference = "its job is no longer kept" if job is None else _difference(payload, job.payload)
    return InvalidInput("key", wanted="one row for each key", got=f"two different rows with {key}: {difference}")


def shown_key(names: Sequence[str], values: Sequence[object]) -> str:
    """Return the names and values of key columns, as in ``order=7, line=2``."""
    return ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True))


def _difference(payload: bytes, stored: bytes) -> str:
    new, old = JSON.decode(payload), JSON.decode(stored)
    if not isinstance(new, Mapping) or not isinstance(old, Mapping):
        return "their payloads differ"
    names = [name for name in {**new, **old} if name not in new or name not in old or new[name] != old[name]]
    shown = ", ".join(names[:MAX_SHOWN_COLUMNS])
    return f"they differ in {shown}" + (", …" if len(names) > MAX_SHOWN_COLUMNS else "")
