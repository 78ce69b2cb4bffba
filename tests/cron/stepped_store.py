"""Schedulers that a seed interleaves and kills: between any two calls of the store, and before or after each call.

Each scheduler runs in a thread of its own, but only one thread runs at a time. A thread stops before each call of the
store and waits for its turn, so the seed alone decides the order of all calls. ``Killed`` is raised in the thread as if
the process had been killed there: before the call, or after the store has done it and before the answer arrived.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from enum import Enum, auto

from holdfast.driver import Store
from holdfast.drivers.requests import Enqueue

WAIT_SECONDS = 60.0  # for one step: far more than any call takes
VERBS = frozenset({"enqueue", "read", "write", "scan", "inspect", "find", "ledger", "settings"})


class Killed(BaseException):
    """The scheduler was killed here. It is no ``Exception``: nothing may catch it and go on."""


class Fate(Enum):
    """What happens to a scheduler at its next call."""

    LIVE = auto()
    DIE_BEFORE = auto()
    DIE_AFTER = auto()


class SteppedStore(Store):
    """A store whose requests wait for their turn."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.engine)
        self.inner = store
        self.calls = 0
        self.existed = 0  # jobs that an enqueue found in the store
        self.step_of: dict[int, Callable[[], Fate]] = {}  # by thread; a call of another thread does not wait

    def do(self, request):
        if request.verb not in VERBS:
            return super().do(request)
        self.calls += 1
        step = self.step_of.get(threading.get_ident())
        fate = Fate.LIVE if step is None else step()
        if fate is Fate.DIE_BEFORE:
            raise Killed
        answer = super().do(request)
        if isinstance(request, Enqueue):
            self.existed += sum(one.existed for one in answer.answers)
        if fate is Fate.DIE_AFTER:
            raise Killed
        return answer


class Turns:
    """Runs functions in threads, one step at a time, in an order that a seed decides."""

    def __init__(self, random_: random.Random, *, kill_chance: float) -> None:
        self._random = random_
        self._kill_chance = kill_chance
        self._stopped = threading.Semaphore(0)  # a thread waits for its turn, or has ended
        self.kills = 0

    def run(self, ticks: dict[str, Callable[[Callable[[], Fate]], None]]) -> set[str]:
        """Run these functions to their ends, interleaved. Return the names of those that were killed."""
        turns = {name: threading.Semaphore(0) for name in ticks}
        waiting: set[str] = set()
        killed: set[str] = set()
        failures: list[BaseException] = []
        threads = []

        def start(name: str, tick: Callable[[Callable[[], Fate]], None]) -> None:
            def step() -> Fate:
                waiting.add(name)
                self._stopped.release()
                assert turns[name].acquire(timeout=WAIT_SECONDS)
                if self._random.random() >= self._kill_chance:
                    return Fate.LIVE
                return self._random.choice((Fate.DIE_BEFORE, Fate.DIE_AFTER))

            def body() -> None:
                try:
                    tick(step)
                except Killed:
                    killed.add(name)
                except BaseException as error:
                    failures.append(error)
                self._stopped.release()

            thread = threading.Thread(target=body, daemon=True)
            threads.append(thread)
            thread.start()
            assert self._stopped.acquire(timeout=WAIT_SECONDS)  # until its first call, or its end

        for name, tick in ticks.items():
            start(name, tick)
        while waiting and not failures:
            name = self._random.choice(sorted(waiting))
            waiting.discard(name)
            turns[name].release()
            assert self._stopped.acquire(timeout=WAIT_SECONDS)
        if failures:
            raise failures[0]
        for thread in threads:
            thread.join(WAIT_SECONDS)
        self.kills += len(killed)
        return killed
