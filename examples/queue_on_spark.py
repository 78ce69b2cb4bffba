"""A queue on Spark: any program enqueues the jobs, executors run them, and the outcomes are a DataFrame."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from holdfast import Context, Holdfast
from holdfast.retry import Fixed
from holdfast.spark import run_queue, session

with TemporaryDirectory() as folder:
    app = Holdfast(f"sqlite:///{Path(folder, 'jobs.db')}")

    @app.handler("thumbnail.make", queue="pictures", retry=Fixed(timedelta(milliseconds=50)))
    def make_thumbnail(picture: dict[str, Any], ctx: Context) -> str:
        if picture["number"] % 100 == 0 and ctx.attempt == 1:
            raise OSError("the disk was busy")
        return f"{picture['number']}-small.png"

    app.client.enqueue([make_thumbnail.request({"number": number}) for number in range(1, 501)])

    # Each slot is a Spark task that reserves, runs and settles its own jobs. `holdfast spark work` does the same from
    # the command line; `holdfast work` runs the same queue without Spark.
    outcomes = run_queue(app, spark=session(), slots=2)

    by_ending = {row["ending"]: row["count"] for row in outcomes.groupBy("ending").count().collect()}
    print(by_ending)
    outcomes.selectExpr("slot", "ending", "error_class", "ended_at - started_at AS took").show(3, truncate=False)
    assert by_ending == {"acked": 500, "retried": 5}
    app.close()
