"""The rows of a slot as payloads: JSON objects with the columns of the frame. Runs on executors, in ``run``."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from holdfast.errors import PayloadError
from holdfast.model import bounds
from holdfast.spark.datasource.arrow_json import encode_rows, exact_json_values, make_row_class
from holdfast.spark.datasource.key_conflicts import shown_key
from holdfast.spark.execution.run_columns import InputColumns
from holdfast.wire.codec import JSON
from holdfast.worker.bad_rows import BadRow

UNENCODABLE = (ValueError, TypeError, ArithmeticError, pa.ArrowException)  # PayloadError is a ValueError


class Encoded(NamedTuple):
    """The payload of each row; for the rows at the places ``bad``, that of a ``BadRow``."""

    payloads: list[bytes]
    bad: set[int]


class RowPayloads:
    """Encodes rows. A batch has the key first, then the input columns in their order, under any names."""

    def __init__(self, columns: InputColumns) -> None:
        self._columns = columns
        self._row_class = make_row_class(columns.names)

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        """Return the payloads. Rows are encoded one by one only if one of them cannot be encoded."""
        try:
            payloads = self._encode(batch)
        except UNENCODABLE:
            return self._encode_each(batch)
        if max(map(len, payloads), default=0) <= bounds.MAX_PAYLOAD_BYTES:
            return Encoded(payloads, set())
        bad = {place for place, payload in enumerate(payloads) if len(payload) > bounds.MAX_PAYLOAD_BYTES}
        for place in bad:
            payloads[place] = self._too_large(batch.slice(place, 1), payloads[place])
        return Encoded(payloads, bad)

    def _encode_each(self, batch: pa.RecordBatch) -> Encoded:
        payloads: list[bytes] = []
        bad: set[int] = set()
        for place in range(batch.num_rows):
            row = batch.slice(place, 1)
            try:
                [payload] = self._encode(row)
                is_bad = len(payload) > bounds.MAX_PAYLOAD_BYTES
                payloads.append(self._too_large(row, payload) if is_bad else payload)
            except UNENCODABLE as error:
                is_bad = True
                payloads.append(self._bad_row(row, error))
            if is_bad:
                bad.add(place)
        return Encoded(payloads, bad)

    def _too_large(self, row: pa.RecordBatch, payload: bytes) -> bytes:
        wanted = f"at most {bounds.MAX_PAYLOAD_BYTES} bytes"
        error = PayloadError("payload", wanted=wanted, got=f"{len(payload)} bytes")
        return self._bad_row(row, error, hashlib.sha256(payload).hexdigest())

    def _bad_row(self, row: pa.RecordBatch, error: Exception, sha256: str = "") -> bytes:
        if not isinstance(error, PayloadError):
            got = f"{type(error).__name__}: {error}"
            error = PayloadError("payload", wanted="values that JSON can hold", got=got)
        names = [self._columns.names[place] for place in self._columns.key]
        values = [_shown_value(row.column(1 + place)) for place in self._columns.key]
        shown = bounds.truncate_text(shown_key(names, values), bounds.MAX_TEXT_BYTES)
        texts = (bounds.truncate_text(text) for text in (error.field, error.wanted, error.got))
        field, wanted, got = texts
        return msgspec.json.encode(BadRow(row=shown, field=field, wanted=wanted, got=got, sha256=sha256))

    def shown_key(self, payload: bytes) -> str:
        """Return the names and values of the key columns of the row with this payload."""
        row: Any = JSON.decode(payload)
        names = [self._columns.names[place] for place in self._columns.key]
        return shown_key(names, [row[name] for name in names])

    def _encode(self, batch: pa.RecordBatch) -> list[bytes]:
        described = zip(batch.columns[1:], self._columns.kinds, self._columns.names, strict=True)
        values = [exact_json_values(column, kind, name) for column, kind, name in described]
        return encode_rows(self._row_class, values)


def _shown_value(column: pa.Array) -> object:
    """Return the only value of a column as text; as bytes if it is not UTF-8."""
    text = column.cast(pa.string())
    try:
        return text.to_pylist()[0]
    except UnicodeDecodeError:
        return text.cast(pa.binary()).to_pylist()[0]
