"""Settling one lease: the four settlements as functions that raise the refusal instead of returning it."""

from __future__ import annotations

from holdfast.clock import DAY
from holdfast.drivers.store import Store
from holdfast.model.lease import Lease
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement


def ack(
    driver: Store,
    lease: Lease,
    *,
    result: bytes | None = None,
    writes: tuple[Change, ...] = (),
    now: int | None = None,
) -> None:
    """Settle a job as done. Raises a ``LeaseError`` if the lease is no longer valid."""
    _settle(driver, Ack(lease, result=result, writes=writes), now)


def retry(
    driver: Store,
    lease: Lease,
    *,
    delay: int = 0,
    run_at: int | None = None,
    error: str = "",
    now: int | None = None,
) -> None:
    """Settle a failed attempt: the job runs again, or is dead if this was its last attempt. Raises a ``LeaseError``."""
    _settle(driver, Retry(lease, delay=delay, run_at=run_at, error=error), now)


def fail(driver: Store, lease: Lease, *, reason: str, error: str = "", now: int | None = None) -> None:
    """Settle a job as dead. Raises a ``LeaseError``."""
    _settle(driver, Fail(lease, reason=reason, error=error), now)


def release(driver: Store, lease: Lease, *, delay: int = 0, budget: int = DAY, now: int | None = None) -> None:
    """Return a job to its queue with its attempt refunded. Raises a ``LeaseError``."""
    _settle(driver, Release(lease, delay=delay, budget=budget), now)


def _settle(driver: Store, settlement: Settlement, now: int | None) -> None:
    [refusal] = driver.settle([settlement], now=now)
    if refusal is not None:
        raise refusal
