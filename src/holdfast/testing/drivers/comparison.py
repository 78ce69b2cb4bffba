"""A driver and the oracle, given the same calls at the same instants; any difference between them is an error.

What the laws leave to a driver is translated, not compared: tokens, the values of fences and versions, and the order of
ledger rows that one call wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from holdfast.clock import SECOND
from holdfast.drivers.contract import Store, Trimmed
from holdfast.errors import InvalidInput, LeaseError, LedgerTrimmed
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Settlement
from holdfast.testing.drivers.oracle import Kept, Oracle

START = 1_800_000_000 * SECOND

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pair:
    """One lease as each side knows it."""

    model: Lease
    store: Lease


MODEL, STORE = 0, 1
Version = tuple[int | None, int | None]  # one version of a registry row: the model's number, the store's
MakeSettlement = Callable[[Lease, int], Settlement]  # for one side, because leases and versions differ
MakeChange = Callable[[int], Change]


class SideBySide:
    """Both sides, the time, and everything they ever handed out. Used by one caller after the other."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.model = Oracle()
        self.now = START
        self.leases: list[Pair] = []  # every lease ever given, valid or not
        self.accepted: list[str] = []  # every id ever stored
        self.versions: list[Version] = [(None, None), (0, 0)]  # every version ever expected or given
        self._fences: dict[int, int] = {}  # the store's, to the model's
        self._rows: list[LedgerRow] = []  # the store's ledger as it was first read
        self._cursors: list[tuple[str | None, int]] = [(None, 0)]  # every cursor given, and the rows before it

    # The verbs --------------------------------------------------------------------------------------------------

    def enqueue(self, jobs: Sequence[JobRecord]) -> list[Enqueued]:
        """The same answers: ids and flags."""
        wanted = self.model.enqueue(jobs, now=self.now)
        got = self.store.enqueue(jobs, now=self.now)
        same("enqueue", wanted, got)
        self.accepted += [answer.id for answer in got if not answer.existed and answer.id not in self.accepted]
        return got

    def refuse(self, jobs: Sequence[JobRecord]) -> None:
        """A batch with one record that no driver takes: none of it is stored."""
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
    ) -> list[Pair]:
        """The same jobs in the same order, with the same attempts and expiries, under fences that grow (L4)."""
        at = self.now
        wanted = self.model.reserve(queues, limit=limit, lease_for=lease_for, worker=worker, types=types, now=at)
        got = self.store.reserve(queues, limit=limit, lease_for=lease_for, worker=worker, types=types, now=at)
        same("reserve: ids in order", [r.job.id for r in wanted], [r.job.id for r in got])
        same("reserve: jobs", [r.job for r in wanted], [r.job for r in got])
        same("reserve: checkpoints", [r.checkpoint for r in wanted], [r.checkpoint for r in got])
        highest = max(self._fences, default=0)
        pairs = [Pair(w.lease, g.lease) for w, g in zip(wanted, got, strict=True)]
        for pair in pairs:
            same("reserve: lease", _facts(pair.model), _facts(pair.store))
            require(pair.store.fence > highest, f"fence {pair.store.fence} came after {highest}")
            require(pair.store.fence not in self._fences, f"fence {pair.store.fence} was given twice")
            require(
                pair.store.token.startswith(f"{pair.store.fence}."),
                f"token {pair.store.token} without its fence",
            )
            self._fences[pair.store.fence] = pair.model.fence
        self.leases += pairs
        return pairs

    def extend(self, pairs: Sequence[Pair], *, lease_for: int, notes: Mapping[str, Note] | None) -> None:
        """The same leases or refusals; the lease that comes back is remembered beside the old one."""
        wanted = self.model.extend([p.model for p in pairs], lease_for=lease_for, notes=notes, now=self.now)
        got = self.store.extend([p.store for p in pairs], lease_for=lease_for, notes=notes, now=self.now)
        same("extend", [_answer(answer) for answer in wanted], [_answer(answer) for answer in got])
        for pair, model, store in zip(pairs, wanted, got, strict=True):
            if isinstance(model, Lease) and isinstance(store, Lease):
                same("extend: token", pair.store.token, store.token)
                same("extend: fence", pair.store.fence, store.fence)
                self.leases.append(Pair(model, store))

    def settle(self, calls: Sequence[tuple[Pair, MakeSettlement]]) -> None:
        """The same answers, per item and in order."""
        wanted = self.model.settle([make(pair.model, MODEL) for pair, make in calls], now=self.now)
        got = self.store.settle([make(pair.store, STORE) for pair, make in calls], now=self.now)
        same("settle", [_answer(answer) for answer in wanted], [_answer(answer) for answer in got])

    def reap(self, queues: Sequence[str] | None, *, worker: str | None, limit: int) -> None:
        """The same number of leases ended."""
        wanted = self.model.reap(queues, worker=worker, limit=limit, now=self.now)
        same("reap", wanted, self.store.reap(queues, worker=worker, limit=limit, now=self.now))

    # The tools --------------------------------------------------------------------------------------------------

    def cancel(self, job_ids: Sequence[str]) -> None:
        """The same states afterwards."""
        wanted: list[State | None] = self.model.cancel(job_ids, now=self.now)
        same("cancel", wanted, self.store.cancel(job_ids, now=self.now))

    def requeue(self, job_ids: Sequence[str]) -> None:
        """The same jobs requeued."""
        same("requeue", self.model.requeue(job_ids, now=self.now), self.store.requeue(job_ids, now=self.now))

    def purge(self, job_ids: Sequence[str]) -> None:
        """The same jobs removed."""
        same("purge", self.model.purge(job_ids, now=self.now), self.store.purge(job_ids, now=self.now))

    def trim(self, *, ended_for: int, ledger_for: int) -> Trimmed:
        """The same numbers of everything removed."""
        wanted = self.model.trim(ended_for=ended_for, ledger_for=ledger_for, now=self.now)
        same("trim", wanted, self.store.trim(ended_for=ended_for, ledger_for=ledger_for, now=self.now))
        return wanted

    def configure(self, queue: str, settings: QueueSettings, *, type: str | None) -> None:
        """Settings are read back as they were written."""
        self.model.configure(queue, settings, type=type)
        self.store.configure(queue, settings, type=type)
        same("settings", settings, self.store.settings(queue, type=type))

    # The registry -----------------------------------------------------------------------------------------------

    def write(self, changes: Sequence[MakeChange]) -> None:
        """The same changes made and refused; new versions are new on both sides."""
        wanted = self.model.write([make(MODEL) for make in changes], now=self.now)
        got = self.store.write([make(STORE) for make in changes], now=self.now)
        self._same_entries("write", wanted, got)

    def read(self, kind: str, keys: Sequence[str]) -> None:
        """The same rows, by key and by scan."""
        wanted = self.model.read(kind, keys, now=self.now)
        self._same_entries("read", wanted, self.store.read(kind, keys, now=self.now))
        self._same_entries("scan", self.model.scan(kind, now=self.now), self.store.scan(kind, now=self.now))

    def _same_entries(self, what: str, wanted: Sequence[Entry | None], got: Sequence[Entry | None]) -> None:
        """Values and expiries are equal; versions are equal on one side exactly where they are on the other."""

        def plain(entry: Entry | None) -> Entry | None:
            return None if entry is None else replace(entry, version=0)

        same(what, [plain(entry) for entry in wanted], [plain(entry) for entry in got])
        for model, store in zip(wanted, got, strict=True):
            if model is None or store is None:
                continue
            known = [pair for pair in self.versions if pair[0] == model.version or pair[1] == store.version]
            if known:
                same(f"{what}: the version of {model.key}", known, [(model.version, store.version)])
            else:
                self.versions.append((model.version, store.version))

    # What must hold after every call ----------------------------------------------------------------------------

    def check(self) -> None:
        """Every record, every lease, every new ledger row, and what must never be."""
        self._same_jobs()
        self._same_ledger()
        self._one_lease_each()

    def _same_jobs(self) -> None:
        model = dict(sorted(self.model.jobs.items()))
        page = self.store.find(limit=bounds.MAX_BATCH_ITEMS)
        same("ids", list(model), [record.id for record in page.items])
        for kept, record in zip(model.values(), page.items, strict=True):
            same(f"job {record.id}", kept.record, record)
            self._same_inspection(kept)
        same("counts", self.model.counts(now=self.now), self.store.counts(now=self.now))
        for job_id in self.accepted:  # nothing lost: kept, or removed as the ledger or retention says
            if job_id not in model:
                same(f"job {job_id}", None, self.store.get(job_id))

    def _same_inspection(self, kept: Kept) -> None:
        seen = self.store.inspect(kept.record.id)
        require(seen is not None, f"job {kept.record.id} is found but cannot be inspected")
        assert seen is not None
        note = seen.note or Note()
        lease = kept.lease
        same(
            f"inspection of {kept.record.id}",
            (
                kept.available_at,
                kept.worker,
                None if lease is None else lease.fence,
                kept.reserved_at,
                None if lease is None else lease.expires_at,
                kept.ended_at,
                lease is not None and kept.cancel_requested,
                (kept.progress, kept.checkpoint),
            ),
            (
                seen.available_at,
                seen.worker,
                None if seen.fence is None else self._fences[seen.fence],
                seen.reserved_at,
                seen.expires_at,
                seen.ended_at,
                lease is not None and seen.cancel_requested,
                (note.progress, note.checkpoint),
            ),
        )

    def _same_ledger(self) -> None:
        """What the last call wrote, read on from where the ledger was read to before it."""
        cursor, read = self._cursors[-1]
        page = self.store.ledger(cursor)
        require(page.cursor is not None, "the ledger gave no cursor")
        ours = self.model.ledger[read - self.model.trimmed :]
        theirs = [row if row.fence is None else replace(row, fence=self._fences[row.fence]) for row in page.items]
        same("ledger", sorted(ours, key=_of_job), sorted(theirs, key=_of_job))
        self._rows += page.items
        if page.items or cursor is None:
            self._cursors.append((page.cursor, len(self._rows)))
        fences = [row.fence for row in self._rows if row.fence is not None]
        require(len(fences) == len(set(fences)), "a lease has two ledger rows")

    def reread_ledger(self, choice: int) -> None:
        """From any old cursor: the rows that followed it, or ``LedgerTrimmed``; never a gap."""
        cursor, read = self._cursors[choice % len(self._cursors)]
        start = self.model.trimmed if cursor is None else read
        try:
            rows = self.store.ledger(cursor, limit=bounds.MAX_BATCH_ITEMS).items
        except LedgerTrimmed:
            require(start < self.model.trimmed, f"the ledger was not trimmed past {cursor}")
            return
        require(start >= self.model.trimmed, f"the ledger skipped trimmed rows after {cursor}")
        same(f"ledger after {cursor}", self._rows[start:], rows)

    def _one_lease_each(self) -> None:
        """At most one valid lease per job and per domain, and one ending for each lease that is over."""
        running = [kept.record for kept in self.model.jobs.values() if kept.state is State.INFLIGHT]
        domains = [(record.queue, record.domain) for record in running if record.domain is not None]
        require(len(domains) == len(set(domains)), "a domain has two jobs in flight")
        ended = sum(row.fence is not None for row in self._rows)
        same("leases given = leases ended + jobs in flight", len(self._fences), ended + len(running))


def same(what: str, wanted: T, got: T) -> None:
    """The driver's answer is the oracle's."""
    if wanted != got:
        raise AssertionError(f"{what}:\n  wanted {wanted}\n  got    {got}")


def require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - an assertion that survives python -O
    """A fact that needs no oracle."""
    if not holds:
        raise AssertionError(otherwise)


def _facts(lease: Lease) -> tuple[str, int, bool]:
    return lease.job_id, lease.expires_at, lease.cancel_requested


def _answer(answer: Lease | LeaseError | None) -> object:
    """An answer without what differs by nature: errors as type and facts, leases without token and fence."""
    match answer:
        case None:
            return None
        case Lease():
            return _facts(answer)
        case _:
            return type(answer).__name__, vars(answer)


def _of_job(row: LedgerRow) -> tuple[str, int]:
    return row.job_id, row.ended_at
