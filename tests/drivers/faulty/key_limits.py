"""Faulty drivers: limits by the limit key of a job."""

# ruff: noqa: ARG002 - an override keeps the arguments that it does not use

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from holdfast.drivers.memory.rows import Row, StoredLimitKey
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseError
from holdfast.model.job import State
from holdfast.model.ledger import Ending
from holdfast.model.order import KeyCapacity, KeyLimit, KeyPlace
from holdfast.model.settlement import Retry, Settlement
from holdfast.model.transition import Transition
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


def _with_inflight(limit: KeyLimit, inflight: int, now: int) -> KeyLimit:
    left = limit.settings.allowance(inflight=inflight, bucket=limit.bucket, now=now)
    return replace(limit, inflight=inflight, left=left)


class _NoKeyLimitsSpace(FaultySpace):
    def key_capacity(self, queues: list[str], now: int) -> KeyCapacity | None:
        return None


class KeyLimitsIgnored(FaultyDriver):
    """The limits by key are stored but not applied."""

    space_type = _NoKeyLimitsSpace


class _KeysOfAllQueuesSpace(FaultySpace):
    def key_limit(self, place: KeyPlace, now: int) -> KeyLimit:
        rows = (row.job for row in self.rows.values() if row.job.state is State.INFLIGHT)
        return _with_inflight(super().key_limit(place, now), sum(job.limit_key == place[1] for job in rows), now)


class KeysCountedAcrossQueues(FaultyDriver):
    """The jobs in flight of a key are counted over all queues."""

    space_type = _KeysOfAllQueuesSpace


class _KeyLimitPerCallSpace(FaultySpace):
    def key_limit(self, place: KeyPlace, now: int) -> KeyLimit:
        return _with_inflight(super().key_limit(place, now), 0, now)


class KeyLimitPerCall(FaultyDriver):
    """``key_max_inflight`` limits one call, not the jobs in flight."""

    space_type = _KeyLimitPerCallSpace


class _PlaceLostSpace(FaultySpace):
    """An expired lease keeps the place of its key."""

    def __init__(self, driver: FaultyDriver) -> None:
        super().__init__(driver)
        self.lost: Counter[KeyPlace] = Counter()

    def end(self, row: Row, transition: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        if transition.ending is Ending.EXPIRED and row.job.limit_key is not None:
            self.lost[row.job.queue, row.job.limit_key] += 1
        super().end(row, transition, verb, now, started_at)

    def key_limit(self, place: KeyPlace, now: int) -> KeyLimit:
        limit = super().key_limit(place, now)
        return _with_inflight(limit, limit.inflight + self.lost[place], now)


class ExpiryKeepsPlaceOfKey(FaultyDriver):
    """An expired lease does not return the place of its key."""

    space_type = _PlaceLostSpace


class _BlockingKeys(KeyCapacity):
    def allows(self, place: KeyPlace) -> bool:
        return not any(limit.refused for _, limit in self.used()) and super().allows(place)


class _BlockingKeysSpace(FaultySpace):
    def key_capacity(self, queues: list[str], now: int) -> KeyCapacity | None:
        keys = super().key_capacity(queues, now)
        return None if keys is None else _BlockingKeys(lambda place: self.key_limit(place, now))


class FullKeyBlocksOtherKeys(FaultyDriver):
    """A job of a full key keeps back the jobs of other keys behind it."""

    space_type = _BlockingKeysSpace


class WaitingForKeyLosesPlace(FaultyDriver):
    """A job that is passed over because of its key becomes the last of its lane."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        rows = super()._pick(space, queues, types, limit, now, **rules)
        keys = space.key_capacity(queues, now)
        for row in list(space.rows.values()) if keys is not None else ():
            is_waiting = row not in rows and row.job.state is State.READY and row.job.queue in queues
            if keys is not None and is_waiting and row.job.limit_key is not None and row.available_at < now:
                _move(space, row, now)
        return rows


def _move(space: Space, row: Row, available_at: int) -> None:
    lane = space.lanes[row.lane]
    position = (row.available_at, row.seq, row.job.id)
    if position in lane:
        lane.remove(position)
        row.available_at = available_at
        insort(lane, (row.available_at, row.seq, row.job.id))


class KeyPlaceGoesToAnyType(FaultyDriver):
    """The place of a key is kept for its first job, also if this reserve does not ask for the type of that job."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        rows = super()._pick(space, queues, types, limit, now, **rules)
        return rows if space.key_capacity(queues, now) is None else [row for row in rows if _is_first(space, row)]


def _is_first(space: Space, row: Row) -> bool:
    key = row.job.limit_key
    return key is None or not any(
        other.job.limit_key == key and other.job.state is State.READY and other.seq < row.seq
        for other in space.rows.values()
        if other.job.type != row.job.type
    )


class _RateNotSpentSpace(FaultySpace):
    def store_buckets(self, keys: KeyCapacity, now: int) -> None:
        pass


class KeyRateNeverSpent(FaultyDriver):
    """Every reserve starts with the full rate of each key."""

    space_type = _RateNotSpentSpace


class _IdleKeysForgottenSpace(FaultySpace):
    def forget_idle_keys(self, now: int) -> None:
        self.limit_keys.clear()


class TrimForgetsKeyRates(FaultyDriver):
    """``trim`` forgets how much of its rate a key has used."""

    space_type = _IdleKeysForgottenSpace


class _NoHoldsSpace(FaultySpace):
    def hold_key(self, row: Row, until: int) -> None:
        pass


class KeyHoldIgnored(FaultyDriver):
    """A retry does not hold its key."""

    space_type = _NoHoldsSpace


class _LastHoldSpace(FaultySpace):
    def hold_key(self, row: Row, until: int) -> None:
        if row.job.limit_key is not None:
            self.limit_keys.setdefault((row.job.queue, row.job.limit_key), StoredLimitKey()).held_until = until


class LastKeyHoldWins(FaultyDriver):
    """A shorter hold of a key ends a longer one."""

    space_type = _LastHoldSpace


class _HoldOfOpenJobsSpace(FaultySpace):
    def hold_key(self, row: Row, until: int) -> None:
        if row.job.attempts < row.job.max_attempts:
            super().hold_key(row, until)


class DeadRetryHoldsNoKey(FaultyDriver):
    """A retry that makes its job dead does not hold the key."""

    space_type = _HoldOfOpenJobsSpace


class RefusedRetryHoldsKey(FaultyDriver):
    """A retry that is refused holds the key of its job."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if row is not None and isinstance(settlement, Retry) and settlement.hold_key:
            space.hold_key(row, settlement.held_until(now) or now)
        return super()._settle(space, settlement, now)


class _EndlessHoldsSpace(FaultySpace):
    def end_holds(self, queue: str) -> None:
        pass


class ConfigureKeepsKeyHolds(FaultyDriver):
    """New limits by key do not end the holds of the keys."""

    space_type = _EndlessHoldsSpace


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    KeyLimitsIgnored,
    KeysCountedAcrossQueues,
    KeyLimitPerCall,
    ExpiryKeepsPlaceOfKey,
    FullKeyBlocksOtherKeys,
    WaitingForKeyLosesPlace,
    KeyPlaceGoesToAnyType,
    KeyRateNeverSpent,
    TrimForgetsKeyRates,
    KeyHoldIgnored,
    LastKeyHoldWins,
    DeadRetryHoldsNoKey,
    RefusedRetryHoldsKey,
    ConfigureKeepsKeyHolds,
)
