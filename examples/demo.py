"""See Holdfast work: an app, its workers, real faults, and at the end the proof. `python3 run demo`.

Thousands of jobs go into a SQLite file; `holdfast work` drains it while some jobs fail, one takes its process down, one
worker sleeps through its leases and another one is killed. Then everything that was promised is checked against the
ledger.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

try:
    from _demo_screen import Screen
except ImportError as missing:
    sys.exit(f"The demo draws with rich, and {missing.name} is not installed; `python3 run demo` brings it along.")

from _demo_certificate import LOST, Claim, Evidence, certify
from _demo_crew import Crew, Worker, WorkerLost
from _demo_jobs import CURRENCIES, UNKNOWN_CURRENCY, app, one_job, requests, with_keys
from _demo_watch import Watch

from holdfast import Enqueued, State
from holdfast.clock import SECOND
from holdfast.drivers.contract import Change, JobFilter

DEADLINE = 120.0  # seconds after which the demo gives up
LOOK_EVERY = 0.05  # seconds between two looks at the workers and the ledger
BATCH = 1_000  # jobs in one transaction
LEASE_FOR = 2 * SECOND  # short, so that lost workers are noticed while you watch
PROCESSES = 2  # of each worker
STOP_AT, KILL_AT = 0.05, 0.2  # of the work done when one worker is stopped, and when another one is killed
PROGRESS_WITHIN = 0.3  # seconds in which others end a job, or the stopped worker is in their way; well below a lease


class GaveUp(Exception):
    """Something did not happen in time."""


def main() -> int:
    options = parsed()
    for number in (signal.SIGTERM, signal.SIGHUP):  # also when its terminal is closed, the workers are ended in order
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        with place(options.keep) as (app.url, folder), contextlib.closing(app):
            lease = f"{LEASE_FOR // SECOND}s"
            with Crew(app.url, folder, workers=options.workers, processes=PROCESSES, lease=lease) as crew:
                return Demo(options, crew).run()
    except (GaveUp, WorkerLost) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; its workers are gone", file=sys.stderr)
        return 128 + signal.SIGINT


class Demo:
    """The story, step by step, and what is learnt on the way."""

    def __init__(self, options: argparse.Namespace, crew: Crew) -> None:
        self.options = options
        self.crew = crew
        self.screen = Screen(quiet=options.json)
        self.began = time.monotonic()
        self.screen.title("Holdfast", "a lease-based job queue, here on one SQLite file (synchronous=FULL)")
        self.store = app.driver
        self.watch = Watch(self.store, crew)
        self.accepted: list[tuple[str, str | None]] = []
        self.resent: list[tuple[str, Enqueued]] = []
        self.facts: dict[str, object] = {"jobs": options.jobs, "workers": options.workers, "seed": options.seed}

    def run(self) -> int:
        """All of it; gives the exit code."""
        self.enqueue()
        self.work()
        self.outcome()
        self.dead_letters()
        self.crew.end()
        self.watch.look()
        claims = self.prove()
        self.what_next()
        holds = all(claim.holds for claim in claims)
        if self.options.json:
            print(json.dumps(self.facts | {"ok": holds, "seconds": self.seconds()}, indent=2))
        return 0 if holds else 1

    def enqueue(self) -> None:
        """Jobs go in by the batch; those with a key are sent a second time, as a producer does after a lost answer."""
        self.screen.section("Enqueue", f"{BATCH:,} jobs in a transaction")
        self.store.write([Change(kind="shop", key=CURRENCIES, value=b"EUR USD")])
        asked = requests(self.options.jobs, self.options.seed)
        began = time.monotonic()
        answers = [
            answer
            for start in range(0, len(asked), BATCH)
            for answer in app.client.enqueue(asked[start : start + BATCH])
        ]
        seconds = time.monotonic() - began
        self.accepted = [(answer.id, request.domain) for answer, request in zip(answers, asked, strict=True)]
        self.watch.accepted = len(self.accepted)
        self.screen.line(f"{len(asked):,} jobs stored in {seconds:.1f} s: {len(asked) / seconds:,.0f} per second")

        again = with_keys(asked)
        second = app.client.enqueue([asked[place] for place in again])
        self.resent = [(answers[place].id, answer) for place, answer in zip(again, second, strict=True)]
        made = sum(not answer.existed for answer in second)
        self.screen.line(f"{len(again):,} of them sent again with their idempotency keys: {made} new jobs")
        self.facts |= {"enqueued_per_second": round(len(asked) / seconds), "resent": len(again), "resent_made": made}

    def work(self) -> None:
        """The workers drain the queue while two of them suffer."""
        crew = f"{self.options.workers} x holdfast work --processes {PROCESSES} --lease {LEASE_FOR // SECOND}s"
        self.screen.section("Work", f"{crew}, jobs of {one_job(self.options.jobs) * 1000:.1f} ms")
        with self.screen.work():
            self.screen.show(self.watch.last_counts())
            began = time.monotonic()
            self.crew.start()
            sleeper, victim, *_ = self.crew.workers
            slept = self.stop_one(sleeper)
            killed = self.kill_one(victim)
            refused = self.wake(sleeper, slept)
            self.until(self.drained, "all jobs to end")
            seconds = time.monotonic() - began
            again = self.watch.run_again(sleeper.name) + self.watch.run_again(victim.name)
            self.screen.event(f"all jobs ended; {again:,} ran again, because their leases had expired")
            self.screen.show(self.watch.last_counts(), last=True)
        self.facts |= {
            "worked_per_second": round(len(self.accepted) / seconds),
            "killed_holding": killed,
            "stale_refused": refused,
            "run_again": again,
            "endings": dict(self.watch.endings),
        }

    def stop_one(self, worker: Worker) -> int:
        """Freeze a worker that holds leases: it will not notice that they expire. Gives how many."""
        self.until(lambda: len(self.watch.ended) >= STOP_AT * len(self.accepted), "the first jobs to end")
        while (held := self.frozen(worker)) < self.enough() or not self.others_go_on(worker):
            worker.wake()
            self.pause()
        self.screen.event(f"{worker.name} stopped (SIGSTOP) with {held:,} leases")
        return held

    def kill_one(self, worker: Worker) -> int:
        """Kill a worker that holds leases: nobody will settle them. Gives how many."""
        self.until(lambda: len(self.watch.ended) >= KILL_AT * len(self.accepted), "more jobs to end")
        while (held := self.frozen(worker)) < self.enough():
            worker.wake()
            self.pause()
        worker.kill()
        self.screen.event(f"{worker.name} killed (SIGKILL) with {held:,} leases")
        return held

    def enough(self) -> int:
        """Leases that a worker has at least when something happens to it: as many as it usually has."""
        return max(PROCESSES, min(50, self.options.jobs // 200))

    def frozen(self, worker: Worker) -> int:
        """Stop a worker where it stands; gives how many leases it has there."""
        worker.freeze()
        return self.watch.held_by(worker.name)

    def others_go_on(self, worker: Worker) -> bool:
        """Whether work goes on without it. It may have been stopped in a transaction, and then everybody waits."""
        before = self.watch.written.total() - self.watch.written[worker.name]
        patience = time.monotonic() + PROGRESS_WITHIN
        while time.monotonic() < patience:
            self.pause()
            if self.watch.written.total() - self.watch.written[worker.name] > before:
                return True
        return False

    def wake(self, worker: Worker, held: int) -> int:
        """When all its leases have expired, let the frozen worker settle what it believes it still holds."""
        self.until(lambda: len(self.watch.expired[worker.name]) >= held, "the stopped worker's leases to expire")
        worker.wake()
        self.until(lambda: worker.logged("settle.refused") >= held, "the woken worker to settle")
        refused = worker.logged("settle.refused")
        self.screen.event(f"{worker.name} woken (SIGCONT), settles what it held: {refused:,} refused")
        return refused

    def outcome(self) -> None:
        """What became of each kind."""
        self.screen.section("Outcome", "wait: median from being due to being reserved")
        self.screen.kinds(self.watch.kinds())

    def dead_letters(self) -> None:
        """Why jobs died; and an operator removes a cause, and sends its dead letters round again."""
        letters = self.watch.letters()
        self.screen.section("Dead letters", "kept until somebody requeues or purges them")
        self.screen.letters(letters)
        curable = [job.id for job in self.watch.jobs(JobFilter(states=(State.DEAD,), reason=UNKNOWN_CURRENCY))]
        self.store.write([Change(kind="shop", key=CURRENCIES, value=b"EUR USD XTS")])
        requeued = sum(self.store.requeue(curable))
        self.until(lambda: self.watch.endings["requeued"] == requeued and self.drained(), "the requeued jobs to end")
        states = Counter(job.state for job in map(self.store.get, curable) if job is not None)
        self.screen.line(f"XTS made known, its {requeued:,} letters requeued: {states[State.DONE]:,} done")
        counts = self.watch.last_counts()
        self.facts |= {
            "dead_letters": {one.reason: one.jobs for one in letters},
            "requeued": requeued,
            "done": counts.done,
            "dead": counts.dead,
        }

    def prove(self) -> list[Claim]:
        """Check every claim against the whole ledger."""
        watch, told = self.watch, self.crew.told()
        self.screen.section("Proof", f"{len(watch.ledger):,} ledger rows, read by one cursor while the workers wrote")
        claims = certify(
            Evidence(accepted=self.accepted, resent=self.resent, ledger=watch.ledger, lease_for=LEASE_FOR, told=told)
        )
        self.screen.certificate(claims)
        self.facts["lost"] = sum(tally[LOST] for tally in told.values())
        self.facts["certificate"] = [{"claim": claim.text, "violations": claim.violations} for claim in claims]
        return claims

    def what_next(self) -> None:
        """Where to go from here."""
        kept = f", database kept in {self.options.keep}" if self.options.keep else ""
        self.screen.section("Next", f"{self.seconds():.1f} s in all{kept}")
        self.screen.line("README.md              what Holdfast is, in a page")
        self.screen.line("docs/worker.md         handlers, and how they end; the demo's are in examples/")
        self.screen.line("python3 run test       the same promises, examined")

    def drained(self) -> bool:
        """Whether every accepted job has ended."""
        return len(self.watch.ended) == len(self.accepted)

    def until(self, happened: Callable[[], bool], what: str) -> None:
        """Look, draw, and wait until it happened. Raises ``GaveUp`` at the deadline."""
        self.look()
        while not happened():
            self.pause(what)

    def pause(self, what: str = "a moment at which a worker can be stopped") -> None:
        """Draw, wait a little, look again. Raises ``GaveUp`` at the deadline."""
        self.screen.show(self.watch.counts())
        if self.seconds() > DEADLINE:
            ended = f"{len(self.watch.ended):,} of {len(self.accepted):,} jobs have ended"
            raise GaveUp(f"waited for {what}, but the {DEADLINE:.0f} seconds are over; {ended}")
        time.sleep(LOOK_EVERY * random.uniform(0.5, 1.5))
        self.look()

    def look(self) -> None:
        """Read on in the ledger, and tell what is worth telling."""
        known = len(self.watch.poison)
        self.watch.look()
        for row in self.watch.poison[known:]:
            self.screen.event(f"{row.type} took its process down {row.attempt} times: poison, a dead letter")

    def seconds(self) -> float:
        """Since the beginning."""
        return round(time.monotonic() - self.began, 2)


@contextlib.contextmanager
def place(keep: Path | None) -> Iterator[tuple[str, Path]]:
    """The URL of a database, and a folder; both are gone afterwards, but a database that shall be kept."""
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        path = Path(folder, "demo.db") if keep is None else keep.absolute()
        yield f"sqlite:///{quote(str(path))}", Path(folder)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 run demo", description=(__doc__ or "").split("`")[0])
    parser.add_argument("--jobs", type=int, default=10_000, metavar="N", help="jobs to enqueue (100 to 100000)")
    parser.add_argument("--workers", type=int, default=3, metavar="N", help="workers, each of two processes (3 to 16)")
    parser.add_argument("--seed", type=int, default=1, help="decides which jobs there are")
    parser.add_argument("--json", action="store_true", help="print only a summary, as JSON")
    parser.add_argument("--keep", type=Path, metavar="PATH", help="keep the database in this new file")
    options = parser.parse_args()
    if not 100 <= options.jobs <= 100_000:
        parser.error(f"--jobs: wanted 100 to 100000, got {options.jobs}")
    if not 3 <= options.workers <= 16:
        parser.error(f"--workers: wanted 3 to 16 (one is stopped, one is killed), got {options.workers}")
    if options.keep is not None and (options.keep.exists() or not options.keep.absolute().parent.is_dir()):
        parser.error(f"--keep: wanted a new file in a folder that exists, got {options.keep}")
    return options


if __name__ == "__main__":
    sys.exit(main())
