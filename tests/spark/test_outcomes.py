"""Outcome rows have the words of the worker, from its settlements and from the ledger. No Spark session is needed."""

from holdfast import connect
from holdfast.clock import SECOND
from holdfast.model.job import JobRecord
from holdfast.model.settlement import Ack
from holdfast.spark.execution.outcomes import from_ledger, from_settled
from holdfast.worker.decide import SKIPPED
from holdfast.worker.processes.running import Run
from holdfast.worker.status import Settled


def test_a_skipped_job_is_skipped_and_done_in_both():
    with connect("memory://") as store:
        store.enqueue([JobRecord(id="j", type="t", queue="q", payload=b"1", created_at=1)])
        [reservation] = store.reserve(["q"], limit=1, lease_for=SECOND, worker="run/0/3/0")
        ack = Ack(reservation.lease, detail=f"{SKIPPED}done by another")
        assert store.settle([ack]) == [None]
        settled = from_settled(
            [Settled(Run(1, reservation), ack, None, "skipped")], [5], slot=3, executor="here", lease_for=SECOND
        )
        stored = from_ledger(store.ledger().items)
    for [row] in (settled.to_pylist(), stored.to_pylist()):
        assert (row["job_id"], row["slot"], row["ending"], row["state"]) == ("j", 3, "skipped", "done")
