"""Idempotency keys of rows: a Spark task that runs again, or a micro-batch that is replayed, adds no second job.

Columns that the user names are the key. Without them the sink makes a key from the run and the content of the job.

- A micro-batch or a save with a named run can be repeated with other partitions. So its keys do not depend on
  partitions, and equal rows, which then have the same key, are refused: see ``check_distinct``.
- Another save is never repeated as a whole. When Spark runs one of its partitions again, the partition has the same
  rows. So its keys contain the partition, and the number of equal rows before the row: equal rows are separate jobs.

Runs on executors, except ``check_distinct``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from holdfast.errors import InvalidInput
from holdfast.model import bounds

DIGEST_BYTES = 16

_encode = msgspec.json.Encoder().encode


class ContentKeys:
    """Computes keys from the content of the rows of one partition of one run."""

    def __init__(self, run: str, partition: int | None) -> None:
        """``partition`` is None for a run that can be repeated with other partitions."""
        self._is_repeatable = partition is None
        origin = f"{run}\0" if partition is None else f"{run}\0{partition}\0"
        self._run_hash = hashlib.blake2b(origin.encode(), digest_size=DIGEST_BYTES)
        # A common prefix: the keys of a write are neighbours in the store's index, which makes inserts cheaper.
        self._prefix = f"spark:{self._run_hash.hexdigest()[:8]}:"
        self._seen: set[bytes] = set()
        self._repeats: Counter[bytes] = (
            Counter()
        )  # separate from _seen: repeated rows are few, and a set is smaller than a Counter

    def keys(self, contents: Iterable[bytes]) -> list[str]:
        """Return one key for each row, in order."""
        keys = []
        seen, new_hash, prefix = self._seen, self._run_hash.copy, self._prefix
        for content in contents:
            hashed = new_hash()
            hashed.update(content)
            digest = hashed.digest()
            if digest in seen:
                self._repeats[digest] += 1
                keys.append(f"{prefix}{digest.hex()}.{self._repeats[digest]}")
            else:
                seen.add(digest)
                keys.append(f"{prefix}{digest.hex()}")
        return keys

    def refuse_equal_rows(self) -> None:
        """Raise ``InvalidInput`` if two rows so far are equal and the run can be repeated with other partitions."""
        if self._is_repeatable and self._repeats:
            raise _equal_rows()

    def digests(self) -> bytes:
        """Return the digests of all rows, for ``check_distinct``; none if equal rows are separate jobs."""
        return b"".join(self._seen) if self._is_repeatable else b""


def check_distinct(partitions: Iterable[bytes]) -> None:
    """Raise ``InvalidInput`` if two rows are equal. ``partitions`` are the digests of every partition of a write.

    Runs on the Spark driver, after all rows are stored: no Spark task sees the rows of the others.
    """
    arrays = [
        pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(DIGEST_BYTES), len(digests) // DIGEST_BYTES, [None, pa.py_buffer(digests)]
        )
        for digests in partitions
    ]
    rows = pa.chunked_array(arrays, pa.binary(DIGEST_BYTES))
    if len(rows.unique()) < len(rows):
        raise _equal_rows()


def _equal_rows() -> InvalidInput:
    return InvalidInput("key", wanted="columns that tell all rows apart", got="none, and rows that make equal jobs")


def key_columns(
    field: str, key: str | Sequence[str], columns: Sequence[str], *, case_sensitive: bool = True
) -> tuple[str, ...]:
    """Return the columns that make the key: a list of names, one name, or several names separated by commas.

    Without ``case_sensitive`` a name also stands for the only column that differs from it in case alone.
    """
    if not isinstance(key, str | list | tuple):
        raise InvalidInput(field, wanted="names of columns", got=key)
    whole = [key] if isinstance(key, str) else key
    found = {name: _columns_named(name, columns, case_sensitive=case_sensitive) for name in whole}
    if isinstance(key, str) and not found[key]:
        names = [name for part in key.split(",") if (name := part.strip())]
        found = {name: _columns_named(name, columns, case_sensitive=case_sensitive) for name in names}
    refused = [name for name, matches in found.items() if len(matches) != 1]
    if refused or not found:
        wanted = f"columns of {', '.join(columns) or 'a frame that has some'}"
        raise InvalidInput(field, wanted=wanted, got=", ".join(map(str, refused)) or "nothing")
    return tuple(dict.fromkeys(matches[0] for matches in found.values()))


def _columns_named(name: str, columns: Sequence[str], *, case_sensitive: bool) -> list[str]:
    if case_sensitive or name in columns or not isinstance(name, str):
        return [name] if name in columns else []
    return [column for column in columns if column.lower() == name.lower()]


def column_keys(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[str]:
    """Return the values of one column, or the values of several columns as a JSON array, hashed if it is too long."""
    for name, column in zip(names, columns, strict=True):
        if None in column:
            raise InvalidInput(f"key {name}", wanted="a value in every row", got="null")
    if len(columns) == 1:
        return [value if type(value) is str else str(value) for value in columns[0]]
    return [_text_or_hash(_encode(values)) for values in zip(*columns, strict=True)]


def _text_or_hash(text: bytes) -> str:
    return text.decode() if len(text) <= bounds.MAX_TEXT_BYTES else hashlib.blake2b(text, digest_size=32).hexdigest()
