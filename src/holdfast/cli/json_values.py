"""Records as JSON: the contract's field names, instants as ISO 8601 in UTC, durations in seconds, payloads decoded."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import fields
from datetime import timedelta
from typing import Any

import msgspec

from holdfast.clock import SECOND, from_timedelta, to_datetime
from holdfast.drivers.answers import Inspection
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.domain import DomainInfo
from holdfast.model.execution import ExecutionResult
from holdfast.model.fingerprint import fingerprint
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.unique import rule_of
from holdfast.observability.presence import WorkerPresence
from holdfast.settings import mask_secrets
from holdfast.wire.codec import JSON

UNTIL_RESUMED = "until resumed"
MAX_ONE_LINE_CHARACTERS = 60


def instant(value: int | None) -> str | None:
    """``2026-11-15T20:58:25.123456Z``: always six decimals, so that sorting the texts sorts the instants."""
    return None if value is None else to_datetime(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(value: int | timedelta | None) -> float | None:
    """A duration in seconds."""
    if value is None:
        return None
    return (from_timedelta(value) if isinstance(value, timedelta) else value) / SECOND


def unique(unique_for: int | None) -> str | float | None:
    """How long the idempotency key of a job is taken: a rule, or seconds."""
    return rule_of(unique_for) or seconds(unique_for)


def stored_value(data: bytes | None) -> object:
    """The JSON value of stored bytes; bytes that are not JSON become ``{"base64": ...}``."""
    if data is None:
        return None
    try:
        return JSON.decode(data)
    except InvalidInput:
        return {"base64": b64encode(data).decode("ascii")}


def stored_text(data: bytes | None) -> str | None:
    """Stored bytes as text for people: short JSON on one line, longer JSON indented."""
    if data is None:
        return None
    value = stored_value(data)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_ONE_LINE_CHARACTERS else json.dumps(value, ensure_ascii=False, indent=2)


def job(record: JobRecord) -> dict[str, Any]:
    """Every field of a job."""
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
        "unique": unique(record.unique_for),
        "domain": record.domain,
        "offset": record.offset,
        "limit_key": record.limit_key,
        "meta": dict(record.meta),
        "webhook": None if record.webhook is None else mask_secrets(record.webhook),
        "signature": record.signature,
        "payload": stored_value(record.payload),
        "result": stored_value(record.result),
        "last_error": record.last_error,
        "failed_at": instant(record.failed_at),
        "dead_reason": record.dead_reason,
        "dead_at": instant(record.dead_at),
        "fingerprint": fingerprint_of(record) if record.state is State.DEAD else None,
    }


def fingerprint_of(letter: JobRecord) -> str:
    """The fingerprint of a dead letter."""
    return fingerprint(type=letter.type, reason=letter.dead_reason, error=letter.last_error)


def inspection(inspected: Inspection) -> dict[str, Any]:
    """A job with its lease and its note."""
    note = inspected.note
    return {
        **job(inspected.job),
        "available_at": instant(inspected.available_at),
        "worker": inspected.worker or None,
        "fence": inspected.fence,
        "reserved_at": instant(inspected.reserved_at),
        "expires_at": instant(inspected.expires_at),
        "ended_at": instant(inspected.ended_at),
        "cancel_requested": inspected.cancel_requested,
        "started_at": None if note is None else instant(note.started_at),
        "progress": None if note is None else stored_value(note.progress),
        "checkpoint": None if note is None else stored_value(note.checkpoint),
    }


def execution(result: ExecutionResult | None) -> dict[str, Any] | None:
    """Every field of the last attempt; None if it is not kept."""
    if result is None:
        return None
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    times = {"started": result.started.isoformat(), "ended": result.ended.isoformat()}
    return {**values, **times, "duration": result.duration.total_seconds()}


_INSTANT_FIELDS = {"enqueued_at", "available_at", "reserved_at", "started_at", "ended_at"}


def ledger_row(row: LedgerRow) -> dict[str, Any]:
    """Every field of a ledger row."""
    values = msgspec.structs.asdict(row)
    return {name: instant(value) if name in _INSTANT_FIELDS else value for name, value in values.items()}


def queue_settings(settings: QueueSettings) -> dict[str, Any]:
    """The settings of a queue."""
    return {
        "paused_until": paused_until(settings),
        "max_inflight": settings.max_inflight,
        "rate": settings.rate,
        "burst": settings.burst,
        "on_exhausted": settings.on_exhausted.value,
        "dedupe_window": seconds(settings.dedupe_window),
        "held_until": instant(settings.held_until),
        "probing": settings.probing,
        "key_max_inflight": settings.key_max_inflight,
        "key_rate": settings.key_rate,
        "key_burst": settings.key_burst,
        "gaps": settings.gaps.value,
        "gap_report_after": seconds(settings.gap_report_after),
        "gap_pass_after": seconds(settings.gap_pass_after),
        "limits_from": settings.limit_origin,
    }


def paused_until(settings: QueueSettings) -> str | None:
    """When the pause of a queue ends; an instant in the past is returned unchanged."""
    if settings.paused_until == bounds.MAX_INSTANT:
        return UNTIL_RESUMED
    return instant(settings.paused_until)


def domain(info: DomainInfo) -> dict[str, Any]:
    """Every field of a domain."""
    values = {field.name: getattr(info, field.name) for field in fields(info)}
    return {**values, "waiting_since": instant(info.waiting_since), "halted_at": instant(info.halted_at)}


def worker_presence(worker: WorkerPresence) -> dict[str, Any]:
    """Every field of a running worker, and its state."""
    values = {field.name: getattr(worker, field.name) for field in fields(worker)}
    del values["draining"]
    return {
        **values,
        "state": worker.state,
        "started_at": instant(worker.started_at),
        "beat_at": instant(worker.beat_at),
    }
