"""What happened, for good: the ledger as Parquet, tables over it, every law proven, and a page to send to others."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import holdfast
from holdfast import Client, JobRequest
from holdfast.clock import MINUTE
from holdfast.model.settlement import Ack, Fail, Retry
from holdfast.spark import History, session, sync

with TemporaryDirectory() as name:
    spark = session()
    folder = str(Path(name, "history"))
    with holdfast.connect(f"sqlite:///{Path(name, 'jobs.db')}") as store:
        Client(store).enqueue([JobRequest(type="mail.send", payload=number) for number in range(100)])
        while batch := store.reserve(["default"], limit=50, lease_for=MINUTE, worker="w"):
            bounced, slow, *others = batch
            again = Retry(slow.lease, error="the server was busy") if slow.job.attempts == 1 else Ack(slow.lease)
            store.settle([Fail(bounced.lease, reason="bounced"), again, *(Ack(one.lease) for one in others)])

        added = sync(store, folder, spark=spark)
        print(f"{added.rows} ledger rows, {added.jobs} jobs")
        assert sync(store, folder, spark=spark).rows == 0  # each row once: the second sync finds nothing new

    # The store may forget now; the history does not.
    history = History(spark, folder)
    history.failures.select("fingerprint", "type", "reason", "dead").show(truncate=False)
    assert history.jobs.where("state = 'done'").count() + history.jobs.where("state = 'dead'").count() == 100

    page, certificate = history.page("Mails")
    Path(name, "report.html").write_text(page, encoding="utf-8")
    print(f"{certificate.leases} leases judged, {len(certificate.violation_counts)} checks, holds: {certificate.holds}")
    assert certificate.holds
