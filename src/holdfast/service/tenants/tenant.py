"""``Tenant``: what the service does in one space. Every call to the store goes through here."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from holdfast.artifacts.manifest import Artifact
from holdfast.artifacts.records import visible_artifacts
from holdfast.client import Client, batches
from holdfast.clock import SECOND, Clock, SystemClock, from_timedelta
from holdfast.drivers.answers import Inspection
from holdfast.drivers.requests import Cancel, Extend, Inspect, Reserve, WaitForCancel, distinct
from holdfast.drivers.store import Store
from holdfast.errors import HoldfastError, InvalidInput, LeaseError, Unsupported
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.request import META_PAYLOAD_REF, JobRequest
from holdfast.model.settlement import Fail, Release, Settlement
from holdfast.service.limits import RequestCount
from holdfast.service.problems import Problem
from holdfast.service.tenants.batching import Batcher
from holdfast.service.tenants.handed_out import HandedOutLeases
from holdfast.service.tenants.store_calls import StoreCalls, no_answer
from holdfast.service.tenants.waiting_claims import WaitingClaims, Want, give_back
from holdfast.service.tenants.waiting_results import WaitingResults
from holdfast.service.tenants.work_watch import WorkWatch
from holdfast.settings import Settings
from holdfast.signing import open_signer
from holdfast.wire.codec import ENCODED_JSON
from holdfast.wire.records import to_record, to_records
from holdfast.wire.stored_json import is_json
from holdfast.worker.decide import BAD_PAYLOAD, BAD_SIGNATURE
from holdfast.worker.outcome import BadSignature, Snoozed
from holdfast.worker.retry_policy import policy_of
from holdfast.worker.verification import Verification

MAX_CLAIM_BYTES = 16 << 20  # of payload in one claim
PARALLEL_RESULTS = 4  # whole tasks that are read at the same time for requests that ask for a result
UNVERIFIED_DELAY = SECOND  # before a job whose signature could not be verified is looked at again
MAX_CLAIM_KINDS = 1000  # for which claims that meet are remembered to be alike
MAX_RESERVES = 3  # of one claim, if the tasks that it finds cannot be handed out


class Heartbeat(NamedTuple):
    """One lease to extend."""

    lease: Lease
    lease_for: int
    progress: bytes | None = None


class Tenant:
    """One space. Used by one event loop."""

    def __init__(
        self,
        store: Store,
        name: str,
        settings: Settings,
        calls: StoreCalls,
        requests: RequestCount,
        *,
        on_ended: Callable[[], None],
    ) -> None:
        self.name = name
        self.store = store
        self.driver_store = Store(store.engine)  # drivers log and count the expired leases that their calls have ended
        self.client = Client(store)
        self.clock: Clock = SystemClock()
        self.settings = settings
        self.calls = calls
        self._requests = requests
        self._on_ended = on_ended
        self._signer = open_signer(settings, space=name)
        self._verification = None if self._signer is None else Verification(store, self._signer, worker="http")
        self._waiting = WaitingClaims(store, calls, self._reserve)
        self.work = WorkWatch(store, calls)
        self._enqueues = Batcher(self._enqueue_batch, queue_seconds=calls.queue_seconds)
        self._settles = Batcher(self._settle_batch, queue_seconds=calls.queue_seconds)
        self._extends = Batcher(self.extend_many, queue_seconds=calls.queue_seconds)
        self._inspections = Batcher(self._inspect_batch, queue_seconds=calls.queue_seconds)
        self.handed_out = HandedOutLeases()
        self._reserves: dict[Want, Batcher[None, list[Reservation]]] = {}  # of claims for one task each
        self._results = WaitingResults(store, calls)
        self._result_reads = asyncio.Semaphore(PARALLEL_RESULTS)

    # Producers --------------------------------------------------------------------------------------------------

    def record_of(self, request: JobRequest) -> JobRecord:
        """Return the record of a request, whose payload is encoded. Raises ``InvalidInput``."""
        return to_record(request, now=self.clock.now(), codec=ENCODED_JSON)

    def records_of(
        self, template: JobRequest, payloads: Sequence[bytes], keys: Sequence[str | None] | None
    ) -> Sequence[JobRecord]:
        """Return one record per payload; all else but the keys is as in the request. Raises ``InvalidInput``."""
        return to_records(template, payloads, keys, now=self.clock.now())

    async def enqueue(self, record: JobRecord) -> Enqueued:
        """Store one job, in one transaction with those of other requests that meet it."""
        answer = await self._enqueues.submit(record)
        self._notify()
        if isinstance(answer, HoldfastError):
            raise answer
        return answer

    async def enqueue_many(self, records: Sequence[JobRecord]) -> list[Enqueued | HoldfastError]:
        """Store the jobs of one request. Returns one answer per job, in order: an error if it cannot be stored."""
        answers = await self.calls.run(self._store_records, records)
        self._notify()
        return answers

    async def _enqueue_batch(self, records: list[JobRecord]) -> list[Enqueued | HoldfastError]:
        return await self.calls.run(self._store_records, records)

    def _store_records(self, records: Sequence[JobRecord]) -> list[Enqueued | HoldfastError]:
        """Store jobs in one transaction. If the store refuses one of them, each one is stored by itself."""
        signed = records if self._signer is None else self._signer.sign(records)
        try:
            return [answer for batch in batches(signed) for answer in self.store.enqueue(batch)]
        except (InvalidInput, Unsupported) as error:
            if len(records) == 1:
                return [error]
            return [answer for record in records for answer in self._store_records([record])]

    async def wait_until_ended(self, task_id: str, seconds: float, *, ends: Callable[[], Awaitable[object]]) -> None:
        """Return when a task has ended or does not exist, after so many seconds, or when ``ends`` has ended.

        An end that this process has written is seen at once; one that another process has written, within a second.
        """
        with self._requests.waiting():
            await self._results.wait(task_id, seconds, ends=ends)

    async def read_result(self, task_id: str, *, has_artifacts: bool) -> tuple[Inspection | None, tuple[Artifact, ...]]:
        """Return a job, and its artifacts. A request that has waited is not refused: it waits for its turn."""
        seconds = self.calls.queue_seconds + self.calls.seconds
        try:
            async with asyncio.timeout(seconds), self._result_reads:
                return await self.calls.settle(_read_result, self.store, task_id, has_artifacts=has_artifacts)
        except TimeoutError:
            raise no_answer(seconds, is_certain=True) from None

    # Workers ----------------------------------------------------------------------------------------------------

    async def claim(self, want: Want, seconds: float, *, ends: Callable[[], Awaitable[object]]) -> list[Reservation]:
        """Return reservations: at once if there is work, else when work comes within so many seconds."""
        reservations = await self._reserve(want)
        if reservations or seconds <= 0:
            return reservations
        with self._requests.waiting():
            return await self._waiting.wait(want, seconds, ends=ends)

    async def give_back(self, reservations: list[Reservation]) -> None:
        """Release tasks whose worker has gone before it got them."""
        await self.calls.settle(give_back, self.store, reservations)
        self._notify()

    async def _give_back_late(self, reservations: list[Reservation] | None) -> None:
        """Release tasks whose reserve was answered when its claim had ended."""
        if reservations:
            with suppress(HoldfastError, Problem):  # their leases will expire
                await self.give_back(reservations)

    async def _reserve(self, want: Want) -> list[Reservation]:
        if self._verification is not None and self._verification.pause_left():
            return []
        if want.limit > 1:
            return await self._reserve_up_to(want, want.limit)
        batcher = self._reserves.get(want)
        if batcher is None:
            if len(self._reserves) >= MAX_CLAIM_KINDS:
                self._reserves.clear()  # those that have claims go on
            batcher = self._reserves[want] = Batcher(
                partial(self._reserve_batch, want), queue_seconds=self.calls.queue_seconds
            )
        return await batcher.submit(None)

    async def _reserve_batch(self, want: Want, claims: list[None]) -> list[list[Reservation]]:
        """Reserve for claims that ask for the same: one task each, for the first of them if there are too few."""
        found = await self._reserve_up_to(want, len(claims))
        return [found[place : place + 1] for place in range(len(claims))]

    async def _reserve_up_to(self, want: Want, limit: int) -> list[Reservation]:
        for _ in range(MAX_RESERVES):
            reservations = await self.calls.reserve(
                partial(self._reserve_usable, want, limit), on_late=self._give_back_late
            )
            if reservations is not None:
                return reservations
        return []

    def _reserve_usable(self, want: Want, limit: int) -> list[Reservation] | None:
        """Reserve. Jobs that cannot be handed out are settled; None if the reserve found such jobs only."""
        found = self.store.do(
            Reserve(
                queues=want.queues,
                limit=limit,
                lease_for=want.lease_for,
                worker=want.worker,
                types=want.types,
                max_bytes=MAX_CLAIM_BYTES,
                isolation=Isolation.SHARE if want.limit == 1 else Isolation.ALONE,
            )
        ).reservations
        refused = {one.job.id: settlement for one in found if (settlement := self._refusal(one)) is not None}
        if not refused:
            return found
        self.store.settle(list(refused.values()))
        return [one for one in found if one.job.id not in refused] or None

    def _refusal(self, reservation: Reservation) -> Settlement | None:
        """Return how a job ends that no worker may get: its signature is bad, or its payload cannot be read."""
        match None if self._verification is None else self._verification.check(reservation.job):
            case None:
                pass
            case BadSignature(error=error):
                return Fail(reservation.lease, reason=BAD_SIGNATURE, error=error)
            case Snoozed(delay=delay, budget=budget, reason=reason):
                return Release(reservation.lease, delay=delay, budget=budget, detail=reason)
            case _:  # nobody knows whether the job may run
                return Release(reservation.lease, delay=UNVERIFIED_DELAY, detail="the signature was not verified")
        if META_PAYLOAD_REF in reservation.job.meta:
            return Fail(reservation.lease, reason=BAD_PAYLOAD, error="the payload is a reference of an older version")
        if not is_json(reservation.job):
            return Fail(reservation.lease, reason=BAD_PAYLOAD, error="the payload cannot be sent as JSON")
        return None

    async def inspect_one(self, task_id: str) -> Inspection | None:
        """Return a job without its payload, with its lease, read together with those of other requests that meet it."""
        return await self._inspections.submit(task_id)

    async def inspect(self, task_ids: Sequence[str]) -> dict[str, Inspection]:
        """Return jobs without their payloads, with their leases, by id: each once, however often it is named."""
        return await self.calls.settle(self.store.do, Inspect(job_ids=distinct(task_ids), payloads=False))

    async def is_cancel_requested(self, task_ids: Sequence[str]) -> bool:
        """Whether a cancel was requested for one of these running tasks."""
        return await self.calls.settle(self.store.do, WaitForCancel(job_ids=task_ids, timeout=0))

    async def _inspect_batch(self, task_ids: list[str]) -> list[Inspection | None]:
        found = await self.inspect(task_ids)
        return [found.get(task_id) for task_id in task_ids]

    async def extend(self, heartbeat: Heartbeat) -> Lease | LeaseError:
        """Extend a lease, in one call with those of other requests that meet it."""
        return await self._extends.submit(heartbeat)

    async def extend_many(self, heartbeats: Sequence[Heartbeat]) -> list[Lease | LeaseError]:
        """Extend the leases of one request."""
        return await self.calls.settle(self._extend, heartbeats)

    def _extend(self, heartbeats: Sequence[Heartbeat]) -> list[Lease | LeaseError]:
        """Extend leases in one call for each length. A call names a task once: notes are by task, not by lease."""
        lengths = {one.lease_for for one in heartbeats}
        if len(lengths) == 1 and len({one.lease.job_id for one in heartbeats}) == len(heartbeats):
            notes = {one.lease.job_id: Note(progress=one.progress) for one in heartbeats if one.progress is not None}
            leases = [one.lease for one in heartbeats]
            return self.store.do(Extend(leases=leases, lease_for=lengths.pop(), notes=notes))
        groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        seen: Counter[str] = Counter()
        for place, one in enumerate(heartbeats):
            groups[one.lease_for, seen[one.lease.job_id]].append(place)
            seen[one.lease.job_id] += 1
        answers: dict[int, Lease | LeaseError] = {}
        for places in groups.values():
            answers.update(zip(places, self._extend([heartbeats[place] for place in places]), strict=True))
        return [answers[place] for place in range(len(heartbeats))]

    async def settle(self, settlement: Settlement) -> LeaseError | None:
        """End one lease, in one transaction with those of other requests that meet it."""
        refused = await self._settles.submit(settlement)
        self.settled([settlement.lease.job_id])
        return refused

    async def settle_many(self, settlements: Sequence[Settlement]) -> list[LeaseError | None]:
        """End the leases of one request."""
        refused = await self.calls.settle(self.store.settle, settlements)
        self.settled([one.lease.job_id for one in settlements])
        return refused

    async def _settle_batch(self, settlements: list[Settlement]) -> list[LeaseError | None]:
        return await self.calls.settle(self.store.settle, settlements)

    def settled(self, task_ids: Sequence[str]) -> None:
        """Leases of these tasks have ended: wake the requests that wait for the tasks, or for work."""
        self._results.changed(task_ids)
        self._notify()  # a retried or released task, and the next one of a domain
        self._on_ended()

    def retry_delay(self, job: JobRecord) -> int:
        """Return the delay before the next attempt, in microseconds, by the retry policy of the job."""
        policy = policy_of(job, None, self.settings.retry)
        return from_timedelta(policy.delay(max(1, job.attempts), random.random()))  # noqa: S311 - jitter

    # Operators --------------------------------------------------------------------------------------------------

    async def cancel(self, task_id: str) -> State | None:
        """Cancel a task; None if there is no such task."""
        [state] = await self.calls.run(self.store.do, Cancel(job_ids=[task_id]))
        self.settled([task_id])
        return state

    async def requeue(self, task_ids: Sequence[str]) -> list[bool]:
        """Run failed or cancelled tasks again."""
        answers = await self.calls.run(self.client.requeue, task_ids)
        self._notify()
        return answers

    def resumed(self) -> None:
        """Tasks may be ready: a pause has ended, or a limit has changed."""
        self._notify()

    def _notify(self) -> None:
        """Tasks may be ready: look for work for the requests that wait."""
        self._waiting.notify()
        self.work.notify()

    async def stop(self) -> None:
        """End what runs in the background."""
        await self._waiting.stop()
        await self._results.stop()


def _read_result(store: Store, task_id: str, *, has_artifacts: bool) -> tuple[Inspection | None, tuple[Artifact, ...]]:
    found = store.do(Inspect(job_ids=[task_id])).get(task_id)
    if found is None or not has_artifacts or not found.job.state.has_ended:
        return found, ()
    return found, visible_artifacts(store, found)
