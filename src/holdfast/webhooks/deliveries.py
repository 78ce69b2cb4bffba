"""``Deliveries``: reserves the callbacks of one space, lets senders send them, and settles them.

A callback that may not begin yet, because its host or its space has its share of the senders, stays leased: so the
store hands out no more of its host. A host that did not answer is left alone for a while (``Retry.hold_key``), and its
other callbacks are given back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from holdfast.clock import DAY, MINUTE, SECOND, Clock, monotonic
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import AnyOpen, Configure, Reserve, Settings
from holdfast.drivers.store import Store
from holdfast.errors import HoldfastError, LeaseError
from holdfast.log import events
from holdfast.log.records import log_event, log_failure
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease, Reservation
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.net.guarded import Rules
from holdfast.webhooks.attempt import attempt
from holdfast.webhooks.delivery import CALLBACK, QUEUE
from holdfast.webhooks.secrets import WebhookSecrets
from holdfast.webhooks.senders import SILENT_SECONDS, Senders
from holdfast.webhooks.shares import Place
from holdfast.worker.decide import BAD_SIGNATURE
from holdfast.worker.outcome import BadSignature
from holdfast.worker.verification import Verification

LEASE_SECONDS = 10
BEAT_SECONDS = LEASE_SECONDS / 3
MAX_PER_HOST = 16  # requests to one host at a time, of all processes: half of the senders of one
MAX_RESERVED_BYTES = 32 << 20  # of one reserve
MAX_WAITING_BYTES = 16 << 10  # of a callback that waits; a larger one is read again when it is sent
MAX_HOLD = MINUTE  # for which a host that did not answer is left alone, at most
RELEASE_BUDGET = 30 * DAY  # a callback waits for its host for so long, beside its attempts
UNVERIFIED_DELAY = 10 * SECOND


class Deliveries:
    """The callbacks of one space. ``reserve_due``, ``beat`` and ``give_back`` are called by one thread."""

    def __init__(
        self,
        store: Store,
        *,
        space: str,
        name: str,
        secrets: WebhookSecrets,
        rules: Rules,
        verification: Verification | None,
        senders: Senders,
        clock: Clock,
        on_sent: Callable[[], None],
    ) -> None:
        self._store = store
        self._space = space
        self._name = name
        self._secrets = secrets
        self._rules = rules
        self._verification = verification
        self._senders = senders
        self._clock = clock
        self._on_sent = on_sent
        self._held: dict[str, Lease] = {}  # by job id
        self._begun: set[str] = set()  # those of them that are being sent
        self._hosts_held_until: dict[str, float] = {}
        self._lock = threading.Lock()
        self._beat_at = 0.0
        self._has_key_limits = store.capabilities.has(Feature.LIMIT_KEY)
        self._is_limited = not self._has_key_limits

    def reserve_due(self) -> None:
        """Reserve as many callbacks as there are free senders, and let them wait for one."""
        limit = self._senders.room(self._space)
        if not limit or not self._secrets.of(self._space):
            return
        if not self._store.do(AnyOpen(queues=[QUEUE], types=[CALLBACK])):
            return
        self._limit_hosts()
        reservations = self._store.do(
            Reserve(
                queues=[QUEUE],
                limit=limit,
                lease_for=LEASE_SECONDS * SECOND,
                worker=self._name,
                types=[CALLBACK],
                max_bytes=MAX_RESERVED_BYTES,
                isolation=Isolation.SHARE,
                prefetch=True,  # a process that dies counts neither as an attempt nor as a crash of the delivery
            )
        ).reservations
        with self._lock:
            self._held |= {one.job.id: one.lease for one in reservations}
        for reservation in reservations:
            waiting = _without_large_payload(reservation)
            self._senders.put(Place(self._space, waiting.job.limit_key or ""), partial(self._send, waiting))

    def give_back(self) -> None:
        """Release the callbacks that have not begun: the process stops, and its senders begin no more."""
        with self._lock:
            waiting = self._held.keys() - self._begun
            releases = [Release(self._held.pop(job_id)) for job_id in waiting]
        if releases:
            self._store.settle(releases)

    def beat(self) -> None:
        """Extend the leases of the callbacks that wait or are being sent, if it is time."""
        with self._lock:
            leases = list(self._held.values())
        if not leases or monotonic() < self._beat_at:
            return
        self._beat_at = monotonic() + BEAT_SECONDS
        answers = self._store.extend(leases, lease_for=LEASE_SECONDS * SECOND)
        with self._lock:
            for lease, answer in zip(leases, answers, strict=True):
                if isinstance(answer, LeaseError) and lease.job_id not in self._begun:
                    self._held.pop(lease.job_id, None)  # another process sends it; one that is sent says so at its end

    def _limit_hosts(self) -> None:
        """Limit the requests to one host, unless the queue has a limit already. Once per process."""
        if self._is_limited:
            return
        if not self._store.do(Settings(queue=QUEUE)).has_key_limits:
            self._store.do(
                Configure(queue=QUEUE, settings=QueueSettings(key_max_inflight=MAX_PER_HOST), only=["key_max_inflight"])
            )
        self._is_limited = True

    def _send(self, reservation: Reservation) -> bool:
        """Send one callback and end its lease; return whether a request was sent. Never raises."""
        job, lease = reservation.job, reservation.lease
        with self._lock:
            if self._held.get(job.id) is not lease:
                return False  # it was given back, or its lease has expired
            self._begun.add(job.id)
        try:
            return self._deliver(reservation)
        except HoldfastError as error:  # the lease expires, and the delivery is sent again
            log_event(events.WEBHOOK_UNSETTLED, job_id=job.id, reason=f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - a bug must not end the thread
            log_failure(events.WEBHOOK_UNSETTLED, error, job_id=job.id, reason="an unexpected error")
        finally:
            with self._lock:
                self._held.pop(job.id, None)
                self._begun.discard(job.id)
            self._on_sent()
        return False

    def _deliver(self, reservation: Reservation) -> bool:
        job, lease = reservation.job, reservation.lease
        held_for = self._hosts_held_until.get(job.limit_key or "", 0.0) - monotonic()
        if held_for > 0:
            delay = round(held_for * SECOND)
            self._settle(Release(lease, delay=delay, budget=RELEASE_BUDGET, detail="its host does not answer"))
            return False
        if not job.payload:
            found = self._store.get(job.id)
            if found is None:
                return False  # it was removed
            reservation = Reservation(job=found, lease=lease)
        settlement = self._refusal(reservation)
        began, is_refused = monotonic(), settlement is not None
        if settlement is None:
            settlement = attempt(reservation, self._rules, self._secrets.of(self._space), self._clock.now())
            settlement = self._hold_silent_host(job, settlement, monotonic() - began)
        self._log(reservation, settlement)
        self._settle(settlement)
        return not is_refused

    def _settle(self, settlement: Settlement) -> None:
        [refused] = self._store.settle([settlement])
        if refused is not None:
            log_event(events.WEBHOOK_UNSETTLED, job_id=settlement.lease.job_id, reason=str(refused))

    def _hold_silent_host(self, job: JobRecord, settlement: Settlement, seconds: float) -> Settlement:
        """Leave a host alone that did not answer: no process sends it another callback before this one is due again.

        If this one is due only after a long time, the next callback is sent at once, and no other one beside it.
        """
        if seconds < SILENT_SECONDS or not isinstance(settlement, Retry) or settlement.delay > MAX_HOLD:
            return settlement
        now = monotonic()
        with self._lock:
            ended = [host for host, until in self._hosts_held_until.items() if until <= now]
            for host in ended:
                del self._hosts_held_until[host]
            self._hosts_held_until[job.limit_key or ""] = now + settlement.delay / SECOND
        return replace(settlement, hold_key=self._has_key_limits and job.limit_key is not None)

    def _refusal(self, reservation: Reservation) -> Settlement | None:
        """Return how a delivery ends that must not be sent: its signature is bad, or cannot be checked now."""
        match None if self._verification is None else self._verification.check(reservation.job):
            case None:
                return None
            case BadSignature(error=error):
                return Fail(reservation.lease, reason=BAD_SIGNATURE, error=error)
            case _:
                return Release(reservation.lease, delay=UNVERIFIED_DELAY, detail="the signature was not verified")

    def _log(self, reservation: Reservation, settlement: Settlement) -> None:
        job = reservation.job
        fields = {"job_id": job.id, "type": job.type, "space": self._space, "attempt": job.attempts}
        match settlement:
            case Ack(detail=""):
                log_event(events.WEBHOOK_DELIVERED, **fields)
            case Ack(detail=reason) | Retry(error=reason):
                log_event(events.WEBHOOK_FAILED, **fields, reason=reason)
            case Fail(reason=reason, error=error):
                log_event(events.WEBHOOK_DEAD, **fields, reason=f"{reason}: {error}")
            case Release(detail=reason):
                log_event(events.WEBHOOK_FAILED, **fields, reason=reason)


def _without_large_payload(reservation: Reservation) -> Reservation:
    job = reservation.job
    return reservation if len(job.payload) <= MAX_WAITING_BYTES else replace(reservation, job=replace(job, payload=b""))
