"""The users of the store and how they fail. Each call of ``act`` is one action that the random source chooses."""

from __future__ import annotations

from typing import Protocol

from holdfast.clock import MILLISECOND, MINUTE, SECOND
from holdfast.model.domain import ResumeAction
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from tests.drivers.simulation.environment import QUEUES, Environment

TYPES = ("send", "build")
DOMAINS = (None, None, None, "d1", "d2")
OFFSETS = range(8)
KEYS = (None, None, None, None, "k1", "k2", "k3")
MAX_JOBS = 40  # then producers only repeat old batches, which keeps a run small


class Actor(Protocol):
    """A user of the store."""

    def act(self, environment: Environment) -> None:
        """Do one action."""
        ...


class Producer:
    """Enqueues new jobs, and repeats batches whose answer was lost."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.unanswered: list[list[JobRecord]] = []

    def act(self, environment: Environment) -> None:
        """Enqueue a new batch, or repeat an old one."""
        rng = environment.rng
        if self.unanswered and (rng.chance(0.5) or len(environment.job_ids) >= MAX_JOBS):
            environment.enqueue(self.unanswered.pop(rng.below(len(self.unanswered))))
        elif len(environment.job_ids) < MAX_JOBS:
            batch = [self._record(environment) for _ in range(rng.pick((1, 1, 2, 3)))]
            if rng.chance(0.1):
                batch.append(batch[0])
            environment.enqueue(batch)
            if rng.chance(0.3):
                self.unanswered.append(batch)

    def _record(self, environment: Environment) -> JobRecord:
        rng = environment.rng
        job_id = f"{self.prefix}{len(environment.job_ids)}"
        environment.job_ids.append(job_id)
        domain = rng.pick(DOMAINS)
        return JobRecord(
            id=job_id,
            type=rng.pick(TYPES),
            queue=rng.pick(QUEUES),
            payload=rng.pick((b"1", b"2")),
            priority=rng.pick((0, 0, 0, 5, 9)),
            run_at=environment.now + rng.below(5 * SECOND) if rng.chance(0.2) else None,
            created_at=environment.now,
            max_attempts=rng.pick((1, 2, 3, 25)),
            max_crashes=rng.pick((2, 3, None)),
            idempotency_key=rng.pick(KEYS),
            domain=domain,
            offset=self._offset(environment, domain),
        )

    def _offset(self, environment: Environment, domain: str | None) -> int | None:
        """Return an offset in any order, sometimes one that the domain has or has had."""
        if domain is None or not environment.has_offsets or environment.rng.chance(0.2):
            return None
        return environment.rng.pick(OFFSETS)


class Worker:
    """Reserves, extends and settles; dies, stalls, loses answers, and settles leases that have expired.

    A worker that holds leases takes no isolated job (L7), unless the worker shares: then it takes any job at any time.
    """

    def __init__(self, name: str, queues: tuple[str, ...], *, shares: bool = False) -> None:
        self.name = name
        self.queues = queues
        self.shares = shares
        self.leases: list[Lease] = []
        self.unanswered: list[list[Settlement]] = []
        self.is_idle = False

    def act(self, environment: Environment) -> None:
        """Do the next action, by chance."""
        chance = environment.rng.random()
        if self.is_idle and chance < 0.5:
            self.is_idle = False  # the queue was empty: poll again only after a while
        elif self.unanswered and chance < 0.3:
            environment.settle(self.name, self.unanswered.pop())
        elif not self.leases or chance < 0.4:
            self._reserve(environment)
        elif chance < 0.5:
            self._extend(environment)
        elif chance < 0.57:
            self._die(environment)
        elif chance < 0.62:
            self._report_outage(environment)
        elif chance < 0.69:
            pass  # a slow worker: its leases may expire before it settles them
        else:
            self._settle(environment)

    def _reserve(self, environment: Environment) -> None:
        rng = environment.rng
        reservations = environment.reserve(
            self.name,
            self.queues,
            limit=rng.pick((1, 2, 3)),
            lease_for=rng.between(MILLISECOND, 6 * SECOND),
            isolation=self._isolation(environment),
            types=rng.pick((None, None, None, list(TYPES[:1]))),
            prefetch=rng.chance(0.4),
        )
        self.is_idle = not reservations
        if rng.chance(0.05):  # the answer is lost: no worker knows these leases, so they must expire
            return
        self.leases += [reservation.lease for reservation in reservations]

    def _isolation(self, environment: Environment) -> Isolation:
        if self.shares:
            return Isolation.SHARE
        return environment.rng.pick((Isolation.STOP, Isolation.SKIP)) if self.leases else Isolation.ALONE

    def _extend(self, environment: Environment) -> None:
        index = environment.rng.below(len(self.leases))
        lease_for = environment.rng.between(MILLISECOND, 6 * SECOND)
        has_started = environment.rng.chance(0.5)
        lease = environment.extend(self.name, self.leases[index], lease_for, has_started=has_started)
        if lease is not None:
            self.leases[index] = lease
        elif environment.rng.chance(0.5):  # otherwise the worker ignores the refusal and settles later
            del self.leases[index]

    def _report_outage(self, environment: Environment) -> None:
        """Keep the leases that have not expired, and those that other workers have now."""
        answers = environment.report_outage(self.name, self.leases)
        environment.lost_leases += [lease for lease, answer in zip(self.leases, answers, strict=True) if answer]
        self.leases = [lease for lease, answer in zip(self.leases, answers, strict=True) if not answer]

    def _die(self, environment: Environment) -> None:
        """A new process takes over the name; the old process may still be running."""
        environment.lost_leases += self.leases
        self.leases = []
        self.unanswered = []
        if environment.rng.chance(0.3):
            environment.reap(worker=self.name)

    def _settle(self, environment: Environment) -> None:
        rng = environment.rng
        count = rng.pick((1, 1, len(self.leases)))
        settled, self.leases = self.leases[:count], self.leases[count:]
        batch = [make_settlement(environment, lease) for lease in settled]
        if rng.chance(0.05):
            batch.append(batch[0])
        environment.settle(self.name, batch)
        if rng.chance(0.2):
            self.unanswered.append(batch)
        environment.lost_leases += settled


class StaleWorker:
    """A process that is believed dead: it extends, settles and reports leases whose jobs other workers may have now."""

    NAME = "stale"

    def act(self, environment: Environment) -> None:
        """Extend, settle or report any lease that a worker has lost."""
        if not environment.lost_leases:
            return
        rng = environment.rng
        lease = rng.pick(environment.lost_leases)
        if rng.chance(0.2):
            environment.extend(self.NAME, lease, MINUTE)
        elif rng.chance(0.2):
            environment.report_outage(self.NAME, [lease, lease])
        else:
            environment.settle(self.NAME, [make_settlement(environment, lease)])


class Operator:
    """Cancels, requeues, purges, pauses, trims and reaps without looking at the state of the jobs."""

    def act(self, environment: Environment) -> None:
        """Make one call."""
        rng = environment.rng
        choice = rng.below(10 if environment.can_resume else 8)
        if choice < 4 and not environment.job_ids:
            return
        if choice == 0:
            environment.cancel(self._some_ids(environment))
        elif choice in (1, 2):
            environment.requeue(self._some_ids(environment))
        elif choice == 3:
            environment.purge(self._some_ids(environment)[:1])
        elif choice == 4:
            environment.pause(rng.pick(QUEUES), rng.pick((0, SECOND, MINUTE)))
        elif choice == 5:
            environment.trim()
        elif choice > 7:
            environment.resume(rng.pick(QUEUES), rng.pick(("d1", "d2")), rng.pick((*ResumeAction,)))
        else:
            environment.reap(rng.pick((None, QUEUES[:1])))

    def _some_ids(self, environment: Environment) -> list[str]:
        return [environment.rng.pick(environment.job_ids) for _ in range(environment.rng.pick((1, 2, 4)))]


def make_settlement(environment: Environment, lease: Lease) -> Settlement:
    """Return one of the four settlements; an ack is the most frequent."""
    rng = environment.rng
    match rng.pick(("ack", "ack", "ack", "retry", "retry", "release", "fail")):
        case "ack":
            return Ack(lease)
        case "retry":
            return Retry(lease, delay=rng.pick((0, rng.below(3 * SECOND))), error="boom")
        case "release":
            return Release(lease, delay=rng.pick((0, 0, SECOND)), budget=rng.pick((MINUTE, 10 * SECOND)))
        case _:
            return Fail(lease, reason="failed by the simulation")


def make_actors(seed: int) -> list[Actor]:
    """Return the actors; an actor that is in the list several times acts more often."""
    workers = [Worker("ada", QUEUES), Worker("bob", QUEUES), Worker("cyd", QUEUES[:1], shares=True)]
    producers = [Producer(f"s{seed}a-"), Producer(f"s{seed}b-")]
    return [*workers, *workers, *workers, *producers, StaleWorker(), Operator()]
