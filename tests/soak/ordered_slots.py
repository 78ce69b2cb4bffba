"""Ordered domains on slots of Spark, whose Python workers are killed and stopped all the time.

The submissions and the checks are those of ``ordered``; Spark starts a killed slot again.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

from holdfast import Context, Holdfast
from holdfast.clock import SECOND
from holdfast.driver import Gaps, QueueSettings, Store
from holdfast.drivers.requests import Configure, Scan
from holdfast.retry import Fixed
from holdfast.spark import run_queue, session
from holdfast.spark.execution.run_spec import SLOT_STATUS_KIND, SlotStatus
from holdfast.testing.servers.postgres import PostgresServer
from holdfast.worker.options import WorkerOptions
from tests.processes import is_descendant
from tests.soak.ledger_checks import read_ledger
from tests.soak.ordered import STOP_LEASES, make_submissions, split, submit
from tests.soak.ordered_checks import EFFECTS, check_effects, check_idle, check_order, effect_line, read_effects
from tests.soak.outages import Outages
from tests.soak.worker_group import wait_until
from tests.soak.worker_program import ORDERED, QUEUE

SLOTS = 6
LEASE_SECONDS = 4.0
FAILING_SHARE = 0.1  # of the attempts
FAULT_INTERVAL_SECONDS = 0.1
PAGE_ENTRIES = 500  # of the statuses of slots
MAX_STOPPED = 3  # slots at a time, so that the others can make progress


def run_ordered_slots(folder: Path, *, domains: int, offsets: int, seconds: float) -> str:
    """Submit the offsets while slots are killed and stopped for so many seconds; then check everything."""
    generator = random.Random(domains * offsets)
    submissions = make_submissions(generator, domains=domains, offsets=offsets)
    rounds = max(1, int(seconds / FAULT_INTERVAL_SECONDS))
    spark = session(f"local[{SLOTS},100000]", spark_driver_memory="1g")
    try:
        with PostgresServer() as server:
            app = Holdfast(server.url)
            _add_handler(app, folder / EFFECTS)
            app.driver.do(Configure(queue=QUEUE, settings=QueueSettings(gaps=Gaps.WAIT)))
            faults = _Faults(app.driver, generator)

            def make_faults() -> None:
                submit(app.driver, [one for one in submissions if one.offset == 0])
                wait_until(faults.any_ready, timeout=300, otherwise=lambda: "no slot has started")
                for batch in split(submissions, rounds):
                    submit(app.driver, batch)
                    faults.make_one()
                    time.sleep(FAULT_INTERVAL_SECONDS)
                faults.end()

            options = WorkerOptions(lease=timedelta(seconds=LEASE_SECONDS), grace=timedelta(seconds=0.5))
            with ThreadPoolExecutor(1) as threads, Outages(app.driver, faults.any_ready) as outages:
                ended = threads.submit(make_faults)
                run_slots = partial(run_queue, app, spark=spark, slots=SLOTS, options=options, progress=False)
                while not ended.done():
                    run_slots(stop_after=timedelta(seconds=seconds))  # also while the queue is drained for a moment
                ended.result()
                run_slots()
            rows = read_ledger(app.driver)
            app.close()
    finally:
        spark.stop()
    check_order(rows, dict.fromkeys((f"d{number}" for number in range(domains)), offsets))
    refused = check_effects(read_effects(folder / EFFECTS), rows)
    idle_text = check_idle(rows, outages.intervals, most=int(2 * LEASE_SECONDS * SECOND))
    return (
        f"{domains} domains x {offsets} offsets on {SLOTS} slots and PostgreSQL, {faults.text}: order exact, one lease "
        f"at a time, {idle_text} ({outages.text}); {len(rows):,} leases, {refused} stale effects fenced"
    )


def _add_handler(app: Holdfast, effects: Path) -> None:
    @app.handler(ORDERED, queue=QUEUE, retry=Fixed(timedelta(milliseconds=20)))
    def note_effect(payload: list[object], ctx: Context) -> None:
        """Write the effect of one offset; one attempt of ten fails. Sent to executors by value."""

        def note(event: str) -> None:
            with effects.open("a") as file:
                file.write(effect_line(event, str(payload[0]), int(str(payload[1])), ctx.fence))

        note("began")
        if random.random() < FAILING_SHARE:
            raise ValueError("by chance")
        note("ended")


class _Faults:
    """Kills or stops the Python worker of a slot that has reserved, at every call."""

    def __init__(self, store: Store, generator: random.Random) -> None:
        self._store = store
        self._generator = generator
        self._counts: Counter[str] = Counter()
        self._stopped: dict[int, float] = {}  # processes, and until when

    def any_ready(self) -> bool:
        """Whether a slot has reported that it runs, and its process is neither dead nor stopped."""
        running = [_process_of(each) for each in self._statuses() if each.alive]
        return any(pid not in self._stopped and is_descendant(pid, os.getpid()) for pid in running)

    def make_one(self) -> None:
        """Kill or stop one of the slots, and continue those that were stopped for long enough."""
        self._continue(time.monotonic())
        victims = [pid for pid in self._victims() if pid not in self._stopped]
        if not victims:
            return
        pid = self._generator.choice(victims)
        if self._generator.random() < 0.5 and len(self._stopped) < MAX_STOPPED:
            if _signal(pid, signal.SIGSTOP):
                self._stopped[pid] = time.monotonic() + LEASE_SECONDS * self._generator.uniform(*STOP_LEASES)
                self._counts["SIGSTOPs"] += 1
        elif _signal(pid, signal.SIGKILL):
            self._counts["SIGKILLs"] += 1

    def end(self) -> None:
        """Continue every stopped process."""
        self._continue(float("inf"))

    @property
    def text(self) -> str:
        """The faults so far."""
        return ", ".join(f"{count:,} {name}" for name, count in sorted(self._counts.items())) or "no faults"

    def _continue(self, now: float) -> None:
        for pid in [pid for pid, until in self._stopped.items() if until <= now]:
            del self._stopped[pid]
            _signal(pid, signal.SIGCONT)

    def _victims(self) -> list[int]:
        return [_process_of(each) for each in self._statuses() if each.alive and (each.held or each.settled)]

    def _statuses(self) -> list[SlotStatus]:
        """Return what every slot has reported last, also those that were killed."""
        statuses, after = [], ""
        while entries := self._store.do(Scan(kind=SLOT_STATUS_KIND, after=after, limit=PAGE_ENTRIES)):
            statuses += [SlotStatus.of(entry) for entry in entries]
            after = entries[-1].key
        return statuses


def _process_of(status: SlotStatus) -> int:
    return int(status.executor.rpartition(":")[2])


def _signal(pid: int, number: signal.Signals) -> bool:
    """Send a signal to a process of this soak. The number of one that has ended may belong to another program."""
    if not is_descendant(pid, os.getpid()):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
