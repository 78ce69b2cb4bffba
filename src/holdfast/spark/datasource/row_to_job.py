"""Rows become jobs: an Arrow batch in, records out, column by column as far as it goes.

A batch with a bad row is refused as a whole. The sink then asks again row by row: only batches with bad rows are slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, cast

import msgspec
import pyarrow as pa
from uuid_utils import uuid7

from holdfast.errors import PayloadError
from holdfast.model import bounds
from holdfast.model.fast_construction import mutable_twin
from holdfast.model.job import DEFAULT_MAX_CRASHES, JobRecord, State
from holdfast.model.job_batch import JobBatch
from holdfast.model.request import check_meta
from holdfast.spark.datasource.arrow_json import documents, micros, objects, row_of, values
from holdfast.spark.datasource.options import Sink
from holdfast.spark.datasource.row_keys import MadeKeys, named_keys
from holdfast.wire.codec import JSON

_JobDraft = mutable_twin(JobRecord)
_encode = msgspec.json.Encoder().encode


class Recorder:
    """Makes the records of one partition. Knows which equal rows it has seen; otherwise without a state."""

    def __init__(self, asked: Sink, names: Sequence[str], *, run: str, partition: int) -> None:
        self._asked = asked
        self._whole = list(asked.payload or names)
        self._row = row_of(self._whole)
        self._made = MadeKeys(run, partition)

    def records(self, batch: pa.RecordBatch, *, now: int) -> Sequence[JobRecord]:
        """A record for each row. Raises ``InvalidInput``, without remembering anything, if one of them is bad."""
        asked = self._asked
        payloads = self._payloads(batch)
        fields = {field: self._field(batch, field, name) for field, name in asked.columns.items()}
        if asked.type_column is not None:
            fields["type"] = _named("type", values(batch.column(asked.type_column), "type"))
        if asked.queue_column is not None:
            fields["queue"] = _named("queue", values(batch.column(asked.queue_column), "queue"))
        keys = self._keys(batch, payloads, fields)
        if fields or not payloads:
            return self._filled(payloads, keys, fields, now)
        [like] = self._filled(payloads[:1], keys[:1], fields, now)
        return JobBatch(like, [str(uuid7()) for _ in payloads], payloads, keys)

    def _payloads(self, batch: pa.RecordBatch) -> list[bytes]:
        if len(self._asked.payload) == 1:
            [name] = self._asked.payload
            made = documents(batch.column(name), name)
        else:
            made = objects(self._row, [values(batch.column(name), name) for name in self._whole])
        longest = max(map(len, made), default=0)
        if longest > bounds.MAX_PAYLOAD_BYTES:
            raise PayloadError("payload", wanted=f"at most {bounds.MAX_PAYLOAD_BYTES} bytes", got=f"{longest} bytes")
        return made

    def _field(self, batch: pa.RecordBatch, field: str, name: str) -> Sequence[Any]:
        column = batch.column(name)
        if field in ("run_at", "delay", "timeout"):
            found = micros(column)
            for value in found if field == "delay" else ():
                bounds.check_optional_integer(field, value, most=bounds.MAX_DURATION)
            return found
        if field == "meta":
            return [_meta(text) for text in documents(column, field)]
        return values(column, field)

    def _keys(
        self, batch: pa.RecordBatch, payloads: list[bytes], fields: dict[str, Sequence[Any]]
    ) -> Sequence[str | None]:
        names = self._asked.key
        if names:
            return named_keys(names, [values(batch.column(name), f"key {name}") for name in names])
        if not fields:
            return self._made.keys(payloads)
        beside = map(_encode, zip(*fields.values(), strict=True))
        return self._made.keys(payload + b"\0" + more for payload, more in zip(payloads, beside, strict=True))

    def _filled(
        self, payloads: list[bytes], keys: Sequence[str | None], fields: dict[str, Sequence[Any]], now: int
    ) -> list[JobRecord]:
        asked = self._asked
        constants = asked.constants

        def column(field: str, default: Any = None) -> Iterable[Any]:
            found = fields.get(field)
            if found is None:
                return repeat(default)
            return found if default is None else [default if value is None else value for value in found]

        run_ats = column("run_at")
        if "delay" in fields or "delay" in constants:
            delays = column("delay", constants.get("delay"))
            run_ats = [now + delay if delay else None for delay, _ in zip(delays, payloads, strict=False)]
        made: list[JobRecord] = []
        add: Callable[[Any], None] = made.append
        for (
            payload,
            key,
            type_,
            queue,
            priority,
            max_attempts,
            run_at,
            timeout,
            domain,
            offset,
            name,
            webhook,
            meta,
        ) in zip(
            payloads,
            keys,
            column("type", asked.type),
            column("queue", asked.queue),
            column("priority", constants.get("priority", 0)),
            column("max_attempts", constants["max_attempts"]),
            run_ats,
            column("timeout", constants.get("timeout")),
            column("domain"),
            column("offset"),
            column("name"),
            column("webhook"),
            column("meta"),
            strict=False,  # constants have no end
        ):
            job = _JobDraft()
            job.id = str(uuid7())
            job.type = type_
            job.queue = queue
            job.payload = payload
            job.priority = priority
            job.run_at = job.requested_run_at = run_at
            job.timeout = timeout
            job.created_at = now
            job.attempts = job.crashes = 0
            job.max_attempts = max_attempts
            job.max_crashes = DEFAULT_MAX_CRASHES
            job.idempotency_key = key
            job.domain = domain
            job.offset = offset
            job.name = name
            job.meta = {} if meta is None else meta
            job.webhook = webhook
            job.state = State.READY
            job.last_error = ""
            job.signature = job.failed_at = job.dead_reason = job.dead_at = job.result = None
            job.__class__ = JobRecord
            add(job)
        return made


def _named(field: str, found: list[Any]) -> list[Any]:
    for name in set(found):
        if name is not None or field == "type":  # without a queue of its own, a job goes to the one of all
            bounds.check_name(field, name)
    return found


def _meta(text: bytes) -> dict[str, object]:
    if text == b"null":
        return {}
    meta = JSON.decode(bounds.check_blob("meta", text, most=bounds.MAX_META_BYTES), field="meta")
    check_meta(meta)
    return cast("dict[str, object]", meta)
