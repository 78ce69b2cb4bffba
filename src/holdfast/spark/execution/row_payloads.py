"""The rows of a slot as payloads: JSON objects with the columns of the frame. Runs on executors, in ``run``."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from holdfast.errors import PayloadError
from holdfast.model import bounds
from holdfast.spark.datasource.arrow_json import encode_rows, exact_json_values, make_row_class
from holdfast.spark.datasource.key_conflicts import shown_key
from holdfast.spark.execution.run_columns import InputColumns
from holdfast.wire.codec import JSON


class RowPayloads:
    """Encodes rows. A batch has the key first, then the input columns in their order, under any names."""

    def __init__(self, columns: InputColumns) -> None:
        self._columns = columns
        self._row_class = make_row_class(columns.names)

    def encode(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return the payload of each row. Raises ``PayloadError``, which names the row, if one cannot be a job."""
        try:
            return self._encode(batch)
        except PayloadError:
            for place in range(batch.num_rows):
                self._check_row(batch.slice(place, 1))
            raise

    def shown_key(self, payload: bytes) -> str:
        """Return the names and values of the key columns of the row with this payload."""
        row: Any = JSON.decode(payload)
        names = [self._columns.names[place] for place in self._columns.key]
        return shown_key(names, [row[name] for name in names])

    def _check_row(self, row: pa.RecordBatch) -> None:
        try:
            self._encode(row)
        except PayloadError as error:
            names = [self._columns.names[place] for place in self._columns.key]
            values = [row.column(1 + place).cast(pa.string()).to_pylist()[0] for place in self._columns.key]
            field = f"row with {shown_key(names, values)}: {error.field}"
            raise PayloadError(field, wanted=error.wanted, got=error.got) from error

    def _encode(self, batch: pa.RecordBatch) -> list[bytes]:
        described = zip(batch.columns[1:], self._columns.kinds, self._columns.names, strict=True)
        values = [exact_json_values(column, kind, name) for column, kind, name in described]
        payloads = encode_rows(self._row_class, values)
        longest = max(map(len, payloads), default=0)
        if longest > bounds.MAX_PAYLOAD_BYTES:
            raise PayloadError("payload", wanted=f"at most {bounds.MAX_PAYLOAD_BYTES} bytes", got=f"{longest} bytes")
        return payloads
