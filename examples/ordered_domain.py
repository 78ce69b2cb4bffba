"""A domain runs strictly one job at a time, in order, also across retries; other domains go on meanwhile."""

from __future__ import annotations

import contextlib
import tempfile

from holdfast import Client, JobRequest, ack, connect, retry
from holdfast.clock import MILLISECOND, SECOND
from holdfast.drivers.contract import Store
from holdfast.wire.records import to_job

STEPS = ["open", "deposit", "close"]


def run_next(store: Store, seen: list[tuple[str, str]]) -> None:
    """Run whatever may run now; the first deposit of account-1 fails once."""
    for reservation in store.reserve(["accounts"], limit=10, lease_for=30 * SECOND):
        job = to_job(reservation)
        step = f"{job.domain}: {job.payload}"
        if job.payload == "deposit" and job.domain == "account-1" and job.attempt == 1:
            retry(store, reservation.lease, delay=200 * MILLISECOND, error="the bank is closed")
            print(f"  {step:<20} failed; its account waits for it, in order")
        else:
            ack(store, reservation.lease)
            seen.append((str(job.domain), str(job.payload)))
            print(f"  {step:<20} done")


with (
    tempfile.TemporaryDirectory() as folder,
    contextlib.closing(connect(f"sqlite:///{folder}/jobs.db")) as store,
):
    Client(store).enqueue(
        [
            JobRequest(type="account.step", queue="accounts", payload=step, domain=account)
            for step in STEPS
            for account in ("account-1", "account-2")
        ]
    )

    first = store.reserve(["accounts"], limit=10, lease_for=30 * SECOND)
    heads = [str(reservation.job.domain) for reservation in first]
    print(f"6 jobs wait; a reserve of 10 gives {len(first)}: the heads of {' and '.join(heads)}")
    assert heads == ["account-1", "account-2"]
    for reservation in first:
        ack(store, reservation.lease)

    done = [(account, "open") for account in heads]
    while len(done) < 6:
        store.wait(["accounts"], timeout=1)
        run_next(store, done)

    for account in ("account-1", "account-2"):
        assert [step for domain, step in done if domain == account] == STEPS
    assert done.index(("account-2", "close")) < done.index(("account-1", "deposit"))
    print("each account in its own order; account-2 did not wait for account-1")
