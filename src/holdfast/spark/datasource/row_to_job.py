"""Rows to jobs: an Arrow batch in, job records out, column by column where possible. Runs on executors, in the sink.

A batch with a bad row is refused as a whole. The sink then converts it row by row: only batches with bad rows are slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, cast

import msgspec
import pyarrow as pa
from uuid_utils import uuid7

from holdfast.errors import PayloadError
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.request import check_meta
from holdfast.spark.datasource.arrow_json import (
    encode_column,
    encode_rows,
    json_values,
    make_row_class,
    microseconds,
)
from holdfast.spark.datasource.options import SinkOptions
from holdfast.spark.datasource.row_keys import ContentKeys, column_keys
from holdfast.wire.codec import JSON

_encode = msgspec.json.Encoder().encode


class RowConverter:
    """Converts the rows of one partition. Its only state are the equal rows that it has seen."""

    def __init__(self, options: SinkOptions, names: Sequence[str], *, run: str, partition: int | None) -> None:
        """``partition`` is None for a run that can be repeated with other partitions."""
        self._options = options
        self._payload_columns = list(options.payload or names)
        self._row_class = make_row_class(self._payload_columns)
        self.content_keys = ContentKeys(run, partition)

    def convert(self, batch: pa.RecordBatch, *, now: int) -> Sequence[JobRecord]:
        """Return a record for each row. Raises ``InvalidInput``, and changes no state, if one of the rows is bad."""
        options = self._options
        payloads = self._payloads(batch)
        fields = {field: self._field(batch, field, name) for field, name in options.columns.items()}
        if options.type_column is not None:
            fields["type"] = _check_names("type", json_values(batch.column(options.type_column), "type"))
        if options.queue_column is not None:
            fields["queue"] = _check_names("queue", json_values(batch.column(options.queue_column), "queue"))
        keys = self._keys(batch, payloads, fields)
        if fields or not payloads:
            return self._records(payloads, keys, fields, now)
        [template] = self._records(payloads[:1], keys[:1], fields, now)  # the rows differ in payload and key only
        return JobBatch(template, [str(uuid7()) for _ in payloads], payloads, keys)

    def _payloads(self, batch: pa.RecordBatch) -> list[bytes]:
        if len(self._options.payload) == 1:
            [name] = self._options.payload
            payloads = encode_column(batch.column(name), name)
        else:
            columns = [json_values(batch.column(name), name) for name in self._payload_columns]
            payloads = encode_rows(self._row_class, columns)
        longest = max(map(len, payloads), default=0)
        if longest > bounds.MAX_PAYLOAD_BYTES:
            raise PayloadError("payload", wanted=f"at most {bounds.MAX_PAYLOAD_BYTES} bytes", got=f"{longest} bytes")
        return payloads

    def _field(self, batch: pa.RecordBatch, field: str, name: str) -> Sequence[Any]:
        column = batch.column(name)
        if field in ("run_at", "delay", "timeout"):
            values = microseconds(column)
            for value in values if field == "delay" else ():
                bounds.check_optional_integer(field, value, most=bounds.MAX_DURATION)
            return values
        if field == "meta":
            return [_meta(text) for text in encode_column(column, field)]
        return json_values(column, field)

    def _keys(
        self, batch: pa.RecordBatch, payloads: list[bytes], fields: dict[str, Sequence[Any]]
    ) -> Sequence[str | None]:
        names = self._options.key
        if names:
            return column_keys(names, [json_values(batch.column(name), f"key {name}") for name in names])
        if not fields:
            return self.content_keys.keys(payloads)
        other_fields = map(_encode, zip(*fields.values(), strict=True))
        contents = (payload + b"\0" + other for payload, other in zip(payloads, other_fields, strict=True))
        offsets = fields.get("offset")
        if offsets is None:
            return self.content_keys.keys(contents)
        # A domain has an offset once, so a row with an offset needs no key.
        without = (content for content, offset in zip(contents, offsets, strict=True) if offset is None)
        keys = iter(self.content_keys.keys(without))
        return [next(keys) if offset is None else None for offset in offsets]

    def _records(
        self, payloads: list[bytes], keys: Sequence[str | None], fields: dict[str, Sequence[Any]], now: int
    ) -> list[JobRecord]:
        options = self._options
        constants = options.constants

        def column(field: str, default: Any = None) -> Iterable[Any]:
            values = fields.get(field)
            if values is None:
                return repeat(default)
            return values if default is None else [default if value is None else value for value in values]

        run_ats = column("run_at")
        if "delay" in fields or "delay" in constants:
            delays = column("delay", constants.get("delay"))
            run_ats = [now + delay if delay else None for delay, _ in zip(delays, payloads, strict=False)]
        records: list[JobRecord] = []
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
            limit_key,
            name,
            webhook,
            meta,
        ) in zip(
            payloads,
            keys,
            column("type", options.type),
            column("queue", options.queue),
            column("priority", constants.get("priority", 0)),
            column("max_attempts", constants["max_attempts"]),
            run_ats,
            column("timeout", constants.get("timeout")),
            column("domain"),
            column("offset"),
            column("limit_key"),
            column("name"),
            column("webhook"),
            column("meta"),
            strict=False,  # a constant is repeated without end
        ):
            job = JobRecord(
                id=str(uuid7()),
                type=type_,
                queue=queue,
                payload=payload,
                priority=priority,
                run_at=run_at,
                timeout=timeout,
                created_at=now,
                max_attempts=max_attempts,
                idempotency_key=key,
                domain=domain,
                offset=offset,
                limit_key=limit_key,
                name=name,
                meta={} if meta is None else meta,
                webhook=webhook,
                requested_run_at=run_at,
            )
            records.append(job)
        return records


def _check_names(field: str, names: list[Any]) -> list[Any]:
    for name in set(names):
        if name is not None or field == "type":  # a row without a queue uses the option ``queue``
            bounds.check_name(field, name)
    return names


def _meta(text: bytes) -> dict[str, object]:
    if text == b"null":
        return {}
    meta = JSON.decode(bounds.check_blob("meta", text, most=bounds.MAX_META_BYTES), field="meta")
    check_meta(meta)
    return cast("dict[str, object]", meta)
