"""Faulty drivers: pause, concurrency and rate limits."""

# ruff: noqa: ARG002 - an override keeps the arguments that it does not use

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from msgspec import structs

from holdfast.drivers import requests as r
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.model.order import Capacity
from holdfast.model.queue_settings import LEVEL_PER_JOB
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


class RateBucketAlwaysFull(FaultyDriver):
    """Every reserve starts with a full rate bucket."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        space.buckets.clear()
        return super()._pick(space, queues, types, limit, now, **rules)


class LateReserveLosesRate(FaultyDriver):
    """The time by which a reserve comes late is lost for the rate."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        rows = super()._pick(space, queues, types, limit, now, **rules)
        for key, bucket in space.buckets.items():
            burst = space.settings[key].burst
            if bucket is not None and burst is not None:
                space.buckets[key] = bucket._replace(level=min(bucket.level, (burst - len(rows)) * LEVEL_PER_JOB))
        return rows


class EmptyReserveUsesRate(FaultyDriver):
    """A reserve that returns no job uses the rate."""

    def _pick(
        self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int, **rules: Any
    ) -> list[Row]:
        rows = super()._pick(space, queues, types, limit, now, **rules)
        for key, settings in space.settings.items():
            if not rows and key[0] in queues and settings.rate is not None:
                space.buckets[key] = settings.bucket_after(1, space.buckets.get(key), now)
        return rows


class _TypeLimitsIgnoredSpace(FaultySpace):
    def capacity(self, queues: list[str], now: int) -> Capacity:
        capacity = super().capacity(queues, now)
        return Capacity({key: limit for key, limit in capacity.limits.items() if key[1] is None})


class TypeLimitsIgnored(FaultyDriver):
    """The limits of a type are stored but not applied."""

    space_type = _TypeLimitsIgnoredSpace


class _InflightNotCountedSpace(FaultySpace):
    def capacity(self, queues: list[str], now: int) -> Capacity:
        leases, self.leases = self.leases, self.leases.copy()
        self.leases.clear()
        try:
            return super().capacity(queues, now)
        finally:
            self.leases = leases


class MaxInflightPerCall(FaultyDriver):
    """``max_inflight`` limits one call, not the jobs in flight."""

    space_type = _InflightNotCountedSpace


class _PauseIgnoredSpace(FaultySpace):
    def capacity(self, queues: list[str], now: int) -> Capacity:
        settings, self.settings = (
            self.settings,
            {key: replace(value, paused_until=None) for key, value in self.settings.items()},
        )
        try:
            return super().capacity(queues, now)
        finally:
            self.settings = settings


class PauseIgnored(FaultyDriver):
    """Jobs of a paused queue are reserved."""

    space_type = _PauseIgnoredSpace


class _HoldIgnoredSpace(FaultySpace):
    def capacity(self, queues: list[str], now: int) -> Capacity:
        settings = self.settings
        self.settings = {key: replace(value, held_until=None) for key, value in settings.items()}
        try:
            return super().capacity(queues, now)
        finally:
            self.settings = settings


class HoldIgnored(FaultyDriver):
    """Jobs of a type that its breaker holds are reserved."""

    space_type = _HoldIgnoredSpace


class _ProbingIgnoredSpace(FaultySpace):
    def capacity(self, queues: list[str], now: int) -> Capacity:
        settings = self.settings
        self.settings = {key: replace(value, probing=False) for key, value in settings.items()}
        try:
            return super().capacity(queues, now)
        finally:
            self.settings = settings


class ProbingIgnored(FaultyDriver):
    """A half-open breaker lets more than one job through."""

    space_type = _ProbingIgnoredSpace


class ConfigureResetsOtherSettings(FaultyDriver):
    """``configure`` with ``only`` replaces all settings."""

    def configure(self, request: r.Configure) -> None:
        """Replace all settings."""
        super().configure(structs.replace(request, only=None))


class ProposalReplacesLimitsOfOperator(FaultyDriver):
    """Whoever configures limits last wins."""

    def configure(self, request: r.Configure) -> None:
        """Replace the limits, whoever set them."""
        before = self._space.settings_of(request.queue, request.type)
        merged = before.merge(request.settings, request.only)
        super().configure(structs.replace(request, settings=merged, only=None))


class OriginOfChangedLimitsKept(FaultyDriver):
    """Limits that an operator changed count as proposed ones."""

    def configure(self, request: r.Configure) -> None:
        """Keep the origin of the limits, unless the call names another one."""
        if request.only is not None and request.settings.limits_from is None:
            origin = self._space.settings_of(request.queue, request.type).limits_from
            request = structs.replace(request, settings=replace(request.settings, limits_from=origin))
        super().configure(request)


class _LimitsIgnoredSpace(FaultySpace):
    def capacity(self, queues: list[str], now: int) -> Capacity:
        return Capacity()


class LimitsIgnored(FaultyDriver):
    """The settings of a queue are stored but not applied."""

    space_type = _LimitsIgnoredSpace


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    RateBucketAlwaysFull,
    LateReserveLosesRate,
    EmptyReserveUsesRate,
    TypeLimitsIgnored,
    MaxInflightPerCall,
    PauseIgnored,
    HoldIgnored,
    ProbingIgnored,
    ConfigureResetsOtherSettings,
    ProposalReplacesLimitsOfOperator,
    OriginOfChangedLimitsKept,
    LimitsIgnored,
)
