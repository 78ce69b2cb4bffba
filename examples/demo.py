"""See Holdfast work on Spark: `python3 run demo`.

A DataFrame of orders is written as jobs, and local Spark runs them. Some orders fail at first, some can never succeed,
a few kill the process that handles them; and half way the demo kills one of Spark's Python workers. At the end
everything that happened is a history in Parquet, and every law is checked against it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

try:
    from _demo_screen import Screen
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.spark import History, run_queue, session, sync
except ImportError as missing:
    sys.exit(f"The demo needs {missing.name}, which is not installed; `python3 run demo` brings it along.")

from holdfast.app import Holdfast
from holdfast.model.retry import Fixed
from holdfast.spark.execution.progress import Progress
from holdfast.spark.history.audit import CHECKS
from holdfast.worker.context import Context
from holdfast.worker.control import Unrecoverable
from holdfast.worker.options import WorkerOptions

OUT = Path(__file__).parents[1] / "build" / "demo"
LEASE = timedelta(seconds=5)  # short, so that lost leases are noticed while you watch
CORES = min(4, os.cpu_count() or 1)  # a few are enough to see it, and leave room for others
AT_LEAST = 10.0  # seconds that Spark shall be busy shipping, so that there is a half way

# One order in so many has this fate, and what is said of it; the first one that fits.
FATES = {
    "deadly": (5_000, "kill the process that handles them"),
    "lost cause": (200, "can never be delivered"),
    "flaky": (25, "fail twice, then work"),
    "fine": (1, "just work"),
}
LETHAL = {"deadly", "lost cause"}


def ship(order: dict[str, Any], ctx: Context) -> str:
    """The handler: what is to be done with one order."""
    time.sleep(order["seconds"])
    match order["fate"]:
        case "flaky" if ctx.attempt <= 2:
            raise ConnectionError("the carrier answered 503")
        case "lost cause":
            raise Unrecoverable("no carrier goes there")
        case "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
    return f"{order['order']} is on its way to {order['customer']}"


def main() -> int:
    options = parsed()
    for number in (signal.SIGTERM, signal.SIGHUP):  # also when its terminal is closed, Spark is ended in order
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return Demo(options).run()
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


class Demo:
    """The story, step by step, and what is learnt on the way."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.began = time.monotonic()
        self.screen = Screen(quiet=options.json)
        self.out: Path = options.out
        self.url = f"sqlite:///{quote(str(self.out / 'jobs.db'))}"
        self.app = Holdfast(self.url)
        self.app.handler("order.ship", queue="orders", retry=Fixed(timedelta(milliseconds=100)))(ship)
        self.facts: dict[str, Any] = {"orders": options.orders}

    def run(self) -> int:
        """All of it; gives the exit code."""
        self.introduce()
        spark = self.start()
        try:
            self.write(orders_of(spark, self.options.orders))
            self.work(spark)
            self.outcome(spark)
            self.prove(spark)
        finally:
            self.app.close()
        return self.end()

    def introduce(self) -> None:
        """The first screen: what is going to happen. Nothing has been started yet."""
        self.screen.title("Holdfast", "a lease-based job queue whose data pipeline runs on Spark")
        self.screen.line(f"{self.options.orders:,} orders become jobs, and Spark ships them. Of these")
        for fate, number in expected(self.options.orders).items():
            self.screen.line(f"  {number:>7,}  {FATES[fate][1]}")
        self.screen.line("Half way, one of Spark's Python workers is killed as well.")

    def start(self) -> SparkSession:
        """Local Spark, in this process: nothing to set up."""
        self.screen.section("Spark", f'session("local[{CORES},4]")')
        began = time.monotonic()
        self.screen.line("starting, which takes some seconds")
        spark = session(f"local[{CORES},4]")
        spark.sparkContext.setLogLevel("OFF")  # of what is going to be broken on purpose, the screen tells
        cores = spark.sparkContext.defaultParallelism
        self.screen.line(f"Spark {spark.version} with {cores} cores, started in {time.monotonic() - began:.1f} s")
        return spark

    def write(self, orders: DataFrame) -> None:
        """Each row becomes a job. Saved once more, as after a lost answer, the rows are known by their key."""
        self.screen.section("Write", 'orders.write.format("holdfast")')
        sink = (
            orders.write.format("holdfast")
            .option("url", self.url)
            .option("queue", "orders")
            .option("type", "order.ship")
            .option("key", "order")
            .option("domain", "in_order_for")
            .mode("append")
        )
        began = time.monotonic()
        with self.screen.waiting("writing"):
            sink.save()
        written = self.ready()
        self.screen.line(f"{written:,} jobs stored in {time.monotonic() - began:.1f} s")
        with self.screen.waiting("writing again"):
            sink.save()
        again = self.ready() - written
        self.screen.line(f"saved a second time, as after a lost answer: {again} new jobs")
        self.facts |= {"written": written, "written_again": again}

    def ready(self) -> int:
        """Jobs that wait in the store."""
        return sum(count.ready for count in self.app.driver.counts())

    def work(self, spark: SparkSession) -> None:
        """Spark drains the queue, and loses a Python worker on the way."""
        self.screen.section("Run", "run_queue(app)")
        outcomes = run_queue(
            self.app,
            spark=spark,
            options=WorkerOptions(lease=LEASE),
            on_progress=self.kill_one_half_way,
            progress=not self.options.json,
        )
        endings = {row["ending"]: row["count"] for row in outcomes.groupBy("ending").count().collect()}
        self.screen.line("attempts: " + ", ".join(f"{number:,} {ending}" for ending, number in sorted(endings.items())))
        self.facts["endings"] = endings

    def kill_one_half_way(self, progress: Progress) -> None:
        """Told twice a second how the run stands, this kills the Python worker that holds most jobs, once."""
        if "killed" in self.facts or not progress.busy or progress.ended < progress.total / 2:
            return
        slot = max(progress.slots, key=lambda slot: slot.held)
        pid = int(slot.executor.rpartition(":")[2])
        with contextlib.suppress(ProcessLookupError):  # gone by itself: then another one, at the next look
            os.kill(pid, signal.SIGKILL)
            self.facts["killed"] = slot.held
            self.screen.line(f"{progress.elapsed:.1f} s: Python worker {pid} killed (SIGKILL) with {slot.held} jobs")

    def outcome(self, spark: SparkSession) -> None:
        """What became of the orders, by a query over the jobs."""
        self.screen.section("Outcome", 'spark.read.format("holdfast").load("jobs")')
        jobs = spark.read.format("holdfast").option("url", self.url).option("partitions", 4).load("jobs")
        with self.screen.waiting("reading"):
            rows = spark.sql(OUTCOME, jobs=jobs).collect()
        self.screen.table(
            ["fate"],
            ["orders", "attempts", "done", "dead"],
            [(row.fate, row.orders, row.attempts, row.done, row.dead) for row in rows],
        )
        self.facts["fates"] = {row.fate: {"done": row.done, "dead": row.dead} for row in rows}

    def prove(self, spark: SparkSession) -> None:
        """All that happened becomes a history in Parquet; why jobs died, and whether any law was broken."""
        folder = str(self.out / "history")
        self.screen.section("History", "sync(store, folder), History(spark, folder)")
        with self.screen.waiting("syncing"):
            added = sync(self.app.driver, folder, spark=spark)
        self.screen.line(f"{added.rows:,} ledger rows and {added.jobs:,} jobs in Parquet")
        history = History(spark, folder)

        self.screen.section("Dead letters", "history.failures; kept until somebody requeues or purges them")
        with self.screen.waiting("reading"):
            letters = history.failures.orderBy("dead", ascending=False).collect()
        told = [(row.reason, row.error.removeprefix("holdfast.worker.control."), row.dead) for row in letters]
        self.screen.table(["reason", "last error"], ["jobs"], told)

        self.screen.section("Audit", "history.page(): the certificate, and a report with plots")
        with self.screen.waiting("judging every lease"):
            page, certificate = history.page("Holdfast demo")
        (self.out / "report.html").write_text(page, encoding="utf-8")
        for check, says in CHECKS.items():
            self.screen.claim(says, holds=not certificate.violation_counts[check])
        self.facts |= {
            "leases": certificate.leases,
            "letters": {row.reason: row.dead for row in letters},
            "states": dict(certificate.states),
            "violations": {check: found for check, found in certificate.violation_counts.items() if found},
        }

    def end(self) -> int:
        """Whether it all adds up, and where to go from here."""
        claims = sums(self.facts)
        wrong = [claim for claim, holds in claims.items() if not holds]
        seconds = round(time.monotonic() - self.began, 1)
        if self.options.json:
            print(json.dumps(self.facts | {"wrong": wrong, "seconds": seconds}, indent=2))
        self.screen.section("Sum", f"{self.facts['leases']:,} leases judged, {seconds:.0f} s in all")
        for claim, holds in claims.items():
            self.screen.claim(claim, holds=holds)
        self.screen.section("Look", "at what was made, until the next demo replaces it")
        made = self.out.relative_to(Path.cwd()) if self.out.is_relative_to(Path.cwd()) else self.out
        self.screen.line((self.out / "report.html").as_uri())
        self.screen.line(f".venv/bin/holdfast dead groups --url sqlite:///{quote(str(made))}/jobs.db")
        self.screen.line(f".venv/bin/holdfast audit --history {made}/history")
        self.screen.line("examples/demo.py, docs/spark.md")
        return 1 if wrong else 0


# Orders -----------------------------------------------------------------------------------------------------

OUTCOME = """
    SELECT from_json(CAST(payload AS string), 'fate string').fate AS fate, count(*) AS orders,
           sum(attempts) AS attempts, count_if(state = 'done') AS done, count_if(state = 'dead') AS dead
      FROM {jobs} GROUP BY 1 ORDER BY 2 DESC
"""


def orders_of(spark: SparkSession, count: int) -> DataFrame:
    """Each with its fate and how long it takes; every tenth for a customer who gets them one after the other."""
    seconds = AT_LEAST * spark.sparkContext.defaultParallelism / count
    fates = " ".join(f"WHEN id % {every} = 0 THEN '{fate}'" for fate, (every, _) in FATES.items())
    return spark.range(1, count + 1).selectExpr(
        "id AS order",
        "concat('customer-', id % 331) AS customer",
        "CASE WHEN id % 10 = 0 THEN concat('customer-', id % 331) END AS in_order_for",
        f"CASE {fates} END AS fate",
        f"{seconds:f}D AS seconds",
    )


def expected(count: int) -> dict[str, int]:
    """How many orders have which fate."""
    numbers: dict[str, int] = {}
    for fate, (every, _) in FATES.items():
        numbers[fate] = count // every - sum(numbers.values())
    return numbers


def sums(facts: dict[str, Any]) -> dict[str, bool]:
    """What should be so, and whether it is."""
    fates = {
        fate: {"done": 0, "dead": number} if fate in LETHAL else {"done": number, "dead": 0}
        for fate, number in expected(facts["orders"]).items()
        if number
    }
    ended = facts["endings"].get("acked", 0) + sum(facts["letters"].values())
    return {
        "every order became one job": (facts["written"], facts["written_again"]) == (facts["orders"], 0),
        "every order ended as its fate was": facts["fates"] == fates,
        "every order was acked once, or is a dead letter": ended == facts["orders"],
        "a Python worker was killed on the way": "killed" in facts,
        "no law was broken": not facts["violations"],
    }


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 run demo", description=(__doc__ or "").partition("`")[0].strip())
    parser.add_argument("--orders", type=int, default=20_000, metavar="N", help="200 to 1000000")
    parser.add_argument("--json", action="store_true", help="print only a summary, as JSON")
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder for what is made; by default build/demo")
    options = parser.parse_args()
    if not 200 <= options.orders <= 1_000_000:
        parser.error(f"--orders: wanted 200 to 1000000, got {options.orders}")
    if options.out is None:
        options.out = OUT
        shutil.rmtree(OUT, ignore_errors=True)  # of an earlier demo
    options.out = options.out.absolute()
    try:
        options.out.mkdir(parents=True)
    except OSError as error:
        parser.error(f"--out: wanted a new folder, got {options.out} ({error.strerror})")
    return options


if __name__ == "__main__":
    sys.exit(main())
