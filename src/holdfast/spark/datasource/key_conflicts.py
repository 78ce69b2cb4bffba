"""The text about two rows with one key: the values of the key, and the columns that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord, State
from holdfast.wire.codec import JSON

MAX_SHOWN_COLUMNS = 10
NOT_KEPT = "its job is no longer kept"


def key_conflict(job: JobRecord | None, payload: bytes, key: str) -> InvalidInput:
    """Return the error for a row whose key another job has; ``key`` shows the values of the key columns."""
    return _conflict(key, NOT_KEPT if job is None else _difference(payload, job.payload))


def stored_conflict(job: JobRecord | None, payload: bytes, key: str, *, is_retried: bool) -> InvalidInput:
    """Return the error for a row that an earlier call of its run has stored with other values."""
    if job is None:
        reason = f"{NOT_KEPT}; give the run another name"
    elif job.state is State.DEAD:
        reason = f"{_difference(payload, job.payload)}. It is dead: " + (
            "a registered reader of the ledger has not read its end; call run again"
            if is_retried
            else "run(..., retry_dead=True) runs the corrected row"
        )
    else:
        reason = f"{_difference(payload, job.payload)}. It is {job.state} and keeps its values"
    wanted = "the values that a row of this run was stored with"
    return InvalidInput("key", wanted=wanted, got=f"others for {key}, which an earlier call stored: {reason}")


def job_conflict(store: Store, job_id: str, job: JobRecord) -> InvalidInput:
    """Return the error for a job whose key, or whose offset in its domain, another job has with another payload."""
    known = store.get(job_id)
    if job.offset is None or (known is not None and job.idempotency_key == known.idempotency_key is not None):
        return key_conflict(known, job.payload, repr(job.idempotency_key))
    difference = NOT_KEPT if known is None else _difference(job.payload, known.payload)
    got = f"two different rows with domain {job.domain!r} and offset {job.offset}: {difference}"
    return InvalidInput("offset", wanted="one row for each offset of a domain", got=got)


def different_rows(key: str, names: Sequence[str]) -> InvalidInput:
    """Return the error for two rows with one key that differ in the columns ``names``."""
    return _conflict(key, _differing(names))


def shown_key(names: Sequence[str], values: Sequence[object]) -> str:
    """Return the names and values of key columns, as in ``order=7, line=2``."""
    return ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True))


def _difference(payload: bytes, stored: bytes) -> str:
    new, old = JSON.decode(payload), JSON.decode(stored)
    if not isinstance(new, Mapping) or not isinstance(old, Mapping):
        return "their payloads differ"
    return _differing([name for name in {**new, **old} if name not in new or name not in old or new[name] != old[name]])


def _differing(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_SHOWN_COLUMNS])
    return f"they differ in {shown}" + (", …" if len(names) > MAX_SHOWN_COLUMNS else "")


def _conflict(key: str, difference: str) -> InvalidInput:
    return InvalidInput("key", wanted="one row for each key", got=f"two different rows with {key}: {difference}")
