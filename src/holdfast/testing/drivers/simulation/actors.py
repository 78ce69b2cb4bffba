"""Those who use the store, and how they fail: each ``act`` is one thing that one of them does, as the dice say."""

from __future__ import annotations

from typing import Protocol

from holdfast.clock import MILLISECOND, MINUTE, SECOND
from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.testing.drivers.simulation.world import QUEUES, World

TYPES = ("send", "build")
DOMAINS = (None, None, None, "d1", "d2")
KEYS = (None, None, "k1", "k2", "k3")
MOST_JOBS = 40  # then producers only repeat themselves, so that a run stays small whatever the dice say


class Actor(Protocol):
    """Anybody with a turn."""

    def act(self, world: World) -> None:
        """Do one thing."""
        ...


class Producer:
    """Sends new jobs, and whole batches again whose answer was lost."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.unanswered: list[list[JobRecord]] = []

    def act(self, world: World) -> None:
        """Enqueue, or repeat."""
        dice = world.dice
        if self.unanswered and (dice.chance(0.5) or len(world.ids) >= MOST_JOBS):
            world.enqueue(self.unanswered.pop(dice.below(len(self.unanswered))))
        elif len(world.ids) < MOST_JOBS:
            batch = [self._record(world) for _ in range(dice.pick((1, 1, 2, 3)))]
            if dice.chance(0.1):
                batch.append(batch[0])
            world.enqueue(batch)
            if dice.chance(0.3):
                self.unanswered.append(batch)

    def _record(self, world: World) -> JobRecord:
        dice = world.dice
        job_id = f"{self.prefix}{len(world.ids)}"
        world.ids.append(job_id)
        return JobRecord(
            id=job_id,
            type=dice.pick(TYPES),
            queue=dice.pick(QUEUES),
            payload=dice.pick((b"1", b"2")),
            priority=dice.pick((0, 0, 0, 5, 9)),
            run_at=world.now + dice.below(5 * SECOND) if dice.chance(0.2) else None,
            created_at=world.now,
            max_attempts=dice.pick((1, 2, 3, 25)),
            max_crashes=dice.pick((2, 3, None)),
            idempotency_key=dice.pick(KEYS),
            domain=dice.pick(DOMAINS),
        )


class Worker:
    """Reserves, beats, settles; dies, stalls, hears no answer, and comes back with leases that are long over."""

    def __init__(self, name: str, queues: tuple[str, ...]) -> None:
        self.name = name
        self.queues = queues
        self.leases: list[Lease] = []
        self.unanswered: list[list[Settlement]] = []
        self.idle = False

    def act(self, world: World) -> None:
        """The next thing, by chance."""
        dice = world.dice
        chance = dice.random()
        if self.idle and chance < 0.5:
            self.idle = False  # nothing was there: it looks again only after a while
        elif self.unanswered and chance < 0.3:
            world.settle(self.name, self.unanswered.pop())
        elif not self.leases or chance < 0.4:
            self._reserve(world)
        elif chance < 0.5:
            self._beat(world)
        elif chance < 0.57:
            self._die(world)
        elif chance < 0.67:
            pass  # slow: it holds its leases while time goes by, and settles late
        else:
            self._settle(world)

    def _reserve(self, world: World) -> None:
        dice = world.dice
        taken = world.reserve(
            self.name,
            self.queues,
            limit=dice.pick((1, 2, 3)),
            lease_for=dice.between(MILLISECOND, 6 * SECOND),
            types=dice.pick((None, None, None, list(TYPES[:1]))),
        )
        self.idle = not taken
        if dice.chance(0.05):  # the answer never arrives: nobody knows these leases, they must expire
            return
        self.leases += [reservation.lease for reservation in taken]

    def _beat(self, world: World) -> None:
        at = world.dice.below(len(self.leases))
        beaten = world.extend(self.name, self.leases[at], world.dice.between(MILLISECOND, 6 * SECOND))
        if beaten is not None:
            self.leases[at] = beaten
        elif world.dice.chance(0.5):  # the rest do not believe it, and settle all the same
            del self.leases[at]

    def _die(self, world: World) -> None:
        """A new process takes the name; the old one may only have looked dead."""
        world.lost_leases += self.leases
        self.leases = []
        self.unanswered = []
        if world.dice.chance(0.3):
            world.reap(worker=self.name)

    def _settle(self, world: World) -> None:
        dice = world.dice
        count = dice.pick((1, 1, len(self.leases)))
        ending, self.leases = self.leases[:count], self.leases[count:]
        batch = [settlement(world, lease) for lease in ending]
        if dice.chance(0.05):
            batch.append(batch[0])
        world.settle(self.name, batch)
        if dice.chance(0.2):
            self.unanswered.append(batch)
        world.lost_leases += ending


class Ghost:
    """Processes that were given up: they settle and extend with leases that others may have got since."""

    def act(self, world: World) -> None:
        """Any verb with any lease that somebody once had."""
        if not world.lost_leases:
            return
        dice = world.dice
        lease = dice.pick(world.lost_leases)
        if dice.chance(0.2):
            world.extend("ghost", lease, MINUTE)
        else:
            world.settle("ghost", [settlement(world, lease)])


class Operator:
    """Acts on jobs and queues without asking what they are doing."""

    def act(self, world: World) -> None:
        """One tool."""
        dice = world.dice
        tool = dice.below(8)
        if tool < 4 and not world.ids:
            return
        if tool == 0:
            world.cancel(self._some(world))
        elif tool in (1, 2):
            world.requeue(self._some(world))
        elif tool == 3:
            world.purge(self._some(world)[:1])
        elif tool == 4:
            world.pause(dice.pick(QUEUES), dice.pick((0, SECOND, MINUTE)))
        elif tool == 5:
            world.trim()
        else:
            world.reap(dice.pick((None, QUEUES[:1])))

    def _some(self, world: World) -> list[str]:
        return [world.dice.pick(world.ids) for _ in range(world.dice.pick((1, 2, 4)))]


def settlement(world: World, lease: Lease) -> Settlement:
    """One of the four, an ack more often than the others."""
    dice = world.dice
    match dice.pick(("ack", "ack", "ack", "retry", "retry", "release", "fail")):
        case "ack":
            return Ack(lease)
        case "retry":
            return Retry(lease, delay=dice.pick((0, dice.below(3 * SECOND))), error="boom")
        case "release":
            return Release(lease, delay=dice.pick((0, 0, SECOND)), budget=dice.pick((MINUTE, 10 * SECOND)))
        case _:
            return Fail(lease, reason="told to")


def cast(seed: int) -> list[Actor]:
    """Everybody, as often as they get a turn."""
    workers = [Worker("ada", QUEUES), Worker("bob", QUEUES), Worker("cyd", QUEUES[:1])]
    producers = [Producer(f"s{seed}a-"), Producer(f"s{seed}b-")]
    return [*workers, *workers, *workers, *producers, Ghost(), Operator()]
