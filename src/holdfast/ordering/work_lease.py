"""``WorkLease``: one offset at a time per domain, in order, under a lease with a token."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeVar

from holdfast.clock import Clock, SystemClock, to_datetime
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.store import Store
from holdfast.errors import (
    BacklogOrderingError,
    InvalidInput,
    LeaseNotFoundError,
    TokenMismatchError,
    Unsupported,
)
from holdfast.model import bounds
from holdfast.model.lease import TOKEN_RANDOM_BYTES
from holdfast.model.queue_settings import OnExhausted
from holdfast.ordering import machine
from holdfast.ordering.local_domains import LocalDomains
from holdfast.ordering.machine import Claim, Domain, Rules
from holdfast.ordering.results import AcquireResult, FailResult, FinishError, SucceedResult
from holdfast.ordering.state import DomainState
from holdfast.ordering.stored_domains import StoredDomains

MAX_OFFSET = 2**63 - 1

T = TypeVar("T")


class _Domains(Protocol):
    def change(self, name: str, action: Callable[[Domain], T], offset: int | None = None) -> T:
        """``offset``: the one that the action asks for."""
        ...

    def read(self, name: str) -> DomainState: ...


class WorkLease:
    """Exclusive processing in order: per domain one offset is in flight, and the others wait in a backlog.

    The caller decides when to try: ``succeed`` and ``fail`` hand nothing over, they return the next offset as a hint.
    An offset that was processed or given up is never acquired again. Timing is the caller's: there is no backoff here.

    Without ``store``, the domains live in this process, and its threads share them. With one, they live in the registry
    of the store, and all processes share them; every call is one read and at most one write for most domains.

    ``max_retries``: ``fail`` gives the offset up when it was already retried so often.
    ``errors``: ``"return"`` returns ``BacklogOrderingError``, ``TokenMismatchError`` and ``LeaseNotFoundError`` as
    answers instead of raising them.
    ``strict=False``: an offset that is not the head waits in the backlog, and the answer is ``NotHead``.
    ``on_exhausted="halt"``: an offset without retries halts its domain until ``resume``.
    ``owner`` and ``lease_for``: a lease belongs to an owner and lapses, unless ``extend`` or ``fail`` renew it. Then
    another owner may take it over. Give every process its own owner.
    ``watermark_distance``: an offset this far below an offset that ends counts as processed, whether it was seen or
    not. For offsets with gaps: it bounds what is remembered.
    ``clock``: for tests; with a store, the store must be opened with ``caller_clock=True``. Without it, the clock of
    the store decides whether a lease has lapsed.

    Safe to share between threads.
    """

    def __init__(
        self,
        *,
        max_retries: int,
        store: Store | None = None,
        errors: Literal["raise", "return"] = "raise",
        strict: bool = True,
        on_exhausted: Literal["skip", "halt"] = "skip",
        owner: str | None = None,
        lease_for: timedelta | None = None,
        watermark_distance: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        if errors not in ("raise", "return"):
            raise InvalidInput("errors", wanted="raise or return", got=errors)
        if on_exhausted not in tuple(OnExhausted):
            raise InvalidInput("on_exhausted", wanted="skip or halt", got=on_exhausted)
        self._returns_errors = errors == "return"
        self._rules = Rules(
            max_retries=bounds.check_integer("max_retries", max_retries),
            strict=strict,
            on_exhausted=OnExhausted(on_exhausted),
            watermark_distance=bounds.check_optional_integer("watermark_distance", watermark_distance, most=MAX_OFFSET),
        )
        self._lease_for = None if lease_for is None else bounds.duration_from("lease_for", lease_for, least=1)
        self._owner = self._check_owner(owner) if owner is not None else None
        self._clock = SystemClock() if clock is None else clock
        self._domains: _Domains = LocalDomains(self._clock)
        if store is not None:
            if not hasattr(store, "capabilities"):
                wanted = "a store, as connect(url) returns it"
                raise InvalidInput("store", wanted=wanted, got=type(store).__name__)  # its text may have a password
            gap = store.capabilities.gaps.get(Feature.REGISTRY)
            if gap is not None:
                raise Unsupported(store.capabilities.driver, "WorkLease", gap)
            self._domains = StoredDomains(store, clock)

    def try_acquire(
        self, domain: str, offset: int, *, owner: str | None = None
    ) -> AcquireResult | BacklogOrderingError:
        """Acquire an offset, or answer why it cannot be acquired now.

        If nothing is in flight, the offset must be the head of the backlog, or the backlog empty. Raises
        ``BacklogOrderingError`` otherwise, and the offset is not kept. While another offset is in flight, the offset
        waits in the backlog, once however often it is tried.

        A lapsed lease of the same offset is taken over: a new token, a larger fence, one retry more. If it had no
        retries left, the offset is given up instead. ``owner`` is used instead of the owner of this ``WorkLease``.
        """
        chosen = self._choose_owner(owner)
        bounds.check_integer("offset", offset, most=MAX_OFFSET)

        def acquire(state: Domain) -> AcquireResult:
            claim = Claim(
                offset=offset,
                owner=chosen,
                lease_for=self._lease_for,
                now=self._clock.now(),
                token_bytes=secrets.token_bytes(TOKEN_RANDOM_BYTES),
            )
            return machine.try_acquire(state, claim, self._rules)

        try:
            return self._domains.change(bounds.check_text("domain", domain), acquire, offset)
        except BacklogOrderingError as error:
            if self._returns_errors:
                return error
            raise

    def succeed(self, domain: str, token: str) -> SucceedResult | FinishError:
        """End the lease: its offset was processed. The head of the backlog is only a hint, and stays there.

        Raises ``LeaseNotFoundError`` or ``TokenMismatchError``. A lease that has lapsed and was not taken over is
        valid.
        """
        return self._finish(domain, token, lambda state: machine.succeed(state, token, self._rules))

    def fail(self, domain: str, token: str) -> FailResult | FinishError:
        """Report a failed attempt. The offset stays in flight, until ``max_retries`` retries have failed too.

        Raises ``LeaseNotFoundError`` or ``TokenMismatchError``.
        """
        return self._finish(domain, token, lambda state: machine.fail(state, token, self._rules, now=self._clock.now()))

    def extend(self, domain: str, token: str) -> datetime | FinishError:
        """Renew a lease for another ``lease_for``; return when it lapses, by the clock of this process.

        Raises ``LeaseNotFoundError`` or ``TokenMismatchError``.
        """
        lease_for = self._lease_for
        if lease_for is None:
            raise InvalidInput("lease_for", wanted="a WorkLease with owner and lease_for", got=None)

        def renew(state: Domain) -> datetime:
            now = self._clock.now()
            machine.renew(state, token, lease_for, now=now)
            return to_datetime(now + lease_for)

        return self._finish(domain, token, renew)

    def resume(self, domain: str, action: Literal["retry", "skip"]) -> SucceedResult:
        """Let a halted domain go on: its offset runs again as the next one, or is given up.

        A retried offset has all its retries again, and keeps ``acquired_at``. Raises ``InvalidInput`` if the domain is
        not halted.
        """
        if action not in ("retry", "skip"):
            raise InvalidInput("action", wanted="retry or skip", got=action)
        skip = action == "skip"
        return self._domains.change(
            bounds.check_text("domain", domain), lambda state: machine.resume(state, self._rules, skip=skip)
        )

    def set_watermark(self, domain: str, offset: int) -> int:
        """Take every offset below ``offset`` as processed, and forget which of them were seen.

        Stops at an offset that waits or is in flight. Returns ``offset``, or that smaller one. An offset that counts as
        processed never becomes new again, also if a later call is for a smaller ``offset``.
        """
        bounds.check_integer("offset", offset, most=MAX_OFFSET)
        return self._domains.change(
            bounds.check_text("domain", domain), lambda state: machine.raise_watermark(state, offset)
        )

    def state(self, domain: str) -> DomainState:
        """Return a domain as it is now; an unknown domain is empty."""
        return self._domains.read(bounds.check_text("domain", domain))

    def _finish(self, domain: str, token: str, action: Callable[[Domain], T]) -> T | FinishError:
        if not isinstance(token, str):
            raise InvalidInput("token", wanted="a token", got=type(token).__name__)
        try:
            return self._domains.change(bounds.check_text("domain", domain), action)
        except (LeaseNotFoundError, TokenMismatchError) as error:
            if self._returns_errors:
                return error
            raise

    def _choose_owner(self, owner: str | None) -> str | None:
        chosen = self._owner if owner is None else self._check_owner(owner)
        if chosen is None and self._lease_for is not None:
            raise InvalidInput("owner", wanted="an owner: a lease that lapses belongs to one", got=None)
        return chosen

    def _check_owner(self, owner: str) -> str:
        if self._lease_for is None:
            raise InvalidInput("lease_for", wanted="a length: a lease with an owner lapses", got=None)
        return bounds.check_text("owner", owner)
