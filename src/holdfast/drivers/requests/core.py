"""The requests that every engine answers: producers enqueue; workers reserve, extend, settle and wait."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, get_args

import msgspec

from holdfast.drivers.answers import Inspection, Reaped, Reserved, Stored
from holdfast.drivers.capabilities import Capabilities, Feature, Needs
from holdfast.drivers.requests.request import (
    OfJobs,
    Request,
    check_all,
    check_ids,
    check_names,
    check_timeout,
)
from holdfast.errors import InvalidInput, LeaseError
from holdfast.model import bounds
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, check_new
from holdfast.model.job_batch import JobBatch, representatives
from holdfast.model.lease import Lease, Note
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Release, Retry, Settlement
from holdfast.wire.codec import JSON, is_flat_object

REAP_LIMIT = 1000  # leases: the most that one call ends, so that no single call ends all leases of an outage

_SETTLEMENTS = frozenset(get_args(Settlement))

JOB_NEEDS: Needs = {
    "priority": (Feature.PRIORITY,),
    "run_at": (Feature.SCHEDULE,),
    "requested_run_at": (Feature.SCHEDULE,),
    "idempotency_key": (Feature.KEY,),
    "unique_for": (Feature.KEY,),
    "domain": (Feature.DOMAIN,),
    "offset": (Feature.OFFSET,),
    "limit_key": (Feature.LIMIT_KEY,),
    "webhook": (Feature.LEDGER, Feature.REGISTRY),  # a reader of the ledger calls it, and keeps its place
}

SETTLEMENT_NEEDS: Mapping[type, Needs] = {
    Ack: {"result": (Feature.RESULT,), "writes": (Feature.REGISTRY, Feature.WRITES)},
    Retry: {"delay": (Feature.SCHEDULE,), "run_at": (Feature.SCHEDULE,), "hold_key": (Feature.LIMIT_KEY,)},
    Release: {"delay": (Feature.SCHEDULE,)},
}


class LeaseTerms(msgspec.Struct, frozen=True, kw_only=True):
    """For how long a worker leases jobs, and its name."""

    lease_for: int
    worker: str = ""

    def check(self) -> None:
        """Check both."""
        check_lease(self.lease_for, self.worker)


def check_lease(lease_for: int, worker: str) -> None:
    """Check the duration of a lease and the name of its worker."""
    bounds.check_integer("lease_for", lease_for, least=1, most=bounds.MAX_DURATION)
    bounds.check_text("worker", worker, empty=True)


class Enqueue(Request[Stored], frozen=True, kw_only=True):
    """Store new jobs; one answer per record, in order.

    Atomic: if one record is invalid, ``InvalidInput`` is raised and no job is stored. The jobs are durable, in the
    durability class of the store, when the call returns.

    A record with an id that exists, or with an idempotency key that is taken, stores nothing and changes nothing. Its
    answer has the id of the existing job, ``existed``, and ``conflict`` if the payloads differ (L6, L12). A key is
    taken per queue, as long as ``unique_for`` of its job says: see ``holdfast.model.unique``. By default, that is while
    its job has not ended and at least for the ``dedupe_window`` of the queue.

    So does a record with a domain and an ``offset`` that the domain has, or has had, in this queue (L11). If the job
    with that offset is open, the answer has its id. If the offset has ended, the answer has ``past`` too, with the id
    of the ended job if it is still kept, else with the id of the record, and ``conflict`` only if the job is kept. An
    id decides before a key, and a key before an offset. A record that is refused by its offset does not take its key.
    An offset that was never seen is accepted, however late it is.

    With ``replace_dead_before``, an instant, a record replaces the dead job that has its key, if that job ended before
    the instant: the job is removed with a ``purged`` ledger row, as by ``Purge``, and the record is stored under the
    key, whatever its payload. All of it is one transaction, so of two callers one replaces the job, and the other finds
    the new one. As with ``Purge``, a job stays while a registered reader has not read all its ledger rows. A record
    whose id exists replaces nothing. Neither records with an offset nor ``writes`` are allowed.

    ``writes`` are registry changes, each of another entry, that are made in the same transaction: with at least one
    job, whether the jobs are new or existed. All expected versions are compared before anything is stored. If one
    differs, ``WriteRefused`` names it, and neither a job nor an entry is stored. A call that ends with
    ``StoreUnavailable`` may have been carried out: read the entries before it is repeated.

    ``lease`` is a hint: lease all the jobs, or none of them, in the same transaction. Their leases count as prefetched.
    No job is leased if one of them existed, has a domain, a ``run_at`` or a ``limit_key``, or is in a queue with a
    pause or a limit, or if the store cannot lease this batch quickly, or lacks notes.

    ``connection`` is a connection of the caller to the same database: the jobs exist if, and only if, the caller
    commits its transaction. It carries neither ``replace_dead_before`` nor ``lease``.

    Raises ``StoreFull`` while there is still enough space for settlements.
    """

    field_needs: ClassVar[Needs] = {
        "writes": (Feature.REGISTRY, Feature.WRITES),
        "replace_dead_before": (Feature.KEY,),
    }
    jobs: Sequence[JobRecord]
    writes: Sequence[Change] = ()
    replace_dead_before: int | None = None
    lease: LeaseTerms | None = None
    connection: object = None

    def named_queues(self) -> Collection[str]:
        """Return the queues of the jobs."""
        return {job.queue for job in representatives(self.jobs)}

    def check(self, can: Capabilities) -> None:
        """Check every record before any is stored."""
        self._check_jobs()
        if can.lost:
            Request.check(self, can)
            for job in self.jobs:
                can.require_for(job, JOB_NEEDS)
        if self.lease is not None:
            self.lease.check()
        if self.writes:
            self._check_writes()
        if self.replace_dead_before is not None:
            self._check_replace_dead()
        if self.connection is not None:
            can.require(Feature.JOINED)
            if self.replace_dead_before is not None or self.lease is not None:
                refused = "replacing dead jobs and leasing in the caller's transaction"
                raise InvalidInput("connection", wanted="only jobs and writes", got=refused)

    def _check_jobs(self) -> None:
        bounds.check_batch("jobs", len(self.jobs))
        if isinstance(self.jobs, JobBatch):
            self.jobs.check()
        else:
            for job in self.jobs:
                check_new(job)
        for job in representatives(self.jobs):
            if job.meta != {}:
                check_meta(job.meta)

    def _check_writes(self) -> None:
        """Check the registry writes. Each ``Change`` checked its own values when it was created."""
        bounds.check_batch("writes", len(self.writes))
        check_all("write", self.writes, Change)
        if len({(write.kind, write.key) for write in self.writes}) < len(self.writes):
            raise InvalidInput("writes", wanted="every key once", got="two writes to one key")
        if not self.jobs:
            raise InvalidInput("jobs", wanted="at least one job (without jobs: `write`)", got="none")

    def _check_replace_dead(self) -> None:
        bounds.check_optional_integer("replace_dead_before", self.replace_dead_before, most=bounds.MAX_INSTANT)
        if self.writes:
            raise InvalidInput("writes", wanted="none with replace_dead_before", got=str(len(self.writes)))
        if any(job.offset is not None for job in representatives(self.jobs)):  # a replaced offset has ended
            raise InvalidInput("offset", wanted="none with replace_dead_before", got="one")


def check_meta(meta: object) -> None:
    """Check that ``meta`` is a JSON object of a bounded size that reads back as it was."""
    if is_flat_object(meta, most=bounds.MAX_META_BYTES):
        return
    data = JSON.encode(meta, field="meta") if isinstance(meta, dict) else b""
    if not data or JSON.decode(data, field="meta") != meta:
        raise InvalidInput("meta", wanted="a dict of plain JSON values", got=meta)
    bounds.check_blob("meta", data, most=bounds.MAX_META_BYTES)


class Reserve(Request[Reserved], frozen=True, kw_only=True):
    """Lease up to ``limit`` due jobs of these queues, and of these types if given, for ``lease_for``.

    In one transaction (L3):

    1. end up to ``REAP_LIMIT`` expired leases of these queues, oldest first;
    2. pick due jobs over all these queues, ordered by (priority desc, available_at, seq), within the limits of their
       ``QueueSettings`` (L10);
    3. lease them and count their attempts (L7).

    Never returns a job that has a valid lease, nor a job of a domain in which another job is in flight or comes first,
    nor a job of a domain that is halted or waits for a missing offset (L11). The jobs of a domain are ordered by their
    offsets, and jobs without an offset come after those, in the order of their arrival. A gap of a domain begins when
    this call finds it, or when the end of a job leaves it, and is passed by the first call that finds it after
    ``gap_pass_after``.

    A job whose ``limit_key`` has no allowance, by the key limits of its queue or because its key is held, is passed
    over: it keeps its place, and delays neither jobs of other keys nor jobs without a key. A store sets such jobs
    aside, so that they are not read again by every call. One call sets a bounded number of jobs aside and may then
    return fewer jobs than are due; the next calls go on, and ``Wait`` returns at once.

    With ``max_bytes``, stops before the job whose payload would make all payloads larger than that; the first job is
    returned whatever its size. ``isolation`` says what happens with jobs that must run alone. With ``prefetch`` the
    caller begins the jobs later, when it has a free place: an expired lease counts nothing, unless a note of ``Extend``
    said that the job had started. An isolated job that is returned alone is never prefetched (L7).

    The answer has the ledger rows of the leases that this call ended, if it knows them: reservations are never lost for
    them. Its ``mark`` goes into the next ``Wait``.
    """

    field_needs: ClassVar[Needs] = {"types": (Feature.TYPES,), "prefetch": (Feature.NOTES,)}
    queues: Sequence[str]
    limit: int
    lease_for: int
    worker: str = ""
    types: Collection[str] | None = None
    max_bytes: int | None = None
    isolation: Isolation = Isolation.SHARE
    prefetch: bool = False

    def check(self, can: Capabilities) -> None:
        """Check every argument."""
        Request.check(self, can)
        bounds.check_integer("limit", self.limit, least=1, most=bounds.MAX_BATCH_ITEMS)
        bounds.check_optional_integer("max_bytes", self.max_bytes, least=1)
        if not isinstance(self.isolation, Isolation):
            raise InvalidInput("isolation", wanted="an Isolation", got=self.isolation)
        if not isinstance(self.prefetch, bool):
            raise InvalidInput("prefetch", wanted="True or False", got=self.prefetch)
        check_lease(self.lease_for, self.worker)
        if self.types is not None:
            check_names("type", self.types)
        check_names("queue", self.queues)


class Extend(Request[list[Lease | LeaseError]], frozen=True, kw_only=True):
    """Move the end of every valid lease to now + ``lease_for``, and store ``notes``, which are keyed by job id.

    One answer per lease, in order: the extended lease, or why it was refused; a refused lease changes nothing (L5). The
    returned lease has the same token (L4), and ``cancel_requested`` if the job should stop.
    """

    field_needs: ClassVar[Needs] = {"notes": (Feature.NOTES,)}
    leases: Sequence[Lease]
    lease_for: int
    notes: Mapping[str, Note] = {}

    def check(self, can: Capabilities) -> None:
        """Check the leases and the duration of their extension. Each ``Note`` checked its own values."""
        Request.check(self, can)
        check_leases(self.leases)
        bounds.check_integer("lease_for", self.lease_for, least=1, most=bounds.MAX_DURATION)


class Settle(Request[list[LeaseError | None]], frozen=True, kw_only=True):
    """End leases. One answer per settlement, in order: None, or why it was refused.

    A refused settlement changes nothing and does not affect the others (L5). The whole effect of a settlement is
    atomic: the job, its result, the turn of its domain, its ledger row, the hold of its key, and the ``writes`` of an
    ack.

    Repeating exactly the settlement that ended the last lease of a job answers None and changes nothing, for at least a
    day and until the job is reserved again (L6).
    """

    settlements: Sequence[Settlement]

    def check(self, can: Capabilities) -> None:
        """Check that every item is a settlement of a lease."""
        Request.check(self, can)
        bounds.check_batch("settlements", len(self.settlements))
        for one in self.settlements:
            if type(one) not in _SETTLEMENTS:
                raise InvalidInput("settlement", wanted="Ack, Retry, Fail or Release", got=one)
            if type(one.lease) is not Lease:
                raise InvalidInput("lease", wanted="a Lease", got=one.lease)
            at = one.started_at
            if at is not None and not (type(at) is int and 1 <= at <= bounds.MAX_INSTANT):
                bounds.check_integer("started_at", at, least=1, most=bounds.MAX_INSTANT)
        if can.lost:
            for one in self.settlements:
                can.require_for(one, SETTLEMENT_NEEDS.get(type(one), {}))


class Reap(Request[Reaped], frozen=True, kw_only=True):
    """End up to ``limit`` expired leases, oldest first, in these queues or in all.

    With ``worker``, end the leases of that worker, expired or not: the caller knows that the worker is dead.

    With ``leases``, report leases that expired while the caller could not reach the store. It has stopped their
    attempts (L7). An expired one ends, and its attempt counts, but no crash is counted. If it was reaped already, the
    crash is taken back, unless the job has ended. ``reported`` is True for these leases. Any other lease, and a lease
    that was reported before, changes nothing and gives False.
    """

    queues: Sequence[str] | None = None
    worker: str | None = None
    leases: Sequence[Lease] | None = None
    limit: int = REAP_LIMIT

    def check(self, can: Capabilities) -> None:
        """Check which leases are to end."""
        Request.check(self, can)
        bounds.check_integer("limit", self.limit, least=1, most=bounds.MAX_BATCH_ITEMS)
        if self.worker is not None:
            bounds.check_text("worker", self.worker)
        if self.queues is not None:
            check_names("queue", self.queues)
        if self.leases is not None:
            check_leases(self.leases)


class Inspect(OfJobs[dict[str, Inspection]], frozen=True, kw_only=True):
    """The jobs with these ids, in any state, with their leases and notes, by id. Ids without a job are left out.

    Without ``payloads``, neither payloads nor results are read, nor what notes contain: such a job has an empty payload
    and no result, and its note has only ``started_at``.
    """

    payloads: bool = True


class Wait(Request[None], frozen=True, kw_only=True):
    """Block until a job of these queues may be due, for at most ``timeout`` seconds. A hint: ``Reserve`` decides.

    ``since`` is the mark of the caller's last reserve, or empty.
    """

    queues: Sequence[str]
    timeout: float
    since: tuple[int, ...] = ()

    def check(self, can: Capabilities) -> None:
        """Check the queues and the time."""
        Request.check(self, can)
        check_timeout(self.timeout)
        check_names("queue", self.queues)


class WaitForCancel(Request[bool], frozen=True, kw_only=True):
    """Block until a cancel is requested for one of these jobs in flight, for at most ``timeout`` seconds.

    Whether there is such a request, also one from before the call. A hint: ``Extend`` decides.
    """

    job_ids: Collection[str]
    timeout: float

    def check(self, can: Capabilities) -> None:
        """Check the ids and the time."""
        Request.check(self, can)
        check_timeout(self.timeout)
        check_ids(self.job_ids)


def check_leases(leases: Sequence[Lease]) -> None:
    """Check a list of leases."""
    bounds.check_batch("leases", len(leases))
    check_all("lease", leases, Lease)
