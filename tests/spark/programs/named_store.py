"""A Spark driver that knows a store only by its name: the settings of the driver and of the executors have the URL.

The settings may turn signing on, and have the key: then every job is signed, and verified, by the executors.

    named_store.py MASTER FOLDER

HOLDFAST_CONFIG names the settings file. The program saves Spark's event log and the REST answers in FOLDER/shown.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path

from holdfast.app import Holdfast
from holdfast.spark import run, run_queue, session
from tests.spark.clusters import LEAN

CONFIG = "HOLDFAST_CONFIG"


def main(master, folder):
    shown = folder / "shown"
    shown.mkdir()
    conf = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": shown.as_uri(),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        f"spark.executorEnv.{CONFIG}": os.environ[CONFIG],
        "spark.pyspark.python": sys.executable,
        "spark.cores.max": "1",  # one executor
    }
    spark = session(master, **(LEAN | conf))
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
    context = spark.sparkContext
    for page in ("environment", "jobs", "sql?details=true&planDescription=true&length=1000"):
        url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{page}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            (shown / f"{page.partition('?')[0]}.json").write_bytes(answer.read())
    spark.stop()
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
