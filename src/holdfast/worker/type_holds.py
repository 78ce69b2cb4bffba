"""What a worker tells the store about a type: its breaker opens or closes, or a handler pauses the type.

All calls are made by the thread that settles, at most one decision per type and batch. A worker whose handlers have no
breaker makes none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.clock import DAY, SECOND, from_timedelta, monotonic
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Scan, Settings, Write
from holdfast.drivers.store import Store
from holdfast.errors import HoldfastError
from holdfast.log import events
from holdfast.log.events import Event
from holdfast.log.records import log_event
from holdfast.model.lease import Reservation
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Retry, Settlement
from holdfast.worker.breaker import BreakerAction, BreakerRule, BreakerState, EndedAttempt, after_attempts
from holdfast.worker.catalogue import Catalogue
from holdfast.worker.processes.running import Run

KIND = "breaker"  # one entry for each breaker that is not closed, for people and metrics
PAUSE_KIND = "type.pause"  # one entry for each pause that a handler asked for
ENTRY_TTL = DAY  # after the cooldown: a half-open breaker without jobs is not listed for longer
REFRESH_SECONDS = 1.0  # a worker learns this soon that another worker has opened or closed a breaker
KEY_BYTES = 16
HOLD_FIELDS = ("held_until", "probing")
MAX_BREAKERS = 1000  # that are listed

TypeKey = tuple[str, str]  # queue, type


@dataclass(slots=True)
class _Watched:
    """A type with a breaker, as this worker knows it."""

    state: BreakerState
    read_at: float = 0.0  # monotonic seconds: when the store was last asked
    half_open_logged: bool = False


class TypeHolds:
    """The breakers of a worker, and the pauses that its handlers ask for."""

    def __init__(
        self, store: Store, catalogue: Catalogue, default: BreakerRule | None, *, lease_for: int, worker: str
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._default = default
        self._lease_for = lease_for
        self._worker = worker
        self._can_hold = store.capabilities.has(Feature.LIMITS) and store.capabilities.has(Feature.REGISTRY)
        self._rules: dict[str, BreakerRule] = {}  # by type
        self._watched: dict[TypeKey, _Watched] = {}
        self._pauses: dict[TypeKey, int] = {}  # requested lengths, in microseconds
        self.holds = 0  # so far: breakers that opened and pauses that began, as far as this worker knows
        self._last_holds: dict[TypeKey, int] = {}  # the number of the last hold of each type

    def read_rules(self) -> None:
        """Read the breakers of the handlers. Call it before the first reserve: handlers are registered until then."""
        if self._can_hold:
            rules = {handler.type: handler.breaker or self._default for handler in self._catalogue}
            self._rules = {type_: rule for type_, rule in rules.items() if rule is not None}

    @property
    def has_breakers(self) -> bool:
        """Whether a handler has a breaker: only then ``reserved`` has something to do."""
        return bool(self._rules)

    @property
    def is_active(self) -> bool:
        """Whether ``settling`` has something to do."""
        return bool(self._rules or self._pauses)

    def request_pause(self, reservation: Reservation, length: int) -> None:
        """Pause the type of this job in its queue, for so many microseconds, with the next batch that is settled."""
        if self._can_hold:
            key = (reservation.job.queue, reservation.job.type)
            self._pauses[key] = max(length, self._pauses.get(key, 0))

    def reserved(self, reservations: Sequence[Reservation]) -> None:
        """Log ``breaker.half_open`` for the first probe of a breaker."""
        for key, watched in list(self._watched.items()):  # another thread adds types
            state = watched.state
            if not state.probing or watched.half_open_logged:
                continue
            for one in reservations:
                is_of_type = (one.job.queue, one.job.type) == key
                if is_of_type and self._reserved_at(one) >= (state.held_until or 0):
                    watched.half_open_logged = True
                    self._log(events.BREAKER_HALF_OPEN, key, job_id=one.job.id)
                    break

    def held_after(self, holds: int) -> list[TypeKey]:
        """Return the types that were held after so many ``holds``: no job of them that was taken ahead may begin."""
        return [key for key, number in list(self._last_holds.items()) if number > holds]  # another thread adds types

    def settling(self, runs: Sequence[Run], settlements: Sequence[Settlement]) -> list[TypeKey]:
        """Count these attempts, tell the store what follows, and return the types that are held now.

        Call it before they are settled. A failed probe still has its lease then, so no reserve can take another job of
        its type before the breaker is open again. Never raises: the next batch tries again.
        """
        before = self.holds
        try:
            pauses, self._pauses = self._pauses, {}
            for key, length in pauses.items():
                self._pause(key, length)
            if self._rules:
                for key, attempts in self._attempts(runs, settlements).items():
                    self._count(key, attempts)
        except HoldfastError as error:
            log_event(events.BREAKER_FAILED, worker=self._worker, reason=f"{type(error).__name__}: {error}")
        return self.held_after(before)

    def _attempts(self, runs: Sequence[Run], settlements: Sequence[Settlement]) -> Mapping[TypeKey, list[EndedAttempt]]:
        """Return the attempts that count, by type: not releases, cancels, skips or jobs that can never succeed."""
        found: dict[TypeKey, list[EndedAttempt]] = {}
        for run, settlement in zip(runs, settlements, strict=True):
            job = run.reservation.job
            if job.type not in self._rules or settlement.lease.cancel_requested:
                continue
            if isinstance(settlement, Ack | Retry):
                attempt = EndedAttempt(self._reserved_at(run.reservation), isinstance(settlement, Retry))
                found.setdefault((job.queue, job.type), []).append(attempt)
        return found

    def _reserved_at(self, reservation: Reservation) -> int:
        """When the store leased the job, by its own clock."""
        return reservation.lease.expires_at - self._lease_for

    def _count(self, key: TypeKey, attempts: Sequence[EndedAttempt]) -> None:
        watched = self._refresh(key)
        rule = self._rules[key[1]]
        held_until = watched.state.held_until
        watched.state, action = after_attempts(watched.state, attempts, rule)
        if action is BreakerAction.OPEN:
            self._open(key, rule, watched)
        elif action is BreakerAction.CLOSE:
            self._close(key, watched, held_until)

    def _refresh(self, key: TypeKey) -> _Watched:
        """Read the state of the store if the last answer is too old; failures are counted here."""
        watched = self._watched.setdefault(key, _Watched(BreakerState(), read_at=-REFRESH_SECONDS))
        if monotonic() - watched.read_at < REFRESH_SECONDS:
            return watched
        settings = self._store.do(Settings(queue=key[0], type=key[1]))
        watched.read_at = monotonic()
        before = watched.state
        if (settings.probing, settings.held_until) != (before.probing, before.held_until):
            has_closed = before.probing and not settings.probing  # by another worker, or by an operator
            watched.state = BreakerState(
                failures=0 if has_closed else before.failures,
                held_until=settings.held_until,
                probing=settings.probing,
            )
            watched.half_open_logged = False
            if settings.probing:
                self._add_hold(key)
        return watched

    def _add_hold(self, key: TypeKey) -> None:
        self._last_holds[key] = self.holds + 1
        self.holds += 1  # last: another thread that reads it finds the type

    def _open(self, key: TypeKey, rule: BreakerRule, watched: _Watched) -> None:
        cooldown = from_timedelta(rule.cooldown)
        failures = watched.state.failures
        paused_until = self._store.do(
            Settings(queue=key[0], type=key[1])
        ).held_until  # a handler may have paused it for longer
        until = max(self._write_entry(key, cooldown, failures), paused_until or 0)
        self._configure(key, QueueSettings(held_until=until, probing=True), HOLD_FIELDS)
        watched.state = BreakerState(failures=failures, held_until=until, probing=True)
        watched.read_at, watched.half_open_logged = monotonic(), False
        self._add_hold(key)
        reason = f"{failures} failed attempts in a row"
        self._log(events.BREAKER_OPENED, key, delay=cooldown / SECOND, reason=reason)

    def _close(self, key: TypeKey, watched: _Watched, held_until: int | None) -> None:
        is_paused_since = self._store.do(Settings(queue=key[0], type=key[1])).held_until != held_until
        self._configure(key, QueueSettings(), ("probing",) if is_paused_since else HOLD_FIELDS)
        self._store.do(Write(changes=[Change(kind=KIND, key=_key_of(*key), value=None)]))
        watched.read_at, watched.half_open_logged = monotonic(), False
        self._log(events.BREAKER_CLOSED, key, reason="a probe succeeded")

    def _pause(self, key: TypeKey, length: int) -> None:
        """Pause a type; a pause or an open breaker that ends later stays."""
        # The answer to a write has the store's own clock, which decides when the pause ends.
        change = Change(kind=PAUSE_KIND, key=_key_of(*key), value=self._value(key, 0), ttl=max(1, length))
        [entry] = self._store.do(Write(changes=[change]))
        assert entry is not None
        assert entry.expires_at is not None
        held_until = self._store.do(Settings(queue=key[0], type=key[1])).held_until
        if held_until is None or held_until < entry.expires_at:
            self._configure(key, QueueSettings(held_until=entry.expires_at), ("held_until",))
            self._add_hold(key)
            self._log(events.TYPE_PAUSED, key, delay=length / SECOND)

    def _write_entry(self, key: TypeKey, cooldown: int, failures: int) -> int:
        """Store the entry of an open breaker; return when its cooldown ends, by the clock of the store."""
        value = self._value(key, failures)
        [entry] = self._store.do(
            Write(changes=[Change(kind=KIND, key=_key_of(*key), value=value, ttl=cooldown + ENTRY_TTL)])
        )
        assert entry is not None
        assert entry.expires_at is not None
        return entry.expires_at - ENTRY_TTL

    def _value(self, key: TypeKey, failures: int) -> bytes:
        queue, type_ = key
        return json.dumps({"queue": queue, "type": type_, "failures": failures, "worker": self._worker}).encode()

    def _configure(self, key: TypeKey, settings: QueueSettings, only: tuple[str, ...]) -> None:
        self._store.do(Configure(queue=key[0], settings=settings, type=key[1], only=only))

    def _log(self, event: Event, key: TypeKey, **fields: object) -> None:
        log_event(event, queue=key[0], type=key[1], worker=self._worker, **fields)


def _key_of(queue: str, type_: str) -> str:
    """Return the key of an entry. A digest: the two names together can be longer than a key may be."""
    return hashlib.blake2b(f"{queue} {type_}".encode(), digest_size=KEY_BYTES).hexdigest()


# For people and metrics -------------------------------------------------------------------------------------


class OpenBreaker(NamedTuple):
    """A breaker that is open or half open."""

    queue: str
    type: str
    failures: int
    worker: str


class HeldType(NamedTuple):
    """A type in a queue."""

    queue: str
    type: str


def read_breakers(store: Store) -> Iterator[OpenBreaker]:
    """Return the breakers that are not closed. Entries that cannot be read are left out."""
    return _read_entries(store, KIND)


def read_holds(store: Store) -> set[HeldType]:
    """Return the types that a breaker or a handler has paused, by queue."""
    entries = (*_read_entries(store, KIND), *_read_entries(store, PAUSE_KIND))
    return {HeldType(one.queue, one.type) for one in entries}


def _read_entries(store: Store, kind: str) -> Iterator[OpenBreaker]:
    if not store.capabilities.has(Feature.REGISTRY):
        return
    for entry in store.do(Scan(kind=kind, limit=MAX_BREAKERS)):
        try:
            values = json.loads(entry.value or b"")
            yield OpenBreaker(values["queue"], values["type"], values["failures"], values["worker"])
        except (ValueError, KeyError, TypeError):
            continue


def forget_holds(store: Store, queue: str, type_: str) -> None:
    """Remove the entries of a type whose breaker and pause an operator has ended."""
    if store.capabilities.has(Feature.REGISTRY):
        store.do(
            Write(changes=[Change(kind=kind, key=_key_of(queue, type_), value=None) for kind in (KIND, PAUSE_KIND)])
        )
