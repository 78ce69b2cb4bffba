"""The registry: versioned rows that may expire."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import WriteRefused
from holdfast.model.registry import Change, Entry
from tests.drivers.oracle.state import OracleState


def is_expired(entry: Entry, now: int) -> bool:
    """Whether a registry row has expired."""
    return entry.expires_at is not None and now >= entry.expires_at


def find_entry(state: OracleState, kind: str, key: str, now: int) -> Entry | None:
    """Return the row, or None if there is none or it has expired."""
    entry = state.registry.get((kind, key))
    return None if entry is None or is_expired(entry, now) else entry


def has_expected_version(state: OracleState, change: Change, now: int) -> bool:
    """Whether the change expects the version of the current row, or any version."""
    entry = find_entry(state, change.kind, change.key, now)
    return change.version is None or change.version == (0 if entry is None else entry.version)


def apply_change(state: OracleState, change: Change, now: int) -> Entry:
    """Write or remove the row; return the new row."""
    if change.value is None:
        state.registry.pop((change.kind, change.key), None)
        return Entry(key=change.key, value=None, version=0)
    expires_at = None if change.ttl is None else now + change.ttl
    entry = Entry(key=change.key, value=change.value, version=state.next_number(), expires_at=expires_at)
    state.registry[change.kind, change.key] = entry
    return entry


def write_all(state: OracleState, job_id: str, changes: Sequence[Change], now: int) -> WriteRefused | None:
    """Make all changes that belong to a job; make none, and return the refusal, if one expects another version."""
    for change in changes:
        if not has_expected_version(state, change, now):
            return WriteRefused(job_id, kind=change.kind, key=change.key)
    for change in changes:
        apply_change(state, change, now)
    return None
