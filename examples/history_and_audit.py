"""A permanent history: the ledger as Parquet, tables over it, an audit of every law, and a report page."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast import Client, JobRequest, connect
from holdfast.driver import MINUTE, Ack, Fail, Retry
from holdfast.spark import History, session, sync

with TemporaryDirectory() as name:
    spark = session()
    folder = str(Path(name, "history"))
    with connect(f"sqlite:///{Path(name, 'jobs.db')}") as store:
        Client(store).enqueue([JobRequest(type="mail.send", payload=number) for number in range(100)])
        while batch := store.reserve(["default"], limit=50, lease_for=MINUTE, worker="w"):
            bounced, slow, *others = batch
            retried = Retry(slow.lease, error="the server was busy") if slow.job.attempts == 1 else Ack(slow.lease)
            store.settle([Fail(bounced.lease, reason="bounced"), retried, *(Ack(one.lease) for one in others)])

        added = sync(store, folder, spark=spark)
        print(f"copied {added.rows} ledger rows and {added.jobs} jobs")
        assert sync(store, folder, spark=spark).rows == 0  # each row is copied once: the second sync finds nothing new

    # From here on, the store may delete its old rows; the history keeps them.
    history = History(spark, folder)
    history.failures.select("fingerprint", "type", "reason", "dead").show(truncate=False)
    assert history.jobs.where("state = 'done'").count() + history.jobs.where("state = 'dead'").count() == 100

    page, certificate = history.page("Mails")
    Path(name, "report.html").write_text(page, encoding="utf-8")
    checks = len(certificate.violation_counts)
    print(f"audited {certificate.leases} leases with {checks} checks; all hold: {certificate.holds}")
    assert certificate.holds
