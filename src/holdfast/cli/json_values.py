"""Records as JSON: the names of the contract, instants as ISO 8601 in UTC, lengths in seconds, payloads as values."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Any

from holdfast.cli.parameters import as_json
from holdfast.clock import SECOND, from_timedelta, to_datetime
from holdfast.drivers.contract import Inspection, QueueSettings
from holdfast.model import bounds
from holdfast.model.fingerprint import fingerprint
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import LedgerRow
from holdfast.settings import mask_secrets

UNTIL_RESUMED = "until resumed"


def instant(value: int | None) -> str | None:
    """``2026-11-15T20:58:25.123456Z``: always six digits, so that texts sort as instants do."""
    return None if value is None else to_datetime(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(value: int | timedelta | None) -> float | None:
    """A length in seconds."""
    if value is None:
        return None
    return (from_timedelta(value) if isinstance(value, timedelta) else value) / SECOND


def job(record: JobRecord) -> dict[str, Any]:
    """Every field of a record."""
    return {
        "id": record.id,
        "type": record.type,
        "queue": record.queue,
        "state": record.state.value,
        "name": record.name,
        "priority": record.priority,
        "created_at": instant(record.created_at),
        "run_at": instant(record.run_at),
        "requested_run_at": instant(record.requested_run_at),
        "timeout": seconds(record.timeout),
        "attempts": record.attempts,
        "max_attempts": record.max_attempts,
        "crashes": record.crashes,
        "max_crashes": record.max_crashes,
        "idempotency_key": record.idempotency_key,
        "domain": record.domain,
        "offset": record.offset,
        "meta": dict(record.meta),
        "webhook": None if record.webhook is None else mask_secrets(record.webhook),
        "signature": record.signature,
        "payload": as_json(record.payload),
        "result": as_json(record.result),
        "last_error": record.last_error,
        "failed_at": instant(record.failed_at),
        "dead_reason": record.dead_reason,
        "dead_at": instant(record.dead_at),
        "fingerprint": of(record) if record.state is State.DEAD else None,
    }


def of(record: JobRecord) -> str:
    """The fingerprint of a dead letter."""
    return fingerprint(type=record.type, reason=record.dead_reason, error=record.last_error)


def inspection(seen: Inspection) -> dict[str, Any]:
    """A job with its lease and its notes."""
    note = seen.note
    return {
        **job(seen.job),
        "available_at": instant(seen.available_at),
        "worker": seen.worker or None,
        "fence": seen.fence,
        "reserved_at": instant(seen.reserved_at),
        "expires_at": instant(seen.expires_at),
        "ended_at": instant(seen.ended_at),
        "cancel_requested": seen.cancel_requested,
        "started_at": None if note is None else instant(note.started_at),
        "progress": None if note is None else as_json(note.progress),
        "checkpoint": None if note is None else as_json(note.checkpoint),
    }


_INSTANTS = {"enqueued_at", "available_at", "reserved_at", "started_at", "ended_at"}


def ledger_row(row: LedgerRow) -> dict[str, Any]:
    """Every field of a row."""
    values = {field.name: getattr(row, field.name) for field in fields(row)}
    return {name: instant(value) if name in _INSTANTS else value for name, value in values.items()}


def queue_settings(settings: QueueSettings) -> dict[str, Any]:
    """What an operator has said of a queue."""
    return {
        "paused_until": paused(settings),
        "max_inflight": settings.max_inflight,
        "rate": settings.rate,
        "burst": settings.burst,
        "on_exhausted": settings.on_exhausted.value,
        "dedupe_window": seconds(settings.dedupe_window),
    }


def paused(settings: QueueSettings) -> str | None:
    """Until when a queue is paused; an instant that has passed is shown as it was set."""
    if settings.paused_until == bounds.MAX_INSTANT:
        return UNTIL_RESUMED
    return instant(settings.paused_until)
