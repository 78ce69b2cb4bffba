"""Domains in the registry of a store: every change is a compare-and-set of the head of the domain.

A change reads the head, computes, and writes in one transaction: the head with the version that was read, then new
chunks, the holder of a lease, and the removal of entries that the head it has read calls retired. The registry refuses
each entry of a write on its own. So no entry but the head may have an effect if the head is refused:

- new chunks have names that only this change can use, and no head names them;
- a retired entry is used by no head from the one on that was read, whoever wins;
- what a head drops is removed by the next change, because only then it is certain that the head was replaced.

A process that dies leaves a whole write or none. The entries that a refused write has made are removed at once by
their process; if the process dies before, by later changes of the domain that make chunks.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from holdfast.clock import Clock, monotonic
from holdfast.drivers.requests import Read, Scan, Write
from holdfast.drivers.store import Store
from holdfast.errors import DomainFull, StoreBusy
from holdfast.model import bounds
from holdfast.model.registry import Change, Entry
from holdfast.ordering.domain_entry import (
    KIND,
    Head,
    chunk_name,
    close_domain,
    decode_head,
    encode_head,
    head_key,
    holder_name,
    open_domain,
    version_of_chunk,
)
from holdfast.ordering.machine import Domain, LeaseRecord
from holdfast.ordering.paged_backlog import PagedBacklog
from holdfast.ordering.paged_set import PagedSet
from holdfast.ordering.state import DomainState, LeaseState, lease_state

MAX_HEAD_BYTES = bounds.MAX_NOTE_BYTES
RESERVED_BYTES = 16 << 10  # of a head: a backlog does not grow into them, so that a full one can still be processed
MAX_TRIES = 200  # of one call; each lost try means that another call has changed the domain
MAX_PAUSE_SECONDS = 0.05  # between two tries
MAX_SWEPT_ENTRIES = 16  # that a change with a new chunk reads, to find chunks of processes that died

T = TypeVar("T")


class _Overtaken(Exception):
    """Another call has replaced the head since it was read."""


class _Snapshot:
    """A head as it was read, and what a change of it needs."""

    def __init__(self, registry: Store, domain: str, now: int | None) -> None:
        self._registry = registry
        self._now = now
        self._key = head_key(domain)
        [entry] = registry.do(Read(kind=KIND, keys=[self._key], now=now))
        self.head = decode_head(domain, None if entry is None else entry.value)
        self._version = 0 if entry is None else entry.version
        self._new_chunks: dict[str, bytes] = {}

    def open(self) -> Domain:
        return open_domain(self.head, self._load)

    def holder_of(self, lease: LeaseRecord) -> Entry | None:
        """Return the entry that expires with the lease; None if it has expired."""
        [entry] = self._registry.do(Read(kind=KIND, keys=[self._child_key(holder_name(lease.token))], now=self._now))
        return entry

    def has_lapsed(self, lease: LeaseRecord) -> bool:
        """Whether a lease has ended by the clock of the store (L1)."""
        return lease.lease_for is not None and self.holder_of(lease) is None

    def changes_to(self, domain: Domain) -> list[Change]:
        """Return the writes that make the change, the head first; none if nothing has changed."""
        after = close_domain(domain, self.head, self._store_chunk)
        if after is self.head:
            return []
        value = encode_head(after)
        most = MAX_HEAD_BYTES - RESERVED_BYTES if after.waiting() > self.head.waiting() else MAX_HEAD_BYTES
        if len(value) > most:
            raise DomainFull(domain.name, size=len(value), most=most)
        head = Change(kind=KIND, key=self._key, value=value, version=self._version)
        removals = [Change(kind=KIND, key=self._child_key(name), value=None) for name in self._unused()]
        return [head, *self._chunks(), *self._holder(after), *removals]

    def remove_made(self, changes: Sequence[Change], answers: Sequence[Entry | None]) -> None:
        """Remove the entries that a write has made although its head was refused. A renewed holder stays."""
        made = [one for one, answer in zip(changes, answers, strict=True) if answer is not None and one.version == 0]
        if made:
            self._registry.do(Write(changes=[replace(one, value=None, version=None) for one in made], now=self._now))

    def is_current(self) -> bool:
        """Whether the head is still the one that was read."""
        [entry] = self._registry.do(Read(kind=KIND, keys=[self._key], now=self._now))
        return entry is not None and entry.version == self._version

    def _chunks(self) -> list[Change]:
        return [
            Change(kind=KIND, key=self._child_key(name), value=value, version=0)
            for name, value in self._new_chunks.items()
        ]

    def _holder(self, after: Head) -> list[Change]:
        before, lease = self.head.lease, after.lease
        if lease is None or lease.lease_for is None or lease == before:
            return []
        version = None if before is not None and before.token == lease.token else 0
        key = self._child_key(holder_name(lease.token))
        return [Change(kind=KIND, key=key, value=b"", version=version, ttl=lease.lease_for)]

    def _unused(self) -> list[str]:
        """Return the names of entries that no head uses from this one on: the retired, and some of dead processes."""
        if not self._new_chunks:
            return self.head.retired
        used, unused = self.head.chunks(), set(self.head.retired)
        starts = ["", *sorted(used)]
        after = self._child_key(starts[self._version % len(starts)])  # another part of the chunks each time
        prefix = self._child_key("")
        for entry in self._registry.do(
            Scan(kind=KIND, prefix=prefix, after=after, limit=MAX_SWEPT_ENTRIES, now=self._now)
        ):
            name = entry.key.removeprefix(prefix)
            version = version_of_chunk(name)
            if version is not None and version < self._version and name not in used:
                unused.add(name)
        return sorted(unused)

    def _store_chunk(self, value: bytes) -> str:
        name = chunk_name(self._version, len(self._new_chunks))
        self._new_chunks[name] = value
        return name

    def _load(self, names: Sequence[str]) -> list[bytes]:
        if not names:
            return []
        entries = self._registry.do(Read(kind=KIND, keys=[self._child_key(name) for name in names], now=self._now))
        values = [entry.value for entry in entries if entry is not None and entry.value is not None]
        if len(values) < len(names):
            raise _Overtaken  # the next change of the domain has removed a chunk
        return values

    def _child_key(self, name: str) -> str:
        return f"{self._key}.{name}"


class StoredDomains:
    """All domains of a ``WorkLease`` with a store. Many processes may use them at once; no lock is held."""

    def __init__(self, registry: Store, clock: Clock | None) -> None:
        """With ``clock``, the store must allow a caller's clock (L1)."""
        self._registry = registry
        self._clock = clock
        self._random = random.Random()  # noqa: S311 - jitter

    def change(self, name: str, action: Callable[[Domain, Callable[[LeaseRecord], bool]], T]) -> T:
        """Let the action change the domain. It may be called several times; the last call counts.

        Raises ``DomainFull``, or ``StoreBusy`` if others have changed the domain at every try.
        """
        return self._repeat(lambda: self._change(name, action))

    def read(self, name: str) -> DomainState:
        """Return the domain as it was at one instant."""
        return self._repeat(lambda: self._read(name))

    def _change(self, name: str, action: Callable[[Domain, Callable[[LeaseRecord], bool]], T]) -> T:
        snapshot = self._snapshot(name)
        domain = snapshot.open()
        result = action(domain, snapshot.has_lapsed)
        changes = snapshot.changes_to(domain)
        if changes:
            answers = self._registry.do(Write(changes=changes, now=self._now()))
            if answers[0] is None:
                snapshot.remove_made(changes, answers)
                raise _Overtaken
        return result

    def _read(self, name: str) -> DomainState:
        snapshot = self._snapshot(name)
        domain = snapshot.open()
        assert isinstance(domain.processed, PagedSet)
        assert isinstance(domain.failed, PagedSet)
        assert isinstance(domain.backlog, PagedBacklog)
        lease = None if domain.lease is None else self._read_lease(snapshot, domain.lease)
        return DomainState(
            lease=lease,
            processed=domain.processed.whole(),
            failed=domain.failed.whole(),
            backlog=tuple(domain.backlog),
            halted=None if domain.halt is None or domain.halt.is_released else domain.halt.offset,
        )

    @staticmethod
    def _read_lease(snapshot: _Snapshot, lease: LeaseRecord) -> LeaseState:
        if lease.lease_for is None:
            return lease_state(lease, expires_at=None, has_lapsed=False)
        holder = snapshot.holder_of(lease)
        if holder is None and not snapshot.is_current():  # it may have ended, instead of lapsed
            raise _Overtaken
        expires_at = lease.renewed_at + lease.lease_for if holder is None else holder.expires_at
        return lease_state(lease, expires_at=expires_at, has_lapsed=holder is None)

    def _snapshot(self, name: str) -> _Snapshot:
        return _Snapshot(self._registry, name, self._now())

    def _now(self) -> int | None:
        return None if self._clock is None else self._clock.now()

    def _repeat(self, attempt: Callable[[], T]) -> T:
        """Return the result of the first try that was not overtaken by another call."""
        started = monotonic()
        for tries in range(MAX_TRIES):
            try:
                return attempt()
            except _Overtaken:
                time.sleep(self._random.uniform(0, min(MAX_PAUSE_SECONDS, 0.001 * 2 ** min(tries, 10))))
        raise StoreBusy(monotonic() - started)
