"""A client of Spark Connect that uses the sink, the sources, ``run`` and ``run_queue``.

client.py SERVER URL FOLDER
"""

import json
import sys
import time
from datetime import timedelta
from pathlib import Path

import holdfast
from holdfast.app import Holdfast
from holdfast.drivers.requests import Cancel
from holdfast.errors import HoldfastError
from holdfast.spark import History, audit_store, run, run_queue, session
from holdfast.spark.store_access import on_one_machine
from holdfast.worker.control import Unrecoverable
from holdfast.worker.options import WorkerOptions

OPTIONS = WorkerOptions(lease=timedelta(seconds=5), drain=timedelta(), grace=timedelta(seconds=10))


def main(server, url, folder):
    spark = session(server)
    results = {
        "again": session(spark) is spark,
        "one_machine": on_one_machine(spark),
        "saved": saved(spark, url),
        "drained": drained(spark, url),
        "rows": through(spark, url),
        "stopped": stopped(spark, url),
        "streamed": streamed(spark, url, folder),
        "history": error_of(lambda: History(spark, str(folder / "history"))),
    }
    with holdfast.connect(url) as store:
        results["audit"] = audit_store(store, spark=spark).holds
    print(json.dumps(results))
    spark.stop()


def saved(spark, url):
    df = spark.range(20).selectExpr("id")
    df.write.format("holdfast").options(url=url, type="double", queue="q", key="id").mode("append").save()
    df.write.format("holdfast").options(url=url, type="double", queue="q", key="id").mode("append").save()
    return spark.read.format("holdfast").option("url", url).load("jobs").where("queue = 'q'").count()


def drained(spark, url):
    app = Holdfast(url)

    @app.handler("double", queue="q")
    def double(row):
        return row["id"] * 2

    rows = run_queue(app, spark=spark, options=OPTIONS)
    app.close()
    return {row["ending"]: row["count"] for row in rows.groupBy("ending").count().collect()}


def through(spark, url):
    def halve(row):
        if row["id"] == 3:
            raise Unrecoverable("odd")
        return row["id"] / 2

    result = run(spark.range(10), halve, key="id", url=url, slots=2, options=OPTIONS)
    facts = [result.ok.count(), [row["holdfast"]["reason"] for row in result.dead.collect()]]
    result.unpersist()
    return facts


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
        run_queue(app, spark=spark, slots=1, options=OPTIONS, on_progress=interrupt)
    except KeyboardInterrupt:
        record = app.client.get(answer.id)
        app.driver.do(Cancel(job_ids=[answer.id]))
        return [record.state, record.attempts]
    finally:
        app.close()


def streamed(spark, url, folder):
    """Stream the ledger into the sink: every ending becomes a job."""
    endings = spark.readStream.format("holdfast").option("url", url).load("ledger")
    query = (
        endings.where("queue = 'q'")
        .select("job_id")
        .writeStream.format("holdfast")
        .options(url=url, type="after", queue="after", checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.read.format("holdfast").option("url", url).load("jobs").where("queue = 'after'").count()


def error_of(call):
    try:
        call()
    except HoldfastError as error:
        return str(error)
    return "nothing"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
