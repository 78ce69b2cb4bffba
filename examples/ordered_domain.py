"""Jobs of one domain run one at a time and in order, also across retries; other domains are not delayed."""

from __future__ import annotations

import json
import tempfile

from holdfast import Client, JobRequest, connect
from holdfast.driver import MILLISECOND, SECOND, Store, ack, retry

STEPS = ["open", "deposit", "close"]


def run_ready_jobs(store: Store, done: list[tuple[str, str]]) -> None:
    """Run the jobs that are ready now; the first deposit of account-1 fails once."""
    for reservation in store.reserve(["accounts"], limit=10, lease_for=30 * SECOND):
        job = reservation.job
        account, step = str(job.domain), json.loads(job.payload)
        name = f"{account}: {step}"
        if (account, step, job.attempts) == ("account-1", "deposit", 1):
            retry(store, reservation.lease, delay=200 * MILLISECOND, error="the bank is closed")
            print(f"  {name:<20} failed; the later jobs of this account wait for its retry")
        else:
            ack(store, reservation.lease)
            done.append((account, step))
            print(f"  {name:<20} done")


with tempfile.TemporaryDirectory() as folder, connect(f"sqlite:///{folder}/jobs.db") as store:
    Client(store).enqueue(
        [
            JobRequest(type="account.step", queue="accounts", payload=step, domain=account)
            for step in STEPS
            for account in ("account-1", "account-2")
        ]
    )

    first = store.reserve(["accounts"], limit=10, lease_for=30 * SECOND)
    accounts = [str(reservation.job.domain) for reservation in first]
    print(f"6 jobs are ready; a reserve of 10 returns {len(first)}: the first jobs of {' and '.join(accounts)}")
    assert accounts == ["account-1", "account-2"]
    for reservation in first:
        ack(store, reservation.lease)

    done = [(account, "open") for account in accounts]
    while len(done) < 6:
        store.wait(["accounts"], timeout=1)
        run_ready_jobs(store, done)

    for account in accounts:
        assert [step for domain, step in done if domain == account] == STEPS
    assert done.index(("account-2", "close")) < done.index(("account-1", "deposit"))
    print("each account was processed in order, and account-2 did not wait for account-1")
