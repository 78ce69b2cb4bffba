"""See Holdfast work: real processes, a real file, real faults, and at the end the proof. `python3 run demo`.

Thousands of jobs go into a SQLite file; worker processes drain it while one of them is killed and another one sleeps
through its leases. Then everything that was promised is checked against the ledger.
"""

from __future__ import annotations

import argparse
import contextlib
import json
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

from _demo_certificate import Claim, Evidence, certify
from _demo_crew import Crew, Worker, WorkerLost
from _demo_jobs import LEASE_FOR, ONE_JOB, UNKNOWN_CURRENCY, requests, with_keys
from _demo_watch import Watch

from holdfast import Client, Enqueued, JobRecord, State, connect
from holdfast.clock import SECOND
from holdfast.drivers.contract import Change, JobFilter, Store

DEADLINE = 60.0  # seconds after which the demo gives up
LOOK_EVERY = 0.05  # seconds between two looks at the workers and the ledger
BATCH = 1_000  # jobs in one transaction
STOP_AT, KILL_AT = 0.05, 0.2  # of the work done when one worker is stopped, and when another one is killed


class GaveUp(Exception):
    """Something did not happen in time."""


def main() -> int:
    options = parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with place(options.keep) as url, contextlib.closing(connect(url)) as store:
            batch = max(5, min(100, options.jobs // (options.workers * 20)))
            with Crew(url, workers=options.workers, batch=batch) as crew:
                return Demo(options, store, crew).run()
    except (GaveUp, WorkerLost) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; its workers are gone", file=sys.stderr)
        return 128 + signal.SIGINT


class Demo:
    """The story, step by step, and what is learnt on the way."""

    def __init__(self, options: argparse.Namespace, store: Store, crew: Crew) -> None:
        self.options = options
        self.store = store
        self.crew = crew
        self.screen = Screen(quiet=options.json)
        self.watch = Watch(store, crew)
        self.began = time.monotonic()
        self.accepted: list[tuple[str, str | None]] = []
        self.resent: list[tuple[str, Enqueued]] = []
        self.facts: dict[str, object] = {"jobs": options.jobs, "workers": options.workers, "seed": options.seed}

    def run(self) -> int:
        """All of it; gives the exit code."""
        self.screen.title("Holdfast", "a lease-based job queue, here on one SQLite file (synchronous=FULL)")
        self.enqueue()
        self.work()
        self.outcome()
        self.requeue()
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
        self.store.write([Change(kind="shop", key="currencies", value=b"EUR USD")])
        asked = requests(self.options.jobs, self.options.seed)
        self.screen.section("Enqueue", f"{BATCH:,} jobs in a transaction")
        client = Client(self.store)
        began = time.monotonic()
        answers = [
            answer for start in range(0, len(asked), BATCH) for answer in client.enqueue(asked[start : start + BATCH])
        ]
        seconds = time.monotonic() - began
        self.accepted = [(answer.id, request.domain) for answer, request in zip(answers, asked, strict=True)]
        self.watch.accepted = len(self.accepted)
        self.screen.line(f"{len(asked):,} jobs stored in {seconds:.1f} s: {len(asked) / seconds:,.0f} per second")

        again = with_keys(asked)
        second = client.enqueue([asked[place] for place in again])
        self.resent = [(answers[place].id, answer) for place, answer in zip(again, second, strict=True)]
        made = sum(not answer.existed for answer in second)
        self.screen.line(f"{len(again):,} of them sent again with their idempotency keys: {made} new jobs")
        self.facts |= {"enqueued_per_second": round(len(asked) / seconds), "resent": len(again), "resent_made": made}

    def work(self) -> None:
        """The workers drain the queue while two of them suffer."""
        lengths = f"jobs of {ONE_JOB * 1000:.1f} ms, leases of {LEASE_FOR / SECOND} s"
        self.screen.section("Work", f"{self.options.workers} processes, {lengths}, faults made on purpose")
        with self.screen.work():
            self.crew.start()
            sleeper, victim, *_ = self.crew.workers
            slept = self.stop_one(sleeper)
            killed = self.kill_one(victim)
            self.wake(sleeper, slept)
            self.until(self.drained, "all jobs to end")
            again = self.watch.run_again(sleeper.name) + self.watch.run_again(victim.name)
            self.screen.event(f"all jobs ended; {again} were run again, because their leases had expired")
            self.screen.show(self.watch.last_counts(), last=True)
        self.facts |= {"killed_holding": killed, "run_again": again, "endings": self.watch.endings}

    def stop_one(self, worker: Worker) -> int:
        """Freeze a worker that holds leases: it will not notice that they expire."""
        self.until(lambda: len(self.watch.ended) >= STOP_AT * len(self.accepted), "the first jobs to end")
        held = self.held_by(worker)
        worker.freeze()
        self.screen.event(f"{worker.name} stopped (SIGSTOP), holding {held} leases")
        return held

    def kill_one(self, worker: Worker) -> int:
        """Kill a worker that holds leases: nobody will settle them."""
        self.until(lambda: len(self.watch.ended) >= KILL_AT * len(self.accepted), "more jobs to end")
        held = self.held_by(worker)
        worker.kill()
        self.screen.event(f"{worker.name} killed (SIGKILL), holding {held} leases")
        return held

    def wake(self, worker: Worker, held: int) -> None:
        """When others have done its jobs, let the frozen worker settle what it believes it still holds."""
        self.until(lambda: self.watch.run_again(worker.name) >= held, "others to run the stopped worker's jobs")
        before = len(self.watch.refused)
        worker.wake()
        self.until(lambda: len(self.watch.refused) >= before + held, "the woken worker to settle")
        errors = [error for _, _, error in self.watch.refused[before:]]
        name, _, text = errors[0].partition(": ")
        self.screen.event(
            f"{worker.name} woken (SIGCONT), settles what it held: {len(errors)} refused", f"{name}: {text}"
        )
        self.facts |= {"stale_refused": len(errors), "stale_errors": Counter(error.split(":")[0] for error in errors)}

    def outcome(self) -> None:
        """What became of each kind, and why jobs died."""
        self.screen.section("Outcome", "wait: median from being due to being reserved")
        self.screen.kinds(self.watch.kinds())
        letters = self.dead_letters()
        reasons = Counter(job.dead_reason for job in letters)
        listed = ", ".join(f"{number:,} {reason!r}" for reason, number in reasons.most_common())
        self.screen.line(f"dead letters: {listed}")
        self.facts |= {"dead_letters": reasons}

    def requeue(self) -> None:
        """An operator removes a cause, and sends its dead letters round again."""
        letters = [job.id for job in self.dead_letters(UNKNOWN_CURRENCY)]
        self.store.write([Change(kind="shop", key="currencies", value=b"EUR USD XTS")])
        requeued = sum(self.store.requeue(letters))
        self.until(lambda: self.watch.endings["requeued"] == requeued and self.drained(), "the requeued jobs to end")
        states = Counter(job.state for job in map(self.store.get, letters) if job is not None)
        self.screen.line(f"XTS made known, its {requeued:,} dead letters requeued: {states[State.DONE]:,} done")
        counts = self.watch.last_counts()
        self.facts |= {"requeued": requeued, "done": counts.done, "dead": counts.dead}

    def prove(self) -> list[Claim]:
        """Check every claim against the whole ledger."""
        watch = self.watch
        self.screen.section("Proof", f"{len(watch.ledger):,} ledger rows, read by one cursor while the workers wrote")
        claims = certify(
            Evidence(
                accepted=self.accepted,
                resent=self.resent,
                ledger=watch.ledger,
                lease_for=LEASE_FOR,
                told=watch.told,
                refused=[(job_id, fence) for job_id, fence, _ in watch.refused],
            )
        )
        self.screen.certificate(claims)
        self.facts["certificate"] = [{"claim": claim.text, "violations": claim.violations} for claim in claims]
        return claims

    def what_next(self) -> None:
        """Where to go from here."""
        kept = f", database kept in {self.options.keep}" if self.options.keep else ""
        self.screen.section("Next", f"{self.seconds():.1f} s in all{kept}")
        self.screen.line("README.md              what Holdfast is, in a page")
        self.screen.line("docs/start.md          your first job; more in examples/")
        self.screen.line("python3 run test       the same promises, examined")

    def dead_letters(self, reason: str | None = None) -> list[JobRecord]:
        """All of them, page by page."""
        where = JobFilter(states=(State.DEAD,), reason=reason)
        page = self.store.find(where)
        letters = page.items
        while page.cursor is not None:
            page = self.store.find(where, after=page.cursor)
            letters += page.items
        return letters

    def held_by(self, worker: Worker) -> int:
        """Have a worker pause with leases in its hands, and outside any transaction; gives how many."""
        worker.hold()
        self.until(lambda: self.watch.holding[worker.name] > 0, f"{worker.name} to hold leases")
        return self.watch.holding[worker.name]

    def drained(self) -> bool:
        """Whether every accepted job has ended."""
        return len(self.watch.ended) == len(self.accepted)

    def until(self, happened: Callable[[], bool], what: str) -> None:
        """Look, draw, and wait until it happened. Raises ``GaveUp`` at the deadline."""
        while True:
            self.watch.look()
            if happened():
                return
            self.screen.show(self.watch.counts())
            if self.seconds() > DEADLINE:
                ended = f"{len(self.watch.ended):,} of {len(self.accepted):,} jobs have ended"
                raise GaveUp(f"waited for {what}, but the {DEADLINE:.0f} seconds are over; {ended}")
            time.sleep(LOOK_EVERY)

    def seconds(self) -> float:
        """Since the beginning."""
        return round(time.monotonic() - self.began, 2)


@contextlib.contextmanager
def place(keep: Path | None) -> Iterator[str]:
    """The URL of a database that is gone afterwards, unless it shall be kept."""
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        path = Path(folder, "demo.db") if keep is None else keep.absolute()
        yield f"sqlite:///{quote(str(path))}"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 run demo", description=(__doc__ or "").split("`")[0])
    parser.add_argument("--jobs", type=int, default=20_000, metavar="N", help="jobs to enqueue (100 to 100000)")
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="worker processes (3 to 64)")
    parser.add_argument("--seed", type=int, default=1, help="decides which jobs there are")
    parser.add_argument("--json", action="store_true", help="print only a summary, as JSON")
    parser.add_argument("--keep", type=Path, metavar="PATH", help="keep the database in this new file")
    options = parser.parse_args()
    if not 100 <= options.jobs <= 100_000:
        parser.error(f"--jobs: wanted 100 to 100000, got {options.jobs}")
    if not 3 <= options.workers <= 64:
        parser.error(f"--workers: wanted 3 to 64 (one is stopped, one is killed), got {options.workers}")
    if options.keep is not None and (options.keep.exists() or not options.keep.absolute().parent.is_dir()):
        parser.error(f"--keep: wanted a new file in a folder that exists, got {options.keep}")
    return options


if __name__ == "__main__":
    sys.exit(main())
