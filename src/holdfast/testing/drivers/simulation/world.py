"""The one wire between the actors and the store: every call is made here, written into the trace, and judged."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.clock import DAY, MINUTE, SECOND, ManualClock
from holdfast.drivers.contract import Store
from holdfast.errors import LeaseError
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease, Reservation
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Settlement
from holdfast.testing.drivers.simulation.checker import Judge
from holdfast.testing.drivers.simulation.random_source import Dice

QUEUES = ("mail", "reports")


class World:
    """A store, the time, the dice, and the trace. Nothing in it depends on anything but the seed.

    The trace names leases by their fences: tokens are random by design.
    """

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.clock = ManualClock()
        self.dice = Dice(seed)
        self.judge = Judge()
        self.trace: list[str] = []
        self.ids: list[str] = []  # every id that a producer made up
        self.lost_leases: list[Lease] = []  # of processes that died, or are thought to have
        self._cursor: str | None = None
        self.now = self._start = self.clock.now()

    def pass_time(self) -> None:
        """Mostly a little, often not at all, at times to beside the end of a lease, seldom days."""
        self.now = self.clock.advance(self._length())

    def _length(self) -> int:
        dice = self.dice
        chance = dice.random()
        if chance < 0.35:
            return 0
        if chance < 0.55:
            return dice.between(1, 2_000)
        if chance < 0.70 and self.judge.running:
            ends = [held.expires_at for held in self.judge.running.values()]
            return max(0, dice.pick(ends) + dice.pick((-1, 0, 1)) - self.now)
        if chance < 0.99:
            return dice.below(SECOND)
        return dice.between(DAY, 2 * DAY)

    # Calls ------------------------------------------------------------------------------------------------------

    def enqueue(self, records: Sequence[JobRecord]) -> None:
        """Producers."""
        answers = self.store.enqueue(records, now=self.now)
        self._say("enqueue", " ".join(f"{a.id}{'=' * a.existed}{'!' * a.conflict}" for a in answers))
        self.judge.enqueued(records, answers, self.now)

    def reserve(
        self,
        worker: str,
        queues: Sequence[str],
        *,
        limit: int,
        lease_for: int,
        types: list[str] | None = None,
    ) -> list[Reservation]:
        """Workers."""
        taken = self.store.reserve(queues, limit=limit, lease_for=lease_for, worker=worker, types=types, now=self.now)
        self._say(worker, "reserve " + " ".join(f"{r.job.id}#{r.lease.fence}/{r.job.attempts}" for r in taken))
        self.judge.reserved(worker, queues, taken, self._rows(), self.now)
        return taken

    def extend(self, worker: str, lease: Lease, lease_for: int) -> Lease | None:
        """A heartbeat; gives the lease to go on with, None if it is lost."""
        [answer] = self.store.extend([lease], lease_for=lease_for, now=self.now)
        self._say(worker, f"extend #{lease.fence} {_said(answer)}")
        self.judge.extended(lease, answer, lease_for, self.now)
        return answer if isinstance(answer, Lease) else None

    def settle(self, worker: str, settlements: Sequence[Settlement]) -> None:
        """Any endings, in one batch."""
        answers = self.store.settle(settlements, now=self.now)
        told = zip(settlements, answers, strict=True)
        self._say(worker, " ".join(f"{s.verb} #{s.lease.fence} {_said(answer)}" for s, answer in told))
        self.judge.settled(settlements, answers, self._rows(), self.now)

    def reap(self, queues: Sequence[str] | None = None, *, worker: str | None = None) -> None:
        """The reaper loop; or somebody knows that a worker is dead."""
        count = self.store.reap(queues, worker=worker, now=self.now)
        self._say("reap", f"{worker or 'expired'} {count}")
        self.judge.reaped(self._rows(), self.now, queues=queues, worker=worker)

    def cancel(self, job_ids: Sequence[str]) -> None:
        """An operator stops jobs."""
        states = self.store.cancel(job_ids, now=self.now)
        self._say("cancel", " ".join(f"{job_id}:{state}" for job_id, state in zip(job_ids, states, strict=True)))
        self.judge.cancelled(job_ids, self._rows(), self.now)

    def requeue(self, job_ids: Sequence[str]) -> None:
        """An operator gives dead letters another chance."""
        self._say("requeue", f"{job_ids} {self.store.requeue(job_ids, now=self.now)}")
        self.judge.acted(self._rows(), self.now)

    def purge(self, job_ids: Sequence[str]) -> None:
        """An operator removes what has ended."""
        self._say("purge", f"{job_ids} {self.store.purge(job_ids, now=self.now)}")
        self.judge.acted(self._rows(), self.now)

    def pause(self, queue: str, length: int) -> None:
        """An operator stops a queue for a time; 0 resumes it."""
        until = self.now + length
        self.store.configure(queue, QueueSettings(paused_until=until))
        self.judge.paused[queue] = until
        self._say("pause", f"{queue} for {length}")

    def trim(self) -> None:
        """Retention."""
        trimmed = self.store.trim(ended_for=DAY, ledger_for=2 * DAY, now=self.now)
        self._say("trim", f"{trimmed.jobs} jobs, {trimmed.ledger} rows")
        self.judge.trimmed(trimmed.jobs, self.now - DAY)

    # The end ----------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Nothing new comes and one good worker does all that is left; then the verdict."""
        for queue in QUEUES:
            self.pause(queue, 0)
        # Each round ends at least one job of every domain, and expired leases end in the first.
        for _ in range(2 * len(self.ids) + 3):
            self.now = self.clock.advance(10 * MINUTE)
            taken = self.reserve("last", QUEUES, limit=bounds.MAX_BATCH_ITEMS, lease_for=MINUTE)
            if not taken:
                break
            self.settle("last", [Ack(reservation.lease) for reservation in taken])
        self.judge.verdict(self.store)

    # The trace --------------------------------------------------------------------------------------------------

    def _say(self, who: str, what: str) -> None:
        self.trace.append(f"{self.now - self._start} {who} {what}")

    def _rows(self) -> list[LedgerRow]:
        """What the call just made has written."""
        page = self.store.ledger(self._cursor)
        self._cursor = page.cursor
        if page.items:
            self.trace.append(" ".join(f"> {r.job_id}#{r.fence} {r.ending} {r.state}" for r in page.items))
        return page.items


def _said(answer: Lease | LeaseError | None) -> str:
    return "ok" if answer is None or isinstance(answer, Lease) else type(answer).__name__
