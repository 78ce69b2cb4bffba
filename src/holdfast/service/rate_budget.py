"""``RateBudgets``: the requests that a token may still make, as one entry of the registry for all processes.

An entry has one instant, by the store's clock: up to then the rate is spent. A bucket of one second is full if that
instant has passed, and empty if it is one second ahead. A share of the bucket is taken by compare-and-set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.clock import MINUTE, SECOND, monotonic
from holdfast.drivers.contract import Registry
from holdfast.model.registry import Change

KIND = "http.rate"
CLOCK = "clock"  # the key of the entry that is written only to learn the time of the store
SHARE_SECONDS = 0.25  # a share has the requests of so long, at least one
MAX_TRIES = 10  # of a compare-and-set, against other processes
CLOCK_STEP = 10 * SECOND  # an entry that is further ahead than a full bucket and this counts as nothing spent
KEEP = MINUTE  # of an entry after its bucket is full again

Key = tuple[str, str, str]  # space, subject, scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The entry of a bucket as a process knows it. Others may have spent more since."""

    version: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a process got: so many requests, or none for so many seconds."""

    requests: int
    wait_seconds: float = 0.0
    spent: Spent


NOTHING_SPENT = Spent(version=0, until=0)


class RateBudgets:
    """The buckets of one rate in one store. Safe to call from several threads."""

    def __init__(self, store: Registry, rate: float, *, now: Callable[[], float] = monotonic) -> None:
        self._store = store
        self._now = now
        self._interval = max(1, round(SECOND / rate))  # of one request
        self._burst = max(1, int(rate)) * self._interval  # of a full bucket
        self._share = max(1, int(rate * SHARE_SECONDS))
        self._offset: int | None = None  # of the store's clock to the clock of this process

    def take(self, key: Key, known: Spent = NOTHING_SPENT) -> Share:
        """Take a share of a bucket. Raises ``StoreError``.

        If the bucket is empty by what is ``known``, the store is not asked: others can only have spent more.
        """
        name = hashlib.sha256("\0".join(key).encode()).hexdigest()
        for _ in range(MAX_TRIES):
            now = self._store_now()
            is_from_later = known.until > now + self._burst + CLOCK_STEP  # the store's clock was set back
            begins = now if is_from_later else max(known.until, now)
            due = (now + self._burst - begins) // self._interval
            if due < 1:
                wait = begins + self._share * self._interval - self._burst - now
                return Share(requests=0, wait_seconds=wait / SECOND, spent=known)
            requests = min(due, self._share)
            until = begins + requests * self._interval
            version = self._write(name, until, version=known.version, ttl=until - now + KEEP)
            if version is not None:
                return Share(requests=requests, spent=Spent(version=version, until=until))
            known = self._read(name)
        return Share(requests=0, wait_seconds=SHARE_SECONDS, spent=known)

    def _read(self, name: str) -> Spent:
        [entry] = self._store.read(KIND, [name])
        if entry is None or entry.value is None:
            return NOTHING_SPENT
        return Spent(version=entry.version, until=int(entry.value))

    def _write(self, name: str, until: int, *, version: int | None, ttl: int) -> int | None:
        """Write an entry, and learn the time of the store; return the new version, None if the expected one differs."""
        change = Change(kind=KIND, key=name, value=str(until).encode(), version=version, ttl=ttl)
        [entry] = self._store.write([change])
        if entry is None:
            return None
        assert entry.expires_at is not None
        self._offset = entry.expires_at - ttl - self._local_now()
        return entry.version

    def _store_now(self) -> int:
        """Return the time of the store, as the last write told it: never ahead of the store's clock."""
        if self._offset is None:
            self._write(CLOCK, 0, version=None, ttl=KEEP)
            assert self._offset is not None
        return self._local_now() + self._offset

    def _local_now(self) -> int:
        return int(self._now() * SECOND)
