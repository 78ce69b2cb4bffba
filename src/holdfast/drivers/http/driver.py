"""The HTTP driver: each verb validates its arguments and is one request to the service."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn, Self

from holdfast.clock import SystemClock
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.contract import (
    REAP_LIMIT,
    DomainInfo,
    DomainStatus,
    Inspection,
    JobFilter,
    Page,
    QueueCounts,
    ResumeAction,
    Trimmed,
)
from holdfast.drivers.http.service_calls import ServiceCalls
from holdfast.drivers.http.wait import Waits, wait_in_parts
from holdfast.drivers.remote import arguments as messages
from holdfast.drivers.remote.arguments import Arguments
from holdfast.drivers.remote.description import DriverDescription
from holdfast.drivers.remote.rows import pack_jobs
from holdfast.drivers.remote.verbs import VERBS
from holdfast.drivers.validation import Validation
from holdfast.errors import LeaseError, Unsupported
from holdfast.model import bounds
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Settlement


class HttpDriver:
    """One space of the store behind a service. ``optional`` has the verbs that not every store offers."""

    def __init__(
        self, service: ServiceCalls, description: DriverDescription, *, space: str, caller_clock: bool = False
    ) -> None:
        self._service = service
        self._description = description
        self._caller_clock = caller_clock and Feature.CALLER_CLOCK.value not in description.gaps
        self._waits = Waits()
        self.space_name = bounds.check_name("space", space)
        self._asked_space = None if space == description.space else space
        self.capabilities = description.capabilities(is_loopback=service.connections.address.is_loopback)
        self._validation = Validation(self.capabilities, caller_clock=self._caller_clock, read_clock=SystemClock().now)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, name: str, arguments: Arguments, *, is_repeatable: bool = True, waits: float = 0.0) -> Any:
        self._service.connections.check_open()
        arguments.space = self._asked_space
        return self._service.call(VERBS[name], arguments, is_repeatable=is_repeatable, waits=waits)

    def _now(self, now: int | None) -> int | None:
        return self._validation.caller_now(now)

    # Driver -----------------------------------------------------------------------------------------------------

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Store new jobs and return one answer per record, in order."""
        self._validation.check_enqueue(jobs)
        if writes:
            self._validation.check_enqueue_writes(jobs, writes)
        if replace_dead_before is not None:
            self._validation.check_replace_dead(jobs, writes, replace_dead_before)
        caller_now = self._now(now)
        if not jobs:
            self._service.connections.check_open()
            return []
        answers: list[Enqueued] = self._call(
            "enqueue",
            messages.EnqueueArguments(
                jobs=pack_jobs(jobs), writes=list(writes), replace_dead_before=replace_dead_before, now=caller_now
            ),
            is_repeatable=not writes,
        )
        return answers

    def reserve(
        self,
        queues: Sequence[str],
        *,
        limit: int,
        lease_for: int,
        worker: str = "",
        types: Collection[str] | None = None,
        max_bytes: int | None = None,
        isolation: Isolation = Isolation.SHARE,
        prefetch: bool = False,
        now: int | None = None,
    ) -> list[Reservation]:
        """Lease up to ``limit`` due jobs of these queues, and of these types if given, for ``lease_for``.

        A repeated request gets the first answer, if the same process of the service has it.

        If that process died before it answered, the leases expire.
        """
        names = self._validation.check_reserve(
            queues, limit, lease_for, worker, types, max_bytes=max_bytes, isolation=isolation, prefetch=prefetch
        )
        reservations: list[Reservation] = self._call(
            "reserve",
            messages.ReserveArguments(
                queues=names,
                limit=limit,
                lease_for=lease_for,
                worker=worker,
                types=None if types is None else list(types),
                max_bytes=max_bytes,
                isolation=isolation,
                prefetch=prefetch,
                now=self._now(now),
                call_id=new_call_id(),
            ),
        )
        if reservations:
            self._waits.note_reservation()
        return reservations

    def extend(
        self,
        leases: Sequence[Lease],
        *,
        lease_for: int,
        notes: Mapping[str, Note] | None = None,
        now: int | None = None,
    ) -> list[Lease | LeaseError]:
        """Move the end of every valid lease to now + ``lease_for``, and store ``notes``, which are keyed by job id."""
        self._validation.check_extend(leases, lease_for)
        arguments = messages.ExtendArguments(
            leases=list(leases), lease_for=lease_for, notes=None if notes is None else dict(notes), now=self._now(now)
        )
        answers: list[Lease | LeaseError] = self._call("extend", arguments)
        return answers

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """End leases, each as its settlement says; return None or the refusal of each one, in order."""
        self._validation.check_settle(settlements)
        arguments = messages.SettleArguments(settlements=list(settlements), now=self._now(now))
        answers: list[LeaseError | None] = self._call("settle", arguments)
        return answers

    def reap(
        self,
        queues: Sequence[str] | None = None,
        *,
        worker: str | None = None,
        limit: int = REAP_LIMIT,
        now: int | None = None,
    ) -> int:
        """End up to ``limit`` expired leases, oldest first, in these queues or in all; return how many."""
        names = self._validation.check_reap(queues, worker, limit)
        arguments = messages.ReapArguments(queues=names, worker=worker, limit=limit, now=self._now(now))
        ended: int = self._call("reap", arguments)
        return ended

    def report_outage(self, leases: Sequence[Lease], *, now: int | None = None) -> list[bool]:
        """Report leases that expired while the caller could not reach the store."""
        self._validation.check_leases(leases)
        arguments = messages.LeasesArguments(leases=list(leases), now=self._now(now))
        answers: list[bool] = self._call("report_outage", arguments)
        return answers

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """Block until a job of these queues may be due, for at most ``timeout`` seconds.

        The service waits, and answers when a job may be due.
        """
        names = self._validation.check_wait(queues, timeout)

        def ask(seconds: float) -> bool:
            fruitless = self._waits.fruitless
            arguments = messages.WaitArguments(queues=names, timeout=seconds, fruitless=fruitless)
            is_due: bool = self._call("wait", arguments, waits=seconds)
            return is_due

        if wait_in_parts(ask, timeout, pause=self._service.connections.pause):
            self._waits.ended_early()

    def space(self, name: str) -> HttpDriver:
        """Return another space of the same store, on the same connections.

        Another space than that of the token needs the role admin.
        """
        bounds.check_name("space", name)
        if name != self._description.space:
            self._validation.require(Feature.SPACES)
        return type(self)(self._service, self._description, space=name, caller_clock=self._caller_clock)

    def joined(self, connection: object) -> NoReturn:  # noqa: ARG002 - part of the contract
        """Raise ``Unsupported``: a transaction of the caller cannot be joined over HTTP."""
        raise Unsupported(self.capabilities.driver, Feature.JOINED, self.capabilities.gaps[Feature.JOINED])

    def close(self) -> None:
        """Close the connections, also those of the spaces."""
        self._service.connections.close()

    # Admin ------------------------------------------------------------------------------------------------------

    def get(self, job_id: str) -> JobRecord | None:
        """Return a job in any state; None if the space has no job with this id."""
        job: JobRecord | None = self._call("get", messages.JobArguments(job_id=bounds.check_name("id", job_id)))
        return job

    def inspect(self, job_ids: Sequence[str], *, payloads: bool = True) -> dict[str, Inspection]:
        """Return these jobs, in any state, with their leases and notes, by id."""
        self._validation.check_ids(job_ids)
        arguments = messages.InspectArguments(job_ids=list(job_ids), payloads=payloads)
        inspections: dict[str, Inspection] = self._call("inspect", arguments)
        return inspections

    def find(
        self, where: JobFilter | None = None, *, limit: int = 100, after: str | None = None, newest: bool = False
    ) -> Page[JobRecord]:
        """Return a page of the jobs that match, ordered by id."""
        self._validation.check_find(limit, after)
        arguments = messages.FindArguments(where=where, limit=limit, after=after, newest=newest)
        page: Page[JobRecord] = self._call("find", arguments)
        return page

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """Whether a job of these types is ready, scheduled or in flight in these queues."""
        queue_names, type_names = self._validation.check_any_open(queues, types)
        is_open: bool = self._call("any_open", messages.AnyOpenArguments(queues=queue_names, types=type_names))
        return is_open

    def counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Return one row per queue and type that has jobs, ordered by both."""
        return self._count("counts", queues, states, now)

    def _count(
        self, verb: str, queues: Sequence[str] | None, states: Collection[State] | None, now: int | None
    ) -> list[QueueCounts]:
        counted = self._validation.check_counts(queues, states)
        arguments = messages.CountsArguments(
            queues=None if queues is None else list(queues),
            states=None if states is None else sorted(counted),
            now=self._now(now),
        )
        counts: list[QueueCounts] = self._call(verb, arguments)
        return counts

    def requeue(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Make dead or cancelled jobs ready again, attempts and crashes set to 0, as the last of their lanes (L9).

        Needs the role admin.
        """
        answers: list[bool] = self._call("requeue", self._jobs(job_ids, now))
        return answers

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """Cancel ready jobs at once, and request cancellation of running jobs."""
        states: list[State | None] = self._call("cancel", self._jobs(job_ids, now))
        return states

    def purge(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Remove ended jobs, each with a ``purged`` ledger row. Needs the role admin."""
        answers: list[bool] = self._call("purge", self._jobs(job_ids, now))
        return answers

    def _jobs(self, job_ids: Sequence[str], now: int | None) -> messages.TimedJobsArguments:
        self._validation.check_ids(job_ids)
        return messages.TimedJobsArguments(job_ids=list(job_ids), now=self._now(now))

    def configure(
        self, queue: str, settings: QueueSettings, *, type: str | None = None, only: Collection[str] | None = None
    ) -> None:
        """Replace the settings of a queue, or of one type in it. A call that may end a pause needs the role admin."""
        self._validation.check_settings(queue, settings, type, only)
        arguments = messages.ConfigureArguments(
            queue=queue, settings=settings, type=type, only=None if only is None else sorted(only)
        )
        self._call("configure", arguments)

    def settings(self, queue: str, *, type: str | None = None) -> QueueSettings:
        """Return the settings of a queue, or of one type in it; the defaults if none were configured."""
        self._validation.check_settings(queue, None, type)
        settings: QueueSettings = self._call("settings", messages.SettingsArguments(queue=queue, type=type))
        return settings

    def domains(
        self,
        queue: str | None = None,
        *,
        status: DomainStatus | None = None,
        name: str | None = None,
        limit: int = 100,
        after: str | None = None,
        now: int | None = None,
    ) -> Page[DomainInfo]:
        """Return a page of the domains that have an open job or are halted, ordered by queue and name."""
        self._validation.check_domains(queue, status, name, limit, after)
        arguments = messages.DomainsArguments(
            queue=queue, status=status, name=name, limit=limit, after=after, now=self._now(now)
        )
        page: Page[DomainInfo] = self._call("domains", arguments)
        return page

    def resume(
        self,
        queue: str,
        domain: str,
        action: ResumeAction = ResumeAction.RESUME,
        *,
        position: int | None = None,
        now: int | None = None,
    ) -> bool:
        """Let a halted domain go on, as ``action`` says; return whether this call changed the domain.

        Needs the role admin.
        """
        self._validation.check_resume(queue, domain, action, position)
        arguments = messages.ResumeArguments(
            queue=queue, domain=domain, action=action, position=position, now=self._now(now)
        )
        is_changed: bool = self._call("resume", arguments)
        return is_changed

    def forget_domain(self, queue: str, domain: str) -> bool:
        """Remove what a domain without open jobs remembers: its ended offsets, its start and its halt.

        Needs the role admin.
        """
        self._validation.check_forget_domain(queue, domain)
        is_removed: bool = self._call("forget_domain", messages.ForgetDomainArguments(queue=queue, domain=domain))
        return is_removed

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return a page of the ledger, in an order that is fixed and has no gaps (L13)."""
        self._validation.check_page(limit)
        page: Page[LedgerRow] = self._call("ledger", messages.LedgerArguments(after=after, limit=limit))
        return page

    def ledger_end(self) -> str:
        """Return the cursor of the end: ``ledger`` after it has only rows that are written from now on."""
        cursor: str = self._call("ledger_end", Arguments())
        return cursor

    def ledger_tail(self, before: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return the last ``limit`` rows up to the cursor ``before``, in the order of the ledger; None is the end."""
        self._validation.check_page(limit)
        page: Page[LedgerRow] = self._call("ledger_tail", messages.LedgerTailArguments(before=before, limit=limit))
        return page

    def trim(
        self,
        *,
        ended_for: int | None = None,
        ledger_for: int | None = None,
        limit: int = bounds.MAX_BATCH_ITEMS,
        now: int | None = None,
    ) -> Trimmed:
        """Remove old rows: done and cancelled jobs, ledger rows, idempotency keys and registry entries.

        Other times than those of the space need the role admin.
        """
        self._validation.check_trim(ended_for, ledger_for, limit)
        arguments = messages.TrimArguments(ended_for=ended_for, ledger_for=ledger_for, limit=limit, now=self._now(now))
        trimmed: Trimmed = self._call("trim", arguments)
        return trimmed

    # Registry ---------------------------------------------------------------------------------------------------

    def read(self, kind: str, keys: Sequence[str], *, now: int | None = None) -> list[Entry | None]:
        """Return the entries under these keys, in order; None where there is none or it has expired."""
        self._validation.check_read(kind, keys)
        arguments = messages.ReadArguments(kind=kind, keys=list(keys), now=self._now(now))
        entries: list[Entry | None] = self._call("read", arguments)
        return entries

    def write(self, changes: Sequence[Change], *, now: int | None = None) -> list[Entry | None]:
        """Make the changes in order, each only if the entry has the expected version."""
        self._validation.check_write(changes)
        arguments = messages.WriteArguments(changes=list(changes), now=self._now(now))
        entries: list[Entry | None] = self._call("write", arguments)
        return entries

    def scan(
        self, kind: str, *, prefix: str = "", after: str = "", limit: int = 100, now: int | None = None
    ) -> list[Entry]:
        """Return the entries of a kind whose keys begin with ``prefix``, ordered by key, after the key ``after``."""
        self._validation.check_scan(kind, prefix, after, limit)
        arguments = messages.ScanArguments(kind=kind, prefix=prefix, after=after, limit=limit, now=self._now(now))
        entries: list[Entry] = self._call("scan", arguments)
        return entries


def new_call_id() -> str:
    """Return an id by which the service recognises a repeated call."""
    return secrets.token_hex(12)
