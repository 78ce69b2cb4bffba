"""The idempotency keys of rows: what makes a Spark task that is run again, or a micro-batch, add nothing.

Columns that the user names are a key by themselves. Else a key is made from the run, the partition, what the job is
made of, and how many equal rows the partition had before: the same rows give the same keys in any order, and no two
rows of a run share one. Spark gives a partition the same rows when it runs it again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model import bounds

_encode = msgspec.json.Encoder().encode


class MadeKeys:
    """Keys for the rows of one partition of one run."""

    def __init__(self, run: str, partition: int) -> None:
        self._of_run = hashlib.blake2b(f"{run}\0{partition}\0".encode(), digest_size=16)
        # The keys of a partition are neighbours in a store's index, where those of all runs would be all over it.
        self._prefix = f"spark:{self._of_run.hexdigest()[:8]}:"
        self._seen: set[bytes] = set()
        self._again: Counter[bytes] = Counter()  # few, so that the first of each row costs a set's entry only

    def keys(self, contents: Iterable[bytes]) -> list[str]:
        """One key for each row, in order."""
        made = []
        seen, start, prefix = self._seen, self._of_run.copy, self._prefix
        for content in contents:
            hashed = start()
            hashed.update(content)
            digest = hashed.digest()
            if digest in seen:
                self._again[digest] += 1
                made.append(f"{prefix}{digest.hex()}.{self._again[digest]}")
            else:
                seen.add(digest)
                made.append(f"{prefix}{digest.hex()}")
        return made


def named_keys(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[str]:
    """The keys that columns say: of one column its value, of several their values as a JSON array, hashed if long."""
    for name, column in zip(names, columns, strict=True):
        if None in column:
            raise InvalidInput(f"key {name}", wanted="a value in every row", got="null")
    if len(columns) == 1:
        return [value if type(value) is str else str(value) for value in columns[0]]
    return [_short(_encode(found)) for found in zip(*columns, strict=True)]


def _short(text: bytes) -> str:
    return text.decode() if len(text) <= bounds.MAX_TEXT_BYTES else hashlib.blake2b(text, digest_size=32).hexdigest()
