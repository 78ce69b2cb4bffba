"""Limit keys: which jobs the limits by key allow, and the jobs that are parked until their key has a place.

``reserve`` reads the due jobs of its lanes. If it meets a job whose key has no place, the due jobs of that key are
parked: they leave the lanes, and no reserve reads them again before the key may have a place. That is when a lease of
the key ends, when its rate or its hold allows the next job, or when the limits change. Then the key is *woken*: the
next reserve returns as many of its jobs to each of their lanes as the key has places. To each lane, because a worker
that reserves one type must not wait for a job of another type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from holdfast.drivers.packing import pack_settings, read_settings, to_json
from holdfast.drivers.sqlite.rows import STORED_SETTINGS
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.model import bounds
from holdfast.model.order import KeyCapacity, KeyLimit, KeyPlace
from holdfast.model.queue_settings import Bucket, QueueSettings, replaces_key_limits

PARK_LIMIT = 5_000  # jobs that one reserve parks at most; and about the most that it unparks
WAKE_LIMIT = 1_000  # woken keys of a queue that one reserve looks at
AT_ONCE = 0  # an instant that has passed


class KeyedReserve:
    """The keys of one reserve. ``queues`` are those whose keys are limited, each with its settings."""

    def __init__(self, tx: Transaction, queues: Mapping[str, QueueSettings]) -> None:
        self._tx = tx
        self._queues = queues
        self._parked = 0

    @property
    def is_behind(self) -> bool:
        """Whether due jobs of full keys may be left in the lanes."""
        return self._parked >= PARK_LIMIT

    def capacity(self) -> KeyCapacity:
        """Return what the keys allow, as the store says."""
        return KeyCapacity(self._find)

    def _find(self, place: KeyPlace) -> KeyLimit | None:
        if place[0] not in self._queues:
            return None
        level, level_at, held_until, inflight = self._tx.run("limit_keys/read", self._parameters(place)).fetchone()
        settings = self._queues[place[0]].of_key(held_until)
        bucket = None if level is None else Bucket(level, level_at)
        left = settings.allowance(inflight=inflight, bucket=bucket, now=self._tx.now)
        return KeyLimit(settings, bucket, left, inflight=inflight)

    def unpark(self, limit: int) -> None:
        """Return jobs of woken keys to their lanes: to each lane as many as its key allows, at most ``limit``."""
        total = 0
        for place in self._woken():
            key = self._find(place)
            if key is not None and total < PARK_LIMIT:
                count = min(limit, key.left)
                total += self._unpark(place, count) if count else 0
                is_parked = bool(self._tx.run("limit_keys/is_parked", self._parameters(place)).fetchone()[0])
                # Woken again when the key allows more jobs than the lanes have now.
                self._set_wake(place, key.opens_at(self._tx.now, after=count) if is_parked else None, parked=is_parked)

    def _woken(self) -> Iterator[KeyPlace]:
        for queue, settings in self._queues.items():
            if settings.opens_at(None, self._tx.now) <= self._tx.now:  # while the queue is paused, its keys can wait
                parameters = {"space": self._tx.space, "queue": queue, "now": self._tx.now, "limit": WAKE_LIMIT}
                yield from [(queue, key) for (key,) in self._tx.run("limit_keys/find_woken", parameters)]

    def _unpark(self, place: KeyPlace, count: int) -> int:
        lanes = self._tx.run("limit_keys/find_parked_lanes", self._parameters(place)).fetchall()
        return self._tx.run_many("limit_keys/unpark", [(self._tx.space, *lane, place[1], count) for lane in lanes])

    def park(self, keys: KeyCapacity, taken: Collection[int]) -> int:
        """Park the due jobs of the keys without a place; return how many jobs ``reserve`` has passed over.

        ``taken`` are the jobs that are about to be leased.
        """
        passed_over = 0
        for place, key in keys.used():
            if key.refused:
                passed_over += key.refused
                parameters = {"now": self._tx.now, "never": bounds.MAX_INSTANT, "taken": to_json(taken)}
                parameters |= {**self._parameters(place), "limit": PARK_LIMIT - self._parked}
                self._parked += self._tx.run("limit_keys/park", parameters).rowcount
                self._set_wake(place, AT_ONCE if self.is_behind else key.opens_at(self._tx.now), parked=True)
        return passed_over

    def spend(self, keys: KeyCapacity) -> None:
        """Store the rates of the keys of which jobs were taken."""
        rows = [
            (self._tx.space, *place, *bucket)
            for place, key in keys.used()
            if key.taken and key.settings.rate is not None and (bucket := key.bucket_after(self._tx.now)) is not None
        ]
        if rows:
            self._tx.run_many("limit_keys/spend", rows)

    def _set_wake(self, place: KeyPlace, wake_at: int | None, *, parked: bool) -> None:
        self._tx.run("limit_keys/set_wake", (self._tx.space, *place, parked, wake_at))

    def _parameters(self, place: KeyPlace) -> dict[str, object]:
        return {"space": self._tx.space, "queue": place[0], "key": place[1]}


def wake(tx: Transaction, places: Iterable[tuple[str, str | None]]) -> None:
    """Wake the keys of jobs that have left the places of their keys or their lanes; None is no key."""
    keyed = [place for place in places if place[1] is not None]
    if keyed:
        tx.run("limit_keys/wake", {"space": tx.space, "keys": to_json(keyed)})


def hold(tx: Transaction, place: KeyPlace, until: int) -> None:
    """Reserve no job of a key before an instant; a longer hold stays."""
    tx.run("limit_keys/hold", (tx.space, *place, until))
    _set_keyed(tx, place[0])


def after_configure(tx: Transaction, queue: str, settings: QueueSettings, only: Collection[str] | None) -> None:
    """Let reserve look at the keys of a queue by its new settings; the holds of the keys end."""
    if settings.has_key_limits:
        _set_keyed(tx, queue)
    if replaces_key_limits(only):
        tx.run("limit_keys/end_holds", (tx.space, queue))


def _set_keyed(tx: Transaction, queue: str) -> None:
    tx.run("limit_keys/set_keyed", (tx.space, queue, *pack_settings(QueueSettings(), STORED_SETTINGS)))


def trim(tx: Transaction) -> None:
    """Remove the keys of which nothing must be remembered; reserve does not look at queues without keys."""
    for queue, *columns in tx.run("limit_keys/find_keyed", {"space": tx.space}).fetchall():
        settings = read_settings(columns)
        rate, full = settings.key_rate, settings.of_key().unused_level
        parameters = {"space": tx.space, "queue": queue}
        tx.run("limit_keys/trim", {**parameters, "now": tx.now, "rate": rate, "full": full})
        if not settings.has_key_limits:
            tx.run("limit_keys/clear_keyed", parameters)
