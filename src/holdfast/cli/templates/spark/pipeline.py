"""Every row of a DataFrame becomes a job, executors run the jobs, and the outcomes are a DataFrame again.

Run it with: python pipeline.py
"""

from holdfast.spark import run_queue, session
from pyspark.sql import DataFrame, SparkSession

from jobs import app


def enqueue(orders: DataFrame) -> None:
    """Store one job per row. The key makes it repeatable: a row that was enqueued before is left out."""
    jobs = orders.write.format("holdfast").option("url", app.url).option("queue", "orders")
    jobs.option("type", "order.price").option("key", "id").mode("append").save()


def work(spark: SparkSession) -> DataFrame:
    """Run the queue until it is empty; return one row per attempt."""
    return run_queue(app, spark=spark, progress=False)


if __name__ == "__main__":
    spark = session()
    enqueue(spark.sql("SELECT id, CAST(id % 4 AS int) AS quantity FROM range(100)"))
    work(spark).groupBy("ending").count().show()
