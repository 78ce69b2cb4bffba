"""The calls of the contract on one space of the oracle. Each item of a batch sees the effect of the items before it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from holdfast.drivers.answers import QueueCounts, Trimmed
from holdfast.errors import LeaseError
from holdfast.model.domain import DomainInfo, ResumeAction
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note, Reservation
from holdfast.model.queue_settings import SETTINGS_FIELDS, LimitOrigin, QueueSettings
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Settlement
from tests.drivers.oracle import admin, domains
from tests.drivers.oracle.enqueue import enqueue_one, replace_dead
from tests.drivers.oracle.extend import extend_one
from tests.drivers.oracle.reap import reap, report_outage_of_one
from tests.drivers.oracle.registry import apply_change, find_entry, has_expected_version, write_all
from tests.drivers.oracle.reserve import reserve
from tests.drivers.oracle.settle import settle_one
from tests.drivers.oracle.state import OracleState

REAP_LIMIT = 1000  # leases that one reserve ends at most (L3)
LIMITS = ("max_inflight", "rate", "burst", "key_max_inflight", "key_rate", "key_burst")


def _is_outranked(proposer: LimitOrigin | None, before: QueueSettings) -> bool:
    """Whether limits of a handler or of the settings would replace limits that win over them."""
    by_operator = before.limits_from is None and any(getattr(before, name) is not None for name in LIMITS)
    match proposer:
        case LimitOrigin.HANDLER:
            return by_operator or before.limits_from in {LimitOrigin.SETTINGS, LimitOrigin.OPERATOR}
        case LimitOrigin.SETTINGS:
            return by_operator or before.limits_from is LimitOrigin.OPERATOR
        case _:
            return False


class Oracle:
    """Answers every call as a correct driver must. ``state`` is open to comparisons."""

    def __init__(self) -> None:
        self.state = OracleState()

    # Producers and workers ------------------------------------------------------------------------------------------

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int,
    ) -> list[Enqueued]:
        """Return one answer per record, in order. ``WriteRefused`` if a write expects another version."""
        if writes and (refused := write_all(self.state, jobs[0].id, writes, now)):
            raise refused
        if replace_dead_before is not None:
            replace_dead(self.state, jobs, replace_dead_before, now)
            domains.update_waits(self.state, now)
        return [enqueue_one(self.state, job, now) for job in jobs]

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
        now: int,
    ) -> list[Reservation]:
        """Reap, then lease the first jobs in order (L3)."""
        reap(self.state, queues, worker=None, limit=REAP_LIMIT, now=now)
        domains.find_gaps(self.state, queues, now)
        return reserve(
            self.state,
            queues,
            limit=limit,
            lease_for=lease_for,
            worker=worker,
            types=types,
            max_bytes=max_bytes,
            isolation=isolation,
            prefetch=prefetch,
            now=now,
        )

    def extend(
        self, leases: Sequence[Lease], *, lease_for: int, notes: Mapping[str, Note] | None = None, now: int
    ) -> list[Lease | LeaseError]:
        """Return one answer per lease, in order."""
        expires_at = now + lease_for
        return [extend_one(self.state, lease, expires_at, (notes or {}).get(lease.job_id), now) for lease in leases]

    def settle(self, settlements: Sequence[Settlement], *, now: int) -> list[LeaseError | None]:
        """Return one answer per settlement, in order."""
        answers = [settle_one(self.state, settlement, now) for settlement in settlements]
        domains.update_waits(self.state, now)
        return answers

    def reap(
        self, queues: Sequence[str] | None = None, *, worker: str | None = None, limit: int = REAP_LIMIT, now: int
    ) -> int:
        """End expired leases, or all leases of a dead worker; return how many ended."""
        ended = reap(self.state, queues, worker=worker, limit=limit, now=now)
        domains.update_waits(self.state, now)
        return ended

    def report_outage(self, leases: Sequence[Lease], *, now: int) -> list[bool]:
        """Return which leases had expired."""
        answers = [report_outage_of_one(self.state, lease, now) for lease in leases]
        domains.update_waits(self.state, now)
        return answers

    # Operators ------------------------------------------------------------------------------------------------------

    def cancel(self, job_ids: Sequence[str], *, now: int) -> list[State | None]:
        """Return the state of each job after the cancel."""
        answers = [admin.cancel_one(self.state, job_id, now) for job_id in job_ids]
        domains.update_waits(self.state, now)
        return answers

    def requeue(self, job_ids: Sequence[str], *, now: int) -> list[bool]:
        """Return which jobs were requeued."""
        return [admin.requeue_one(self.state, job_id, now) for job_id in job_ids]

    def purge(self, job_ids: Sequence[str], *, now: int) -> list[bool]:
        """Return which jobs were removed."""
        answers = [admin.purge_one(self.state, job_id, now) for job_id in job_ids]
        domains.update_waits(self.state, now)
        return answers

    def resume(self, queue: str, domain: str, action: ResumeAction, *, position: int | None, now: int) -> bool:
        """Return whether the domain has changed."""
        is_changed = admin.resume(self.state, (queue, domain), action, position, now)
        domains.update_waits(self.state, now)
        return is_changed

    def forget_domain(self, queue: str, domain: str) -> bool:
        """Return whether the domain had something to forget."""
        return domains.forget(self.state, (queue, domain))

    def domains(self, *, now: int) -> list[DomainInfo]:
        """Return all domains that have an open job or are halted."""
        return domains.list_domains(self.state, now)

    def trim(self, *, ended_for: int, ledger_for: int, now: int) -> Trimmed:
        """Remove everything that is old enough, except dead letters."""
        return admin.trim(self.state, ended_for=ended_for, ledger_for=ledger_for, now=now)

    def configure(
        self, queue: str, settings: QueueSettings, *, type: str | None = None, only: Collection[str] | None = None
    ) -> QueueSettings:
        """Replace all settings of a queue, or of a type in it, or ``only`` these fields; return the result."""
        before = self.state.settings.get((queue, type), QueueSettings())
        if only is not None and not {*LIMITS, "limits_from"}.isdisjoint(only):
            only = {*only, "limits_from"}
            if _is_outranked(settings.limits_from, before):
                return before
        kept = {name: getattr(before, name) for name in SETTINGS_FIELDS if only is not None and name not in only}
        after = replace(settings, **kept)
        self.state.settings[queue, type] = after
        if type is None and (only is None or any(name.startswith("key_") for name in only)):
            for place in [place for place in self.state.key_holds if place[0] == queue]:
                del self.state.key_holds[place]
        self.state.arrived |= {
            job.place for job in self.state.jobs.values() if job.place is not None and job.record.queue == queue
        }
        return after

    def counts(self, *, now: int) -> list[QueueCounts]:
        """Return how many jobs of each queue and type are in each state."""
        return admin.count_jobs(self.state, now)

    # Registry -------------------------------------------------------------------------------------------------------

    def read(self, kind: str, keys: Sequence[str], *, now: int) -> list[Entry | None]:
        """Return the rows that have not expired, in the order of the keys."""
        return [find_entry(self.state, kind, key, now) for key in keys]

    def write(self, changes: Sequence[Change], *, together: bool = False, now: int) -> list[Entry | None]:
        """Apply each change that expects the current version, or all or none; None for a change that was not made."""
        if together and not all(has_expected_version(self.state, change, now) for change in changes):
            return [None] * len(changes)
        return [
            apply_change(self.state, change, now) if has_expected_version(self.state, change, now) else None
            for change in changes
        ]

    def scan(self, kind: str, *, now: int) -> list[Entry]:
        """Return the rows of a kind, in the order of their keys."""
        keys = sorted(key for kind_, key in self.state.registry if kind_ == kind)
        return [entry for entry in self.read(kind, keys, now=now) if entry is not None]
