"""The registry entries of a domain, and their names: their keys without the hash of the domain.

| name | content |
|---|---|
| none | the *head*: lease, halt, fence, the latest ended offsets, both ends of the backlog |
| ``.ended.`` and a number | a chunk: the ended offsets of one fixed range that are no longer in the head |
| ``.waiting.`` and a number | a part of the backlog between its ends. It never changes |
| ``.holder.`` and the hash of a token | the holder of a lease that lapses: the entry expires with the lease |
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from holdfast.drivers.requests import Read, Scan, Write
from holdfast.drivers.store import Store
from holdfast.errors import SchemaMismatch
from holdfast.model.registry import Change, Entry
from holdfast.ordering.chunks import Range
from holdfast.ordering.machine import HaltRecord, LeaseRecord

KIND = "ordering.domain"
FORMAT, PAGED_FORMAT = 2, 1  # see ``paged_head`` for the older one
KEY_BYTES = 32
HEAD, CHUNK = "", ".ended."
PAGE_ENTRIES = 1000  # of a domain that is read as a whole

Values = dict[str, bytes | None]  # of entries, by their names; None removes the entry


class Head(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The entry that every change of a domain replaces.

    An offset has ended if it is in one of these ranges, or in its chunk. No chunk ends below ``first_end``; None: there
    is no chunk. The backlog is the first ``closed`` runs, then the parts, then the other runs. ``parts`` has the
    smallest and the largest offset of each part, from number ``first_part`` on. No field has the name of one in format
    1 and another type: code that knows only that format says so.
    """

    format: int = 0
    domain: str
    fence: int = 0
    lease: LeaseRecord | None = None
    halt: HaltRecord | None = None
    processed_ranges: list[Range] = []
    failed_ranges: list[Range] = []
    first_end: int | None = None
    backlog_runs: list[Range] = []
    closed: int = 0
    parts: list[Range] = []
    first_part: int = 0


class _Format(msgspec.Struct):
    format: int = 0
    domain: str = ""


class Overtaken(Exception):
    """Another call has replaced the head since it was read."""


class DomainEntries:
    """Reads and writes the entries of one domain."""

    def __init__(self, store: Store, domain: str, now: int | None) -> None:
        self._store = store
        self._key = head_key(domain)
        self._now = now

    def read(self, names: Sequence[str]) -> list[Entry | None]:
        """Return entries as they are at one instant."""
        keys = [self._key + name for name in names]
        return self._store.do(Read(kind=KIND, keys=keys, now=self._now)) if names else []

    def scan(self, prefix: str, *, limit: int, after: str | None = None) -> dict[str, Entry]:
        """Return a page of entries by their names, in the order of these."""
        start, behind = self._key + prefix, "" if after is None else self._key + after
        entries = self._store.do(Scan(kind=KIND, prefix=start, after=behind, limit=limit, now=self._now))
        return {entry.key.removeprefix(self._key): entry for entry in entries}

    def read_all(self) -> dict[str, Entry]:
        """Return all entries by their names, as they are at one instant. Raises ``Overtaken``."""
        found = page = self.scan(HEAD, limit=PAGE_ENTRIES)
        while len(page) == PAGE_ENTRIES:
            page = self.scan(HEAD, limit=PAGE_ENTRIES, after=max(page))
            found |= page
        if len(found) >= PAGE_ENTRIES and self.read([HEAD]) != [found.get(HEAD)]:
            raise Overtaken
        return found

    def read_parts(self, numbers: Sequence[int]) -> list[list[Range]]:
        """Return parts of the backlog. Raises ``Overtaken`` if one has been removed."""
        parts = [entry for entry in self.read([part_name(number) for number in numbers]) if entry is not None]
        if len(parts) < len(numbers):
            raise Overtaken
        return [decode_part(part) for part in parts]

    def has_lapsed(self, lease: LeaseRecord) -> bool:
        """Whether a lease has ended by the clock of the store (L1)."""
        return lease.lease_for is not None and self.read([holder_name(lease.token)]) == [None]

    def write(self, values: Values, *, version: int, holder_for: int | None = None) -> int:
        """Write the head and other entries, if the head still has this version; return the new version.

        A holder has an empty value. Raises ``Overtaken``: then nothing was written.
        """
        changes = [
            Change(
                kind=KIND,
                key=self._key + name,
                value=value,
                version=version if name == HEAD else None,
                ttl=holder_for if value == b"" else None,
            )
            for name, value in sorted(values.items())
        ]
        head = self._store.do(Write(changes=changes, together=True, now=self._now))[0]
        if head is None:
            raise Overtaken
        return head.version


def head_key(domain: str) -> str:
    """Return the key of the head. A hash, because the keys of the other entries are longer."""
    return hashlib.blake2b(domain.encode(), digest_size=KEY_BYTES).hexdigest()


def holder_name(token: str) -> str:
    """Return the name of the entry that expires with a lease."""
    return f".holder.{hashlib.blake2b(token.encode(), digest_size=KEY_BYTES).hexdigest()}"


def chunk_name(number: int) -> str:
    """Return the name of a chunk: names sort as numbers do."""
    return f"{CHUNK}{number:016x}"


def chunk_number(name: str) -> int:
    """Return the number of a chunk."""
    return int(name.removeprefix(CHUNK), 16)


def part_name(number: int) -> str:
    """Return the name of a part of the backlog."""
    return f".waiting.{number}"


def is_paged(head: Entry) -> bool:
    """Whether an older version has written this head."""
    return msgspec.msgpack.decode(head.value or b"", type=_Format).format == PAGED_FORMAT


def decode_head(entry: Entry) -> Head:
    """Return the head of a domain. Raises ``SchemaMismatch`` for one in another format."""
    found = msgspec.msgpack.decode(entry.value or b"", type=_Format)
    if found.format != FORMAT:
        got = f"wanted domain {found.domain} in format {FORMAT}, got {found.format}"
        raise SchemaMismatch(f"{got}: use a newer Holdfast")
    return msgspec.msgpack.decode(entry.value or b"", type=Head)


def decode_part(entry: Entry) -> list[Range]:
    """Return the runs of a part of the backlog."""
    return msgspec.msgpack.decode(entry.value or b"", type=list[Range])
