"""``Deliveries``: reserves the delivery jobs of one space, lets senders send them, and settles them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from holdfast.clock import SECOND, Clock, monotonic
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.contract import QueueSettings, Store
from holdfast.errors import HoldfastError
from holdfast.model.isolation import Isolation
from holdfast.model.lease import Lease, Reservation
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.net.guarded import Rules
from holdfast.webhooks.attempt import attempt
from holdfast.webhooks.delivery import QUEUE, TYPES
from holdfast.webhooks.secrets import WebhookSecrets
from holdfast.webhooks.senders import Senders
from holdfast.worker.decide import BAD_SIGNATURE
from holdfast.worker.event_log import log_event, log_failure
from holdfast.worker.outcome import BadSignature
from holdfast.worker.verification import Verification

LEASE_SECONDS = 10
BEAT_SECONDS = LEASE_SECONDS / 3
MAX_PER_HOST = 16  # requests to one host at a time, of all processes: half of the senders of one
UNVERIFIED_DELAY = 10 * SECOND


class Deliveries:
    """The delivery jobs of one space. ``send_due`` and ``beat`` are called by one thread."""

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
        self._running: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._beat_at = 0.0
        self._is_limited = not store.capabilities.has(Feature.KEY_LIMITS)

    def send_due(self) -> None:
        """Reserve as many deliveries as can be sent at once, and send them."""
        if not self._senders.free or not self._secrets.of(self._space):
            return
        if not self._store.any_open([QUEUE], TYPES):
            return
        self._limit_hosts()
        reservations = self._store.reserve(
            [QUEUE],
            limit=self._senders.free,
            lease_for=LEASE_SECONDS * SECOND,
            worker=self._name,
            types=TYPES,
            isolation=Isolation.SHARE,
            prefetch=True,  # a process that dies counts neither as an attempt nor as a crash of the delivery
        )
        with self._lock:
            self._running |= {one.job.id: one.lease for one in reservations}
        for reservation in reservations:
            self._senders.submit(partial(self._send, reservation))

    def beat(self) -> None:
        """Extend the leases of the deliveries that are being sent, if it is time."""
        with self._lock:
            leases = list(self._running.values())
        if not leases or monotonic() < self._beat_at:
            return
        self._beat_at = monotonic() + BEAT_SECONDS
        self._store.extend(leases, lease_for=LEASE_SECONDS * SECOND)  # a lost lease is reported when it is settled

    def _limit_hosts(self) -> None:
        """Limit the requests to one host, unless the queue has a limit already. Once per process."""
        if self._is_limited:
            return
        if not self._store.settings(QUEUE).has_key_limits:
            self._store.configure(QUEUE, QueueSettings(key_max_inflight=MAX_PER_HOST), only=["key_max_inflight"])
        self._is_limited = True

    def _send(self, reservation: Reservation) -> None:
        """Send one delivery and end its lease. Never raises."""
        job = reservation.job
        try:
            settlement = self._refusal(reservation) or attempt(
                reservation, self._rules, self._secrets.of(self._space), self._clock.now()
            )
            self._log(reservation, settlement)
            [refused] = self._store.settle([settlement])
            if refused is not None:
                log_event(logging.WARNING, "webhook.unsettled", job_id=job.id, reason=str(refused))
        except HoldfastError as error:  # the lease expires, and the delivery is sent again
            log_event(logging.WARNING, "webhook.unsettled", job_id=job.id, reason=f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - a bug must not end the thread
            log_failure("webhook.unsettled", error, job_id=job.id, reason="an unexpected error")
        finally:
            with self._lock:
                self._running.pop(job.id, None)
            self._on_sent()

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
                log_event(logging.DEBUG, "webhook.delivered", **fields)
            case Ack(detail=reason) | Retry(error=reason):
                log_event(logging.INFO, "webhook.failed", **fields, reason=reason)
            case Fail(reason=reason, error=error):
                log_event(logging.WARNING, "webhook.dead", **fields, reason=f"{reason}: {error}")
            case Release(detail=reason):
                log_event(logging.INFO, "webhook.failed", **fields, reason=reason)
