"""See Holdfast work on Spark: `python3 run demo`.

The demo writes a DataFrame of orders as jobs, and local Spark runs them. Some orders fail at first, some can never
succeed, and a few kill the process that runs them. Half-way through, the demo also kills one of Spark's Python workers.
At the end, everything that happened is a history in Parquet, and an audit checks every law against that history.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

try:
    from _demo_output import Output
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.spark import History, run_queue, session, sync
except ImportError as missing:
    sys.exit(f"The demo needs {missing.name}, which is not installed; `python3 run demo` installs it.")

from holdfast import Context, Holdfast, Unrecoverable, WorkerOptions
from holdfast.retry import Fixed
from holdfast.spark import Progress
from holdfast.spark.history.certificate import CHECKS

DEFAULT_FOLDER = Path(__file__).parents[1] / "build" / "demo"
LEASE = timedelta(seconds=5)  # short, so that the lost leases expire while you watch
NO_OP_JOBS = 20_000
CORES = min(4, os.cpu_count() or 1)
MIN_RUN_SECONDS = 10.0  # long enough that a Python worker can be killed half-way through

# Kinds of orders: one order in how many has this kind (the first kind that matches counts), and its description.
KINDS = {
    "crashing": (5_000, "kill the process that runs them"),
    "undeliverable": (200, "can never succeed"),
    "flaky": (25, "fail twice, then succeed"),
    "normal": (1, "succeed at once"),
}
DEAD_KINDS = {"crashing", "undeliverable"}


def ship(order: dict[str, Any], ctx: Context) -> str:
    """The handler: runs once per attempt of an order."""
    time.sleep(order["seconds"])
    match order["kind"]:
        case "flaky" if ctx.attempt <= 2:
            raise ConnectionError("the carrier answered 503")
        case "undeliverable":
            raise Unrecoverable("no carrier goes there")
        case "crashing":
            os.kill(os.getpid(), signal.SIGKILL)
    return f"{order['order']} is on its way to {order['customer']}"


def main() -> int:
    options = parse_options()
    for number in (signal.SIGTERM, signal.SIGHUP):  # exit normally, so that Spark's processes are stopped too
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return Demo(options).run()
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


class Demo:
    """The steps of the demo, and the facts that they collect for the final checks."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.began = time.monotonic()
        self.output = Output(quiet=options.json)
        self.folder: Path = options.out
        self.log = self.folder / "spark.log"
        self.url = f"sqlite:///{quote(str(self.folder / 'jobs.db'))}"
        self.app = Holdfast(self.url)
        self.app.handler("order.ship", queue="orders", retry=Fixed(timedelta(milliseconds=100)))(ship)
        self.facts: dict[str, Any] = {"orders": options.orders}

    def run(self) -> int:
        """Run every step; return the exit code."""
        self.introduce()
        if not self.options.json:
            self.measure_speed()
        spark = self.start_spark()
        try:
            self.enqueue(make_orders(spark, self.options.orders))
            self.run_jobs(spark)
            self.show_results(spark)
            self.audit(spark)
        finally:
            self.app.close()
        return self.summarise()

    def introduce(self) -> None:
        """Say what will happen, before anything is started."""
        self.output.title("Holdfast", "a lease-based job queue whose data pipeline runs on Spark")
        self.output.line(
            f"This demo writes {self.options.orders:,} orders as jobs, and Spark runs them. Of these orders"
        )
        for kind, number in reversed(count_kinds(self.options.orders).items()):
            self.output.line(f"  {number:>7,}  {KINDS[kind][1]}")
        self.output.line("Half-way through, the demo also kills one of Spark's Python workers.")

    def measure_speed(self) -> None:
        """Run jobs that do nothing, without Spark: how fast the queue itself is on this machine."""
        self.output.section("Speed", "app.worker(until_drained=True).run()")
        with contextlib.closing(Holdfast(f"sqlite:///{quote(str(self.folder / 'speed.db'))}")) as app:
            nothing = app.handler("nothing")(lambda _payload: None)
            app.client.enqueue([nothing.request() for _ in range(NO_OP_JOBS)])
            began = time.monotonic()
            app.worker(processes=CORES, until_drained=True).run()
            rate = NO_OP_JOBS / (time.monotonic() - began)
        self.output.line(f"a worker with {CORES} processes ran {NO_OP_JOBS:,} jobs that do nothing: {rate:,.0f} jobs/s")

    def start_spark(self) -> SparkSession:
        """Start local Spark, which needs no installation. Its processes write their log to a file."""
        self.output.section("Start Spark", f'session("local[{CORES},4]")')
        began = time.monotonic()
        self.output.line("this takes a few seconds")
        with stderr_in(self.log):
            spark = session(f"local[{CORES},4]")
        spark.sparkContext.setLogLevel("OFF")  # Spark would log many lines about the processes that the demo kills
        cores = spark.sparkContext.defaultParallelism
        self.output.line(f"Spark {spark.version} with {cores} cores, started in {time.monotonic() - began:.1f} s")
        return spark

    def enqueue(self, orders: DataFrame) -> None:
        """Write each row as a job. A second write, as after a lost connection, adds nothing: each row has a key."""
        self.output.section("Enqueue", 'orders.write.format("holdfast")')
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
        with self.output.spinner("writing"):
            sink.save()
        written = self.count_ready()
        self.output.line(f"{written:,} jobs stored in {time.monotonic() - began:.1f} s")
        with self.output.spinner("writing again"):
            sink.save()
        added = self.count_ready() - written
        self.output.line(f"written a second time with the same keys: {added} new jobs")
        self.facts |= {"written": written, "written_again": added}

    def count_ready(self) -> int:
        """The number of jobs that are ready to run."""
        return sum(count.ready for count in self.app.driver.counts())

    def run_jobs(self, spark: SparkSession) -> None:
        """Run the queue on Spark, and kill a Python worker half-way through."""
        self.output.section("Run", "run_queue(app)")
        pace = 1000 * seconds_per_order(spark, self.options.orders)
        self.output.line(f"each order sleeps {pace:.3g} ms in its handler: that is the pace of this run")
        outcomes = run_queue(
            self.app,
            spark=spark,
            options=WorkerOptions(lease=LEASE),
            on_progress=self.kill_one_python_worker,
            progress=not self.options.json,
        )
        endings = {row["ending"]: row["count"] for row in outcomes.groupBy("ending").count().collect()}
        self.output.line("attempts: " + ", ".join(f"{number:,} {ending}" for ending, number in sorted(endings.items())))
        logged = count_events(self.log.read_text(encoding="utf-8", errors="replace"))
        events = ", ".join(f"{number:,} {event}" for event, number in logged.items())
        self.output.line(f"log:      {events or 'nothing'} (spark.log)")
        self.facts |= {"endings": endings, "logged": logged}

    def kill_one_python_worker(self, progress: Progress) -> None:
        """Called twice a second. When half of the jobs have ended, kills the Python worker that holds most leases."""
        if "killed" in self.facts or not progress.busy or progress.ended < progress.total / 2:
            return
        slot = max(progress.slots, key=lambda slot: slot.held)
        pid = int(slot.executor.rpartition(":")[2])
        with contextlib.suppress(ProcessLookupError):  # it has exited already: try again at the next call
            os.kill(pid, signal.SIGKILL)
            self.facts["killed"] = slot.held
            self.output.line(
                f"after {progress.elapsed:.1f} s: killed Python worker {pid}, which had leased {slot.held} jobs"
            )

    def show_results(self, spark: SparkSession) -> None:
        """Query the jobs table for the results by kind of order."""
        self.output.section("Results", 'spark.read.format("holdfast").load("jobs")')
        jobs = spark.read.format("holdfast").option("url", self.url).option("partitions", 4).load("jobs")
        with self.output.spinner("reading"):
            rows = spark.sql(RESULTS, jobs=jobs).collect()
        self.output.table(
            ["kind of order"],
            ["orders", "attempts", "done", "dead"],
            [(row.kind, row.orders, row.attempts, row.done, row.dead) for row in rows],
        )
        self.facts["kinds"] = {row.kind: {"done": row.done, "dead": row.dead} for row in rows}

    def audit(self, spark: SparkSession) -> None:
        """Copy everything that happened to Parquet, show why jobs died, and check every law."""
        folder = str(self.folder / "history")
        self.output.section("History", "sync(store, folder); History(spark, folder)")
        with self.output.spinner("copying"):
            added = sync(self.app.driver, folder, spark=spark)
        self.output.line(f"{added.rows:,} ledger rows and {added.jobs:,} jobs copied to Parquet")
        history = History(spark, folder)

        self.output.section("Dead letters", "history.failures")
        with self.output.spinner("reading"):
            letters = history.failures.orderBy("dead", ascending=False).collect()
        self.output.table(
            ["reason", "last error"],
            ["jobs"],
            [(row.reason, without_module(row.error), row.dead) for row in letters],
        )
        self.output.line("the store keeps dead letters until you requeue or purge them")

        self.output.section("Audit", 'history.page("Holdfast demo")')
        with self.output.spinner("checking every lease"):
            page, certificate = history.page("Holdfast demo")
        (self.folder / "report.html").write_text(page, encoding="utf-8")
        for check, count in certificate.violation_counts.items():
            self.output.check(CHECKS[check], holds=not count)
        self.facts |= {
            "leases": certificate.leases,
            "letters": {row.reason: row.dead for row in letters},
            "states": dict(certificate.states),
            "violations": {check: found for check, found in certificate.violation_counts.items() if found},
        }

    def summarise(self) -> int:
        """Check that the numbers add up, and print what to look at next."""
        statements = final_statements(self.facts)
        wrong = [statement for statement, holds in statements.items() if not holds]
        seconds = round(time.monotonic() - self.began, 1)
        if self.options.json:
            print(json.dumps(self.facts | {"wrong": wrong, "seconds": seconds}, indent=2))
        self.output.section("Summary", f"{self.facts['leases']:,} leases checked, {seconds:.0f} s in total")
        for statement, holds in statements.items():
            self.output.check(statement, holds=holds)
        self.output.section("Next", "the next demo replaces these files")
        folder = self.folder.relative_to(Path.cwd()) if self.folder.is_relative_to(Path.cwd()) else self.folder
        self.output.line(f"open     {(self.folder / 'report.html').as_uri()}")
        self.output.line(f"run      .venv/bin/holdfast dead groups --url sqlite:///{quote(str(folder))}/jobs.db")
        self.output.line(f"run      .venv/bin/holdfast audit --history {folder}/history")
        self.output.line("read     examples/demo.py and docs/guides/spark.md")
        return 1 if wrong else 0


# Orders -----------------------------------------------------------------------------------------------------

RESULTS = """
    SELECT from_json(CAST(payload AS string), 'kind string').kind AS kind, count(*) AS orders,
           sum(attempts) AS attempts, count_if(state = 'done') AS done, count_if(state = 'dead') AS dead
      FROM {jobs} GROUP BY 1 ORDER BY 2 DESC
"""


def make_orders(spark: SparkSession, count: int) -> DataFrame:
    """Orders with their kind and duration. One in ten belongs to a customer whose orders must run in order."""
    kinds = " ".join(f"WHEN id % {every} = 0 THEN '{kind}'" for kind, (every, _) in KINDS.items())
    return spark.range(1, count + 1).selectExpr(
        "id AS order",
        "concat('customer-', id % 331) AS customer",
        "CASE WHEN id % 10 = 0 THEN concat('customer-', id % 331) END AS in_order_for",
        f"CASE {kinds} END AS kind",
        f"{seconds_per_order(spark, count):f}D AS seconds",
    )


def seconds_per_order(spark: SparkSession, count: int) -> float:
    """How long the handler sleeps for an order."""
    return MIN_RUN_SECONDS * spark.sparkContext.defaultParallelism / count


def count_kinds(count: int) -> dict[str, int]:
    """The number of orders of each kind."""
    numbers: dict[str, int] = {}
    for kind, (every, _) in KINDS.items():
        numbers[kind] = count // every - sum(numbers.values())
    return numbers


def final_statements(facts: dict[str, Any]) -> dict[str, bool]:
    """What must be true at the end of the demo, and whether it is."""
    expected_kinds = {
        kind: {"done": 0, "dead": number} if kind in DEAD_KINDS else {"done": number, "dead": 0}
        for kind, number in count_kinds(facts["orders"]).items()
        if number
    }
    ended = facts["endings"].get("acked", 0) + sum(facts["letters"].values())
    return {
        "every order became exactly one job": (facts["written"], facts["written_again"]) == (facts["orders"], 0),
        "every order ended as its kind predicts": facts["kinds"] == expected_kinds,
        "every order was acked once or is a dead letter": ended == facts["orders"],
        "a Python worker was killed during the run": "killed" in facts,
        "no law was broken": not facts["violations"],
    }


# The log ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def stderr_in(file: Path) -> Iterator[None]:
    """Let the processes that are started inside write their stderr to a file: their lines would interrupt the bar."""
    stderr = os.dup(2)
    try:
        with file.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    except BaseException:
        os.write(stderr, file.read_bytes())  # it says why they did not start
        raise
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def count_events(log: str) -> dict[str, int]:
    """How often each event was logged, such as child.replaced; of leases that were ended together, their number."""
    counts: dict[str, int] = {}
    for event, leases in re.findall(r"^([a-z]+\.[a-z_]+) (?:leases=(\d+))?", log, re.MULTILINE):
        counts[event] = counts.get(event, 0) + int(leases or 1)
    return dict(sorted(counts.items()))


def without_module(error: str) -> str:
    """``package.module.Error: text`` becomes ``Error: text``."""
    return re.sub(r"^(\w+\.)+(?=\w+: )", "", error)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 run demo", description=(__doc__ or "").partition("`")[0].strip())
    parser.add_argument("--orders", type=int, default=20_000, metavar="N", help="number of orders, 200 to 1000000")
    parser.add_argument("--json", action="store_true", help="print only a summary, as JSON")
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder for the files; by default build/demo")
    options = parser.parse_args()
    if not 200 <= options.orders <= 1_000_000:
        parser.error(f"--orders: wanted 200 to 1000000, got {options.orders}")
    if options.out is None:
        options.out = DEFAULT_FOLDER
        shutil.rmtree(DEFAULT_FOLDER, ignore_errors=True)
    options.out = options.out.absolute()
    try:
        options.out.mkdir(parents=True)
    except OSError as error:
        parser.error(f"--out: wanted a new folder, got {options.out} ({error.strerror})")
    return options


if __name__ == "__main__":
    sys.exit(main())
