"""A driver and the oracle get the same calls at the same instants; any difference raises ``AssertionError``.

The laws leave some values to the driver: tokens, the numbers of fences and versions, and the order of the ledger rows
that one call writes. These values are translated between the two sides, not compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from msgspec.structs import replace

from holdfast.clock import SECOND
from holdfast.drivers.answers import Trimmed
from holdfast.drivers.requests import (
    Cancel,
    Configure,
    Counts,
    Domains,
    Enqueue,
    Extend,
    Find,
    ForgetDomain,
    Inspect,
    LedgerTail,
    Purge,
    Read,
    Reap,
    Requeue,
    Reserve,
    Resume,
    Scan,
    Settings,
    Trim,
    Write,
)
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, LeaseError, LedgerTrimmed, WriteRefused
from holdfast.model import bounds
from holdfast.model.domain import ResumeAction
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Settlement
from tests.drivers.oracle import Oracle, OracleJob

START = 1_800_000_000 * SECOND  # the instant of the first call

T = TypeVar("T")


class Side(IntEnum):
    """The index of one side in a pair of versions."""

    ORACLE = 0
    STORE = 1


@dataclass(frozen=True, slots=True)
class LeasePair:
    """One lease, as the oracle and as the store returned it."""

    oracle: Lease
    store: Lease


VersionPair = tuple[int | None, int | None]  # one version of a registry row, indexed by ``Side``
MakeSettlement = Callable[[Lease, Side], Settlement]  # leases and versions differ by side
MakeChange = Callable[[Side], Change]


class ComparedStore:
    """Sends each call to the store and to the oracle; remembers every lease, version and cursor. Not thread-safe."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.oracle = Oracle()
        self.now = START
        self.leases: list[LeasePair] = []  # every lease ever returned, valid or not
        self.accepted_ids: list[str] = []  # every id ever stored
        self.versions: list[VersionPair] = [(None, None), (0, 0)]  # every version ever expected or returned
        self.keys_left = 0  # idempotency keys that the oracle has trimmed and the store has not
        self._fences: dict[int, int] = {}  # the store's fence -> the oracle's fence
        self._rows: list[LedgerRow] = []  # the store's ledger, as it was first read
        self._cursors: list[tuple[str | None, int]] = [(None, 0)]  # every cursor returned, and the rows before it

    # Producers and workers ------------------------------------------------------------------------------------------

    def enqueue(self, jobs: Sequence[JobRecord], *, replace_dead: bool = False) -> list[Enqueued]:
        """Compare ids and flags. With ``replace_dead`` the jobs that ended before now are replaced."""
        before = self.now if replace_dead else None
        wanted = self.oracle.enqueue(jobs, replace_dead_before=before, now=self.now)
        got = self.store.do(Enqueue(jobs=jobs, replace_dead_before=before, now=self.now)).answers
        assert_same("enqueue", wanted, got)
        self._remember(got)
        return got

    def enqueue_with_writes(self, jobs: Sequence[JobRecord], changes: Sequence[MakeChange]) -> None:
        """Compare the answers, or the refused write."""

        def call(target: Oracle | Store, side: Side) -> object:
            try:
                writes = [make(side) for make in changes]
                if isinstance(target, Store):
                    return target.do(Enqueue(jobs=jobs, writes=writes, now=self.now)).answers
                return target.enqueue(jobs, writes=writes, now=self.now)
            except WriteRefused as refused:
                return type(refused).__name__, vars(refused)

        wanted, got = call(self.oracle, Side.ORACLE), call(self.store, Side.STORE)
        assert_same("enqueue with writes", wanted, got)
        if isinstance(got, list):
            self._remember(got)

    def _remember(self, answers: Sequence[Enqueued]) -> None:
        new_ids = [answer.id for answer in answers if not answer.existed]
        self.accepted_ids += [job_id for job_id in new_ids if job_id not in self.accepted_ids]

    def assert_enqueue_refused(self, jobs: Sequence[JobRecord]) -> None:
        """Enqueue a batch with an invalid record; the store must raise ``InvalidInput``."""
        try:
            self.store.enqueue(jobs, now=self.now)
        except InvalidInput:
            return
        raise AssertionError("enqueue: wanted InvalidInput, got an answer")

    def reserve(
        self,
        queues: Sequence[str],
        *,
        limit: int,
        lease_for: int,
        worker: str,
        types: Collection[str] | None,
        **rules: Any,
    ) -> list[LeasePair]:
        """Compare jobs, order, attempts and expiries; fences must grow (L4). ``rules`` are other options of reserve."""
        rules |= {"limit": limit, "lease_for": lease_for, "worker": worker, "types": types, "now": self.now}
        wanted = self.oracle.reserve(queues, **rules)
        got = self.store.do(Reserve(queues=queues, **rules)).reservations
        assert_same("reserve: ids in order", [r.job.id for r in wanted], [r.job.id for r in got])
        assert_same("reserve: jobs", [r.job for r in wanted], [r.job for r in got])
        assert_same("reserve: checkpoints", [r.checkpoint for r in wanted], [r.checkpoint for r in got])
        assert_same("reserve: isolated", [r.isolated for r in wanted], [r.isolated for r in got])
        highest_fence = max(self._fences, default=0)
        pairs = [LeasePair(w.lease, g.lease) for w, g in zip(wanted, got, strict=True)]
        for pair in pairs:
            lease = pair.store
            assert_same("reserve: lease", _comparable_lease(pair.oracle), _comparable_lease(lease))
            assert_true(lease.fence > highest_fence, f"fence {lease.fence} came after {highest_fence}")
            assert_true(lease.fence not in self._fences, f"fence {lease.fence} was returned twice")
            assert_true(lease.token.startswith(f"{lease.fence}."), f"token {lease.token} does not start with its fence")
            self._fences[lease.fence] = pair.oracle.fence
        self.leases += pairs
        return pairs

    def extend(self, pairs: Sequence[LeasePair], *, lease_for: int, notes: Mapping[str, Note]) -> None:
        """Compare leases and refusals; later calls may use the old lease or the new lease."""
        wanted = self.oracle.extend([p.oracle for p in pairs], lease_for=lease_for, notes=notes, now=self.now)
        got = self.store.do(Extend(leases=[p.store for p in pairs], lease_for=lease_for, notes=notes, now=self.now))
        assert_same("extend", [_comparable_answer(a) for a in wanted], [_comparable_answer(a) for a in got])
        for pair, oracle, store in zip(pairs, wanted, got, strict=True):
            if isinstance(oracle, Lease) and isinstance(store, Lease):
                assert_same("extend: token", pair.store.token, store.token)
                assert_same("extend: fence", pair.store.fence, store.fence)
                self.leases.append(LeasePair(oracle, store))

    def settle(self, calls: Sequence[tuple[LeasePair, MakeSettlement]]) -> None:
        """Compare the answers, in order."""
        wanted = self.oracle.settle([make(pair.oracle, Side.ORACLE) for pair, make in calls], now=self.now)
        got = self.store.settle([make(pair.store, Side.STORE) for pair, make in calls], now=self.now)
        assert_same("settle", [_comparable_answer(a) for a in wanted], [_comparable_answer(a) for a in got])

    def report_outage(self, pairs: Sequence[LeasePair]) -> None:
        """Compare which leases had expired."""
        wanted = self.oracle.report_outage([pair.oracle for pair in pairs], now=self.now)
        got = self.store.do(Reap(leases=[pair.store for pair in pairs], now=self.now)).reported
        assert_same("report_outage", wanted, got)

    def reap(self, queues: Sequence[str] | None, *, worker: str | None, limit: int) -> None:
        """Compare how many leases ended."""
        wanted = self.oracle.reap(queues, worker=worker, limit=limit, now=self.now)
        assert_same("reap", wanted, self.store.do(Reap(queues=queues, worker=worker, limit=limit, now=self.now)).count)

    # Operators ------------------------------------------------------------------------------------------------------

    def cancel(self, job_ids: Sequence[str]) -> None:
        """Compare the states after the cancel."""
        wanted: list[State | None] = self.oracle.cancel(job_ids, now=self.now)
        assert_same("cancel", wanted, self.store.do(Cancel(job_ids=job_ids, now=self.now)))

    def requeue(self, job_ids: Sequence[str]) -> None:
        """Compare which jobs were requeued."""
        assert_same(
            "requeue", self.oracle.requeue(job_ids, now=self.now), self.store.do(Requeue(job_ids=job_ids, now=self.now))
        )

    def purge(self, job_ids: Sequence[str]) -> None:
        """Compare which jobs were removed."""
        assert_same(
            "purge", self.oracle.purge(job_ids, now=self.now), self.store.do(Purge(job_ids=job_ids, now=self.now))
        )

    def resume(self, queue: str, domain: str, action: ResumeAction, position: int | None) -> None:
        """Compare whether the domain has changed."""
        wanted = self.oracle.resume(queue, domain, action, position=position, now=self.now)
        assert_same(
            "resume",
            wanted,
            self.store.do(Resume(queue=queue, domain=domain, action=action, position=position, now=self.now)),
        )

    def forget_domain(self, queue: str, domain: str) -> None:
        """Compare whether the domain had something to forget."""
        assert_same(
            "forget_domain",
            self.oracle.forget_domain(queue, domain),
            self.store.do(ForgetDomain(queue=queue, domain=domain)),
        )

    def trim(self, *, ended_for: int, ledger_for: int) -> Trimmed:
        """Compare how much was removed. A store may remove a key later than the oracle."""
        wanted = self.oracle.trim(ended_for=ended_for, ledger_for=ledger_for, now=self.now)
        trimmed = self.store.do(Trim(ended_for=ended_for, ledger_for=ledger_for, now=self.now))
        self.keys_left += wanted.dedupe - trimmed.dedupe
        assert_same("trim", dataclasses.replace(wanted, dedupe=trimmed.dedupe), trimmed)
        assert_true(self.keys_left >= 0, "trim removed a key that may not be removed")
        return wanted

    def configure(
        self, queue: str, settings: QueueSettings, *, type: str | None, only: Collection[str] | None = None
    ) -> None:
        """Store the settings and read them back."""
        wanted = self.oracle.configure(queue, settings, type=type, only=only)
        self.store.do(Configure(queue=queue, settings=settings, type=type, only=only))
        assert_same("settings", wanted, self.store.do(Settings(queue=queue, type=type)))

    # Registry -------------------------------------------------------------------------------------------------------

    def write(self, changes: Sequence[MakeChange], *, together: bool = False) -> None:
        """Compare which changes were accepted, and whether their versions are new."""
        wanted = self.oracle.write([make(Side.ORACLE) for make in changes], together=together, now=self.now)
        got = self.store.do(Write(changes=[make(Side.STORE) for make in changes], together=together, now=self.now))
        self._assert_same_entries("write", wanted, got)

    def read(self, kind: str, keys: Sequence[str]) -> None:
        """Compare the rows, by key and by scan."""
        wanted = self.oracle.read(kind, keys, now=self.now)
        self._assert_same_entries("read", wanted, self.store.do(Read(kind=kind, keys=keys, now=self.now)))
        wanted_scan = self.oracle.scan(kind, now=self.now)
        self._assert_same_entries("scan", wanted_scan, self.store.do(Scan(kind=kind, now=self.now)))

    def _assert_same_entries(self, what: str, wanted: Sequence[Entry | None], got: Sequence[Entry | None]) -> None:
        """Compare values and expiries. Two versions must be equal on one side exactly if they are on the other."""

        def without_version(entry: Entry | None) -> Entry | None:
            return None if entry is None else replace(entry, version=0)

        assert_same(what, [without_version(entry) for entry in wanted], [without_version(entry) for entry in got])
        for oracle, store in zip(wanted, got, strict=True):
            if oracle is None or store is None:
                continue
            known = [pair for pair in self.versions if pair[0] == oracle.version or pair[1] == store.version]
            if known:
                assert_same(f"{what}: the version of {oracle.key}", known, [(oracle.version, store.version)])
            else:
                self.versions.append((oracle.version, store.version))

    # After every call -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Compare every job, every lease and every new ledger row, and check the invariants."""
        self._assert_same_jobs()
        self._assert_same_ledger()
        self._assert_one_lease_each()

    def check_domains(self) -> None:
        """Compare every domain that has an open job or is halted."""
        assert_same("domains", self.oracle.domains(now=self.now), self.store.do(Domains(now=self.now)).items)

    def _assert_same_jobs(self) -> None:
        jobs = dict(sorted(self.oracle.state.jobs.items()))
        page = self.store.find(limit=bounds.MAX_BATCH_ITEMS)
        assert_same("ids", list(jobs), [record.id for record in page.items])
        newest = self.store.do(Find(limit=bounds.MAX_BATCH_ITEMS, newest=True))
        assert_same("ids, the newest first", list(reversed(jobs)), [record.id for record in newest.items])
        for job, record in zip(jobs.values(), page.items, strict=True):
            assert_same(f"job {record.id}", job.record, record)
            self._assert_same_inspection(job)
        wanted, counts = self.oracle.counts(now=self.now), self.store.counts(now=self.now)
        assert_same("counts", wanted, counts)
        assert_same("ages", *([row.oldest_ready_age for row in rows] for rows in (wanted, counts)))
        assert_same("estimates", wanted, self.store.do(Counts(now=self.now, estimate=True)))
        for job_id in self.accepted_ids:
            if job_id not in jobs:
                assert_same(f"job {job_id}", None, self.store.get(job_id))

    def _assert_same_inspection(self, job: OracleJob) -> None:
        inspection = self.store.do(Inspect(job_ids=[job.record.id])).get(job.record.id)
        assert_true(inspection is not None, f"find returns job {job.record.id}, inspect does not")
        assert inspection is not None
        note = inspection.note or Note()
        lease = job.lease
        assert_same(
            f"inspection of {job.record.id}",
            (
                job.available_at,
                job.worker,
                None if lease is None else lease.fence,
                job.reserved_at,
                None if lease is None else lease.expires_at,
                job.ended_at,
                lease is not None and job.cancel_requested,
                (job.progress, job.checkpoint),
            ),
            (
                inspection.available_at,
                inspection.worker,
                None if inspection.fence is None else self._fences[inspection.fence],
                inspection.reserved_at,
                inspection.expires_at,
                inspection.ended_at,
                lease is not None and inspection.cancel_requested,
                (note.progress, note.checkpoint),
            ),
        )

    def _assert_same_ledger(self) -> None:
        """Compare the rows that were written since the last check."""
        cursor, rows_before = self._cursors[-1]
        page = self.store.ledger(cursor)
        assert_true(page.cursor is not None, "the ledger returned no cursor")
        wanted = self.oracle.state.ledger[rows_before - self.oracle.state.trimmed_rows :]
        got = [row if row.fence is None else replace(row, fence=self._fences[row.fence]) for row in page.items]
        assert_same("ledger", sorted(wanted, key=_job_and_time), sorted(got, key=_job_and_time))
        self._rows += page.items
        if page.items or cursor is None:
            self._cursors.append((page.cursor, len(self._rows)))
        fences = [row.fence for row in self._rows if row.fence is not None]
        assert_true(len(fences) == len(set(fences)), "a lease has two ledger rows")

    def reread_ledger(self, choice: int) -> None:
        """Read from an old cursor: the store returns all rows that followed, or raises ``LedgerTrimmed``."""
        cursor, rows_before = self._cursors[choice % len(self._cursors)]
        trimmed_rows = self.oracle.state.trimmed_rows
        start = trimmed_rows if cursor is None else rows_before
        try:
            rows = self.store.ledger(cursor, limit=bounds.MAX_BATCH_ITEMS).items
        except LedgerTrimmed:
            assert_true(start < trimmed_rows, f"the ledger was not trimmed past {cursor}")
            return
        assert_true(start >= trimmed_rows, f"the ledger skipped trimmed rows after {cursor}")
        assert_same(f"ledger after {cursor}", self._rows[start:], rows)
        if cursor is not None:
            before = self.store.do(LedgerTail(before=cursor, limit=bounds.MAX_BATCH_ITEMS)).items
            assert_same(f"ledger before {cursor}", self._rows[trimmed_rows:start], before)

    def _assert_one_lease_each(self) -> None:
        """At most one job of a domain is in flight, and every lease that ended has one ledger row."""
        running = [job.record for job in self.oracle.state.jobs.values() if job.state is State.INFLIGHT]
        domains = [(record.queue, record.domain) for record in running if record.domain is not None]
        assert_true(len(domains) == len(set(domains)), "a domain has two jobs in flight")
        ended = sum(row.fence is not None for row in self._rows)
        assert_same("leases returned = leases ended + jobs in flight", len(self._fences), ended + len(running))


def assert_same(what: str, wanted: T, got: T) -> None:
    """Assert that the store's answer equals the oracle's; ``what`` names the value in the message."""
    if wanted != got:
        raise AssertionError(f"{what}:\n  wanted {wanted}\n  got    {got}")


def assert_true(condition: bool, message: str) -> None:  # noqa: FBT001 - an assertion that python -O does not remove
    """Assert a condition that needs no oracle."""
    if not condition:
        raise AssertionError(message)


def _comparable_lease(lease: Lease) -> tuple[str, int, bool]:
    return lease.job_id, lease.expires_at, lease.cancel_requested


def _comparable_answer(answer: Lease | LeaseError | None) -> object:
    """Return the answer without values that the driver chooses: errors as type and attributes, leases without token."""
    match answer:
        case None:
            return None
        case Lease():
            return _comparable_lease(answer)
        case _:
            return type(answer).__name__, vars(answer)


def _job_and_time(row: LedgerRow) -> tuple[str, int]:
    return row.job_id, row.ended_at
