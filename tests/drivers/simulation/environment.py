"""The environment of a simulation: every call of an actor goes through here, is written to the trace and is checked."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.clock import DAY, MINUTE, SECOND, ManualClock
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Cancel, Configure, Extend, Purge, Reap, Requeue, Reserve, Resume, Trim
from holdfast.drivers.store import Store
from holdfast.errors import LeaseError
from holdfast.model import bounds
from holdfast.model.domain import ResumeAction
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease, Note, Reservation
from holdfast.model.ledger import LedgerRow
from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings
from holdfast.model.settlement import Ack, Settlement
from tests.drivers.simulation.checker import LawChecker
from tests.drivers.simulation.random_source import RandomSource

QUEUES = ("mail", "reports")


class Environment:
    """A store, a clock, a random source, a checker and the trace. Everything depends only on the seed.

    A line of the trace is ``seconds actor event``. Leases are named ``job#fence``, because tokens are random, and
    ``/attempt`` follows in a reserve, with ``!`` if the job is isolated. ``>`` starts the ledger rows that the call
    before wrote.
    """

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.clock = ManualClock()
        self.rng = RandomSource(seed)
        self.checker = LawChecker()
        self.trace: list[str] = []
        self.job_ids: list[str] = []  # every id that a producer created
        self.lost_leases: list[Lease] = []  # leases of processes that died, or are believed dead
        self._cursor: str | None = None
        self.now = self._start = self.clock.now()
        self.has_offsets = store.capabilities.has(Feature.OFFSET)
        self.can_resume = store.capabilities.has(Feature.DOMAINS)
        self._configure_domains()

    def pass_time(self) -> None:
        """Move the clock: often not at all, mostly a little, sometimes to the end of a lease, rarely by days."""
        self.now = self.clock.advance(self._time_step())

    def _time_step(self) -> int:
        rng = self.rng
        chance = rng.random()
        if chance < 0.35:
            return 0
        if chance < 0.55:
            return rng.between(1, 2_000)
        if chance < 0.70 and self.checker.running:
            expiries = [lease.expires_at for lease in self.checker.running.values()]
            return max(0, rng.pick(expiries) + rng.pick((-1, 0, 1)) - self.now)
        if chance < 0.99:
            return rng.below(SECOND)
        return rng.between(DAY, 2 * DAY)

    def _configure_domains(self) -> None:
        """Let each queue halt its domains, or wait for gaps, by chance."""
        has = self.store.capabilities.has
        for queue in QUEUES:
            on_exhausted = self.rng.pick((*OnExhausted,)) if has(Feature.DOMAINS) else OnExhausted.SKIP
            gaps = self.rng.pick((*Gaps,)) if has(Feature.OFFSET) else Gaps.PASS
            self._set_domains(queue, QueueSettings(on_exhausted=on_exhausted, gaps=gaps))

    def _set_domains(self, queue: str, settings: QueueSettings) -> None:
        self.store.do(Configure(queue=queue, settings=settings, only=["on_exhausted", "gaps"]))
        self.checker.domains.settings[queue] = settings
        self._log("domains", f"{queue} {settings.on_exhausted} {settings.gaps}")

    # Calls ----------------------------------------------------------------------------------------------------------

    def enqueue(self, records: Sequence[JobRecord]) -> None:
        """Enqueue a batch."""
        answers = self.store.enqueue(records, now=self.now)
        text = " ".join(f"{a.id}{'=' * a.existed}{'!' * a.conflict}{'<' * a.past}" for a in answers)
        self._log("enqueue", text)
        self.checker.check_enqueue(records, answers, self.now)

    def reserve(
        self,
        worker: str,
        queues: Sequence[str],
        *,
        limit: int,
        lease_for: int,
        isolation: Isolation,
        types: list[str] | None = None,
        prefetch: bool = False,
    ) -> list[Reservation]:
        """Reserve a batch."""
        reservations = self.store.do(
            Reserve(
                queues=queues,
                limit=limit,
                lease_for=lease_for,
                worker=worker,
                types=types,
                isolation=isolation,
                prefetch=prefetch,
                now=self.now,
            )
        ).reservations
        verb = f"reserve {isolation}{' prefetch' * prefetch}"
        text = " ".join(f"{r.job.id}#{r.lease.fence}/{r.job.attempts}{'!' * r.isolated}" for r in reservations)
        self._log(worker, f"{verb} {text or 'nothing'}")
        self.checker.check_reserve(
            worker, queues, reservations, self._new_rows(), self.now, isolation=isolation, prefetch=prefetch
        )
        return reservations

    def extend(self, worker: str, lease: Lease, lease_for: int, *, has_started: bool = False) -> Lease | None:
        """Extend a lease, and note the start of the job; return the new lease, or None if the lease is lost."""
        notes = {lease.job_id: Note(started_at=self.now)} if has_started else {}
        [answer] = self.store.do(Extend(leases=[lease], lease_for=lease_for, notes=notes, now=self.now))
        self._log(worker, f"extend #{lease.fence}{' started' * has_started} {_answer_text(answer)}")
        self.checker.check_extend(lease, answer, lease_for, self.now, has_started=has_started)
        return answer if isinstance(answer, Lease) else None

    def settle(self, worker: str, settlements: Sequence[Settlement]) -> None:
        """Settle a batch."""
        answers = self.store.settle(settlements, now=self.now)
        pairs = zip(settlements, answers, strict=True)
        self._log(worker, " ".join(f"{s.verb} #{s.lease.fence} {_answer_text(answer)}" for s, answer in pairs))
        self.checker.check_settle(settlements, answers, self._new_rows(), self.now)

    def reap(self, queues: Sequence[str] | None = None, *, worker: str | None = None) -> None:
        """Reap expired leases, or the leases of a dead worker."""
        count = self.store.do(Reap(queues=queues, worker=worker, now=self.now)).count
        self._log("reap", f"{worker or 'expired'} {count}")
        self.checker.check_reap(self._new_rows(), self.now, queues=queues, worker=worker)

    def report_outage(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        """Report leases that may have expired while the worker could not reach the store."""
        answers = self.store.do(Reap(leases=leases, now=self.now)).reported
        pairs = zip(leases, answers, strict=True)
        self._log(worker, "outage " + " ".join(f"#{lease.fence}:{answer}" for lease, answer in pairs))
        self.checker.check_outage(leases, answers, self._new_rows(), self.now)
        return answers

    def cancel(self, job_ids: Sequence[str]) -> None:
        """Cancel jobs."""
        states = self.store.do(Cancel(job_ids=job_ids, now=self.now))
        self._log("cancel", " ".join(f"{job_id}:{state}" for job_id, state in zip(job_ids, states, strict=True)))
        self.checker.check_cancel(job_ids, self._new_rows(), self.now)

    def requeue(self, job_ids: Sequence[str]) -> None:
        """Requeue jobs."""
        self._log("requeue", f"{job_ids} {self.store.do(Requeue(job_ids=job_ids, now=self.now))}")
        self.checker.check_operator_rows(self._new_rows(), self.now)

    def purge(self, job_ids: Sequence[str]) -> None:
        """Purge jobs."""
        self._log("purge", f"{job_ids} {self.store.do(Purge(job_ids=job_ids, now=self.now))}")
        self.checker.check_operator_rows(self._new_rows(), self.now)

    def pause(self, queue: str, length: int) -> None:
        """Pause a queue for a time; 0 resumes it."""
        until = self.now + length
        self.store.do(Configure(queue=queue, settings=QueueSettings(paused_until=until), only=["paused_until"]))
        self.checker.paused_until[queue] = until
        self._log("pause", f"{queue} for {length}")

    def resume(self, queue: str, domain: str, action: ResumeAction) -> None:
        """Resume a domain, halted or not."""
        answer = self.store.do(Resume(queue=queue, domain=domain, action=action, now=self.now))
        self._log("resume", f"{queue} {domain} {action} {answer}")
        self.checker.check_resume((queue, domain), action, self._new_rows(), self.now, answer=answer)

    def trim(self) -> None:
        """Remove old jobs and ledger rows."""
        trimmed = self.store.do(Trim(ended_for=DAY, ledger_for=2 * DAY, now=self.now))
        self._log("trim", f"{trimmed.jobs} jobs, {trimmed.ledger} rows")
        self.checker.check_trim(trimmed.jobs, self.now - DAY)

    # The end of the run ---------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Let one good worker finish all jobs, then check the final state."""
        for queue in QUEUES:
            self.pause(queue, 0)
            self._set_domains(queue, QueueSettings())
        for queue, domain in list(self.checker.domains.halts):
            self.resume(queue, domain, self.rng.pick((*ResumeAction,)))
        # Each round ends at least one job; the first round also ends all expired leases.
        for _ in range(2 * len(self.job_ids) + 3):
            self.now = self.clock.advance(10 * MINUTE)
            reservations = self.reserve(
                "last", QUEUES, limit=bounds.MAX_BATCH_ITEMS, lease_for=MINUTE, isolation=Isolation.ALONE
            )
            if not reservations:
                break
            self.settle("last", [Ack(reservation.lease) for reservation in reservations])
        self.checker.check_final_state(self.store)

    # The trace ------------------------------------------------------------------------------------------------------

    def _log(self, actor: str, event: str) -> None:
        seconds = (self.now - self._start) / SECOND
        self.trace.append(f"{seconds:.6f} {actor} {event}")

    def _new_rows(self) -> list[LedgerRow]:
        """Return the ledger rows that the last call wrote."""
        page = self.store.ledger(self._cursor)
        self._cursor = page.cursor
        if page.items:
            self.trace.append(" ".join(f"> {r.job_id}#{r.fence or '-'} {r.ending} {r.state}" for r in page.items))
        return page.items


def _answer_text(answer: Lease | LeaseError | None) -> str:
    return "ok" if answer is None or isinstance(answer, Lease) else type(answer).__name__
