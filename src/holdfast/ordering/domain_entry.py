"""The registry entries of a domain, and their keys.

| key | content |
|---|---|
| the hash of the domain | the *head*: lease, halt, fence, and the pages of the sets and the backlog |
| hash, version of a head, number | a chunk: one page. It never changes |
| hash, ``holder``, hash of the token | the holder of a lease that lapses: the entry expires with the lease |

The version of the head guards everything: a change is valid if and only if it replaced the head that it was made from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from holdfast.errors import SchemaMismatch
from holdfast.ordering.machine import Domain, HaltRecord, LeaseRecord
from holdfast.ordering.paged_backlog import PagedBacklog
from holdfast.ordering.paged_set import PagedSet
from holdfast.ordering.paging import Load, PageEntry

KIND = "ordering.domain"
FORMAT = 1
KEY_BYTES = 32


class Head(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The entry of a domain. ``retired`` names entries that no head uses from this one on."""

    format: int = 0
    domain: str
    fence: int = 0
    lease: LeaseRecord | None = None
    halt: HaltRecord | None = None
    processed: list[PageEntry] = []
    failed: list[PageEntry] = []
    backlog: list[PageEntry] = []
    retired: list[str] = []

    def chunks(self) -> set[str]:
        """Return the names of the chunks in use."""
        return {page.chunk for pages in (self.processed, self.failed, self.backlog) for page in pages if page.chunk}

    def waiting(self) -> int:
        """Return the number of offsets in the backlog."""
        return sum(page.count for page in self.backlog)


def head_key(domain: str) -> str:
    """Return the key of the head. A hash, because the keys of its other entries are longer."""
    return hashlib.blake2b(domain.encode(), digest_size=KEY_BYTES).hexdigest()


def holder_name(token: str) -> str:
    """Return the name of the entry that expires with a lease."""
    return f"holder.{hashlib.blake2b(token.encode(), digest_size=KEY_BYTES).hexdigest()}"


def chunk_name(version: int, number: int) -> str:
    """Return the name of a chunk that a change of the head with this version makes."""
    return f"{version}.{number}"


def version_of_chunk(name: str) -> int | None:
    """Return the version in the name of a chunk; None for another entry."""
    version, _, _ = name.partition(".")
    return int(version) if version.isdecimal() else None


def decode_head(domain: str, value: bytes | None) -> Head:
    """Return the head of a domain; a new one if it has no entry."""
    if value is None:
        return Head(domain=domain, format=FORMAT)
    head = msgspec.msgpack.decode(value, type=Head)
    if head.format != FORMAT:
        raise SchemaMismatch(f"wanted domain {domain} in format {FORMAT}, got {head.format}: use a newer Holdfast")
    return head


def encode_head(head: Head) -> bytes:
    """Return the value of the entry."""
    return msgspec.msgpack.encode(head)


def open_domain(head: Head, load: Load) -> Domain:
    """Return the domain; ``load`` reads the chunks that are needed."""
    return Domain(
        name=head.domain,
        lease=head.lease,
        halt=head.halt,
        fence=head.fence,
        processed=PagedSet(head.processed, load),
        failed=PagedSet(head.failed, load),
        backlog=PagedBacklog(head.backlog, load),
    )


def close_domain(domain: Domain, before: Head, store: Callable[[bytes], str]) -> Head:
    """Return the head after a change; ``store`` keeps the chunks that are new."""
    assert isinstance(domain.processed, PagedSet)
    assert isinstance(domain.failed, PagedSet)
    assert isinstance(domain.backlog, PagedBacklog)
    after = Head(
        format=FORMAT,
        domain=domain.name,
        fence=domain.fence,
        lease=domain.lease,
        halt=domain.halt,
        processed=domain.processed.to_entries(store),
        failed=domain.failed.to_entries(store),
        backlog=domain.backlog.to_entries(store),
    )
    if after == msgspec.structs.replace(before, retired=[]):
        return before
    after.retired = sorted(before.chunks() - after.chunks())
    if before.lease is not None and before.lease.lease_for is not None and not _continues(before.lease, after.lease):
        after.retired.append(holder_name(before.lease.token))
    return after


def _continues(before: LeaseRecord, after: LeaseRecord | None) -> bool:
    return after is not None and after.token == before.token
