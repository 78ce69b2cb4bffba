"""Records as Kafka delivers them, some twice and some out of order: each takes effect once, in order of its partition.

The frames have the columns of ``spark.readStream.format("kafka")``. A partition is a domain: its records run one at a
time, in the order of their offsets, and the queue waits for an offset that is missing.
"""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from holdfast import Holdfast
from holdfast.driver import Gaps, QueueSettings
from holdfast.drivers.requests import Configure
from holdfast.spark import run_queue, session

PARTITIONS, RECORDS, LATE = 3, 40, 12
COLUMNS = "topic string, partition int, offset long, key string, value string"
spark = session()


def make_records() -> list[tuple[str, int, int, str, str]]:
    """Payments of some accounts. The records of one account have one key, so they are in one partition."""
    return [
        ("payments", partition, offset, f"account-{partition}-{offset % 4}", json.dumps({"amount": offset + 1}))
        for partition in range(PARTITIONS)
        for offset in range(RECORDS)
    ]


def deliver(url: str, records: list[tuple[str, int, int, str, str]]) -> None:
    """Write records as jobs. The offset identifies a record: one that is known adds nothing, also if it has ended."""
    frame = spark.createDataFrame(records, COLUMNS)
    jobs = frame.selectExpr(
        "topic || '-' || partition AS source", "offset", "key", "from_json(value, 'amount long').amount AS amount"
    )
    write = jobs.write.format("holdfast").option("url", url).option("queue", "payments").option("type", "payment.book")
    write.option("domain", "source").option("offset", "offset").mode("append").save()


with TemporaryDirectory() as folder:
    books = Path(folder, "books.db")
    with closing(sqlite3.connect(books)) as database:
        database.execute("CREATE TABLE booked (source, position, account, amount, UNIQUE (source, position))")
    app = Holdfast(f"sqlite:///{Path(folder, 'jobs.db')}")
    app.driver.do(Configure(queue="payments", settings=QueueSettings(gaps=Gaps.WAIT), only=("gaps",)))

    @app.handler("payment.book", queue="payments")
    def book(payment: dict[str, Any]) -> None:
        """Book a payment. The key of the table makes it safe to repeat, if a worker dies between commit and ack."""
        with closing(sqlite3.connect(books)) as database, database:
            row = (payment["source"], payment["offset"], payment["key"], payment["amount"])
            database.execute("INSERT OR IGNORE INTO booked VALUES (?, ?, ?, ?)", row)

    def booked() -> dict[str, list[int]]:
        """Return the offsets of each partition, in the order in which they were booked."""
        with closing(sqlite3.connect(books)) as database:
            rows = database.execute("SELECT source, position FROM booked ORDER BY rowid").fetchall()
        return {source: [offset for each, offset in rows if each == source] for source, _ in rows}

    records = make_records()
    shuffle = random.Random(1)
    late = [record for record in records if record[2] == LATE]
    first = [record for record in records if record[2] < RECORDS // 2 and record[2] != LATE]
    deliver(app.url, shuffle.sample(first, len(first)))
    outcomes = run_queue(app, spark=spark, slots=2)
    print(f"{outcomes.count()} payments booked, then every partition waits for offset {LATE}")
    assert booked() == {f"payments-{partition}": list(range(LATE)) for partition in range(PARTITIONS)}

    rest = [record for record in records if record[2] >= RECORDS // 2 - 5]  # the last five again
    again = [*late, *first[:10], *rest]
    deliver(app.url, shuffle.sample(again, len(again)))
    outcomes = run_queue(app, spark=spark, slots=2)
    print(f"{outcomes.count()} more: the late payments, then the others in order, and none twice")
    assert booked() == {f"payments-{partition}": list(range(RECORDS)) for partition in range(PARTITIONS)}
    app.close()
