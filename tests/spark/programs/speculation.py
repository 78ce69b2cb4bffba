"""A Spark driver with speculation: Spark starts a second copy of every Spark task that takes a second.

    speculation.py MASTER URL FOLDER DRAINED_URL

HOLDFAST_CONFIG names a settings file, which the executors read, too: it turns signing on, has the key, and names the
store of the URL ``shop``. The URL contains a password. The program saves Spark's web pages and event log in FOLDER: the
test searches them for both secrets. The test kills one of the two executors when FOLDER/returned exists, and creates
FOLDER/killed. At the end the program audits its store, and the store that another application has drained.
"""

import json
import os
import sys
import time
import urllib.request
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from pyspark import TaskContext

import holdfast
from holdfast.app import Holdfast
from holdfast.drivers.requests import Cancel, Scan
from holdfast.spark import audit_store, run, run_queue, session
from holdfast.spark.execution.run_spec import SLOT_TRY_KIND
from holdfast.worker.options import WorkerOptions
from tests.spark.clusters import LEAN, wait_until

OPTIONS = WorkerOptions(lease=timedelta(seconds=5), grace=timedelta(seconds=10))
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "1s",
}
CONFIG = "HOLDFAST_CONFIG"
PAGES = (
    "environment",
    "jobs",
    "executors",
    "stages?details=true",
    "sql?details=true&planDescription=true&length=1000",
)


def main(master, url, folder, drained_url):
    shown = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.executorEnv.SHOP_URL": url,
        f"spark.executorEnv.{CONFIG}": os.environ[CONFIG],
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.pyspark.python": sys.executable,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
    }
    (folder / "events").mkdir()
    spark = session(master, **(LEAN | SPECULATION | shown))
    with holdfast.connect(url) as store:
        results = {
            "queue": drained(spark, url),
            "rows": through(spark, url),
            "attempts": len(store.do(Scan(kind=SLOT_TRY_KIND, limit=100))),
            "lost": lost(spark, url, folder),
            "stopped": stopped(spark, url),
            "saved": saved(spark, url, folder),
            "read": spark.read.format("holdfast").option("url", url).load("ledger").count(),
            "refused": refused(spark, folder),
            "named": named(spark),
            "counts": {count.queue: count.done for count in store.counts()},
        }
    save_pages(spark, folder)
    results["certificate"], results["drained_certificate"] = (audited(spark, each) for each in (url, drained_url))
    spark.stop()
    print(json.dumps(results))


def drained(spark, url):
    app = Holdfast(url)

    @app.handler("slow", queue="slow")
    def slow(number):
        time.sleep(0.05)
        return number

    app.client.enqueue([slow.request(number) for number in range(80)])
    rows = run_queue(app, spark=spark, slots=1, options=OPTIONS).collect()
    app.close()
    return [[row["job_id"], row["ending"]] for row in rows]


def through(spark, url):
    def slow(row):
        time.sleep(0.05)
        return row["id"]

    ok, dead = run(spark.range(80), slow, key="id", url=url, run="speculated", slots=1, options=OPTIONS)
    return [ok.count(), dead.count()]


def lost(spark, url, folder):
    """Return the counts of a result that is read after an executor was killed."""

    def fail_some(row):
        if row["id"] % 100 == 0:
            raise ValueError("one in a hundred")

    ok, dead = run(spark.range(0, 400, 1, 4), fail_some, key="id", url=url, run="lost", max_attempts=1, slots=2)
    (folder / "returned").touch()
    wait_until((folder / "killed").exists)
    return [ok.count(), dead.count()]


def stopped(spark, url):
    """Return the state and the attempts of a job that was running at Ctrl-C."""
    app = Holdfast(url)

    @app.handler("stuck", queue="stuck")
    def stuck(_):
        time.sleep(600)

    answer = stuck.enqueue(None)

    def interrupt(_):
        if any(count.inflight for count in app.driver.counts()):
            raise KeyboardInterrupt

    try:
        run_queue(app, spark=spark, slots=1, options=replace(OPTIONS, drain=timedelta()), on_progress=interrupt)
    except KeyboardInterrupt:
        record = app.client.get(answer.id)
        app.driver.do(Cancel(job_ids=[answer.id]))
        return [record.state, record.attempts]
    finally:
        app.close()


def saved(spark, url, folder):
    attempts = folder / "attempts"
    attempts.mkdir()

    def slowly(batches):
        (attempts / str(TaskContext.get().attemptNumber())).touch()
        for batch in batches:
            time.sleep(0.3)
            yield batch

    df = spark.range(0, 200, 1, 1).mapInArrow(slowly, "id long")
    df.write.format("holdfast").option("url", url).options(type="t", queue="saved").mode("append").save()
    jobs = spark.read.format("holdfast").option("url", url).load("jobs")
    return [jobs.where("queue = 'saved'").count(), len(list(attempts.iterdir()))]


def named(spark):
    """Return how many rows each step has, in the store that only the settings know."""
    jobs = spark.read.format("holdfast").option("store", "shop").load("jobs")
    spark.range(5).write.format("holdfast").options(store="shop", type="t", queue="q").mode("append").save()
    results = {"saved": jobs.count()}
    app = Holdfast(store="shop")
    app.handler("t", queue="q")(lambda row: row["id"])
    results["drained"] = run_queue(app, spark=spark, slots=1).count()
    app.close()
    ok, dead = run(spark.range(3), lambda row: row["id"], key="id", store="shop", slots=1)
    results["run"] = [ok.count(), dead.count()]
    for table in ("jobs", "ledger"):
        spark.sql(f"create table {table} using holdfast options (store 'shop', table '{table}')")
    results["table"] = spark.table("jobs").where("state = 'done'").count()
    results["signed"] = spark.table("jobs").where("signature is not null").count()
    results["ledger"] = spark.table("ledger").count()
    return results


def audited(spark, url):
    with holdfast.connect(url) as store:
        certificate = audit_store(store, spark=spark)
    violations = [str(violation) for violation in certificate.violations]
    return {
        "violations": violations,
        "holds": certificate.holds,
        "rows": certificate.rows,
        "leases": certificate.leases,
    }


def refused(spark, folder):
    """Return the error of every function for a SQLite file, on a cluster."""
    url = f"sqlite:///{folder}/jobs.db"
    app = Holdfast(url)
    app.handler("t")(len)
    frame, read = spark.range(1), spark.read.format("holdfast").option("url", url)
    calls = {
        "run_queue": lambda: run_queue(app, spark=spark),
        "run": lambda: run(frame, len, key="id", url=url),
        "sink": lambda: frame.write.format("holdfast").options(url=url, type="t").mode("append").save(),
        "jobs": lambda: read.load("jobs").count(),
        "ledger": lambda: read.load("ledger").count(),
    }
    return {name: error_of(call) for name, call in calls.items()}


def error_of(call):
    try:
        call()
    except Exception as error:
        return str(error)
    return "nothing"


def save_pages(spark, folder):
    context = spark.sparkContext
    (folder / "pages").mkdir()
    for number, page in enumerate(PAGES):
        url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{page}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            (folder / "pages" / f"{number}.json").write_bytes(answer.read())
    for page in ("environment/", "SQL/execution/?id=0", "stages/"):
        with urllib.request.urlopen(f"{context.uiWebUrl}/{page}", timeout=30) as answer:
            (folder / "pages" / f"{page.partition('/')[0]}.html").write_bytes(answer.read())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
