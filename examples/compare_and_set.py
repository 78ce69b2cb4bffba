"""The registry stores small rows that change by compare-and-set: a lock, and a write that commits with an ack."""

from __future__ import annotations

import tempfile

from holdfast import Client, JobRequest, State, connect
from holdfast.driver import MINUTE, SECOND, Change, Store, ack
from holdfast.drivers.requests import Read, Write
from holdfast.errors import LeaseError


def acquire(store: Store, name: str, owner: str) -> int | None:
    """Return the version of the lock, or None if another owner holds it. The lock expires after a minute."""
    [entry] = store.do(Write(changes=[Change(kind="lock", key=name, value=owner.encode(), version=0, ttl=MINUTE)]))
    return None if entry is None else entry.version


def release(store: Store, name: str, version: int) -> bool:
    """Release the lock; False if the version is not current, because another owner holds the lock."""
    [entry] = store.do(Write(changes=[Change(kind="lock", key=name, value=None, version=version)]))
    return entry is not None


with tempfile.TemporaryDirectory() as folder, connect(f"sqlite:///{folder}/jobs.db") as store:
    first_version = acquire(store, "nightly-report", "a")
    refused = acquire(store, "nightly-report", "b")
    print(f"lock:   a holds version {first_version}; b gets {refused}")
    assert first_version is not None
    assert refused is None
    assert release(store, "nightly-report", first_version)
    second_version = acquire(store, "nightly-report", "b")
    print(f"        a released the lock; b holds version {second_version}, and a can no longer release it")
    assert second_version is not None
    assert not release(store, "nightly-report", first_version)

    # Two jobs add to one balance. Each write commits together with the ack of its job, or not at all.
    [balance] = store.do(Write(changes=[Change(kind="balance", key="ada", value=b"100", version=0)]))
    assert balance is not None
    Client(store).enqueue([JobRequest(type="deposit", payload=50), JobRequest(type="deposit", payload=7)])
    first, second = store.reserve(["default"], limit=2, lease_for=30 * SECOND)

    deposit = Change(kind="balance", key="ada", value=b"150", version=balance.version)
    ack(store, first.lease, writes=(deposit,))
    print("writes: the first deposit and its ack were one commit")

    outdated = Change(kind="balance", key="ada", value=b"107", version=balance.version)
    try:
        ack(store, second.lease, writes=(outdated,))
    except LeaseError as error:
        print(f"        the second deposit used an old balance and was refused: {type(error).__name__}")
        job = store.get(second.job.id)
        assert job is not None
        assert job.state is State.INFLIGHT  # neither the balance nor the job has changed
    else:
        raise AssertionError("an update was lost")

    [current] = store.do(Read(kind="balance", keys=["ada"]))
    assert current is not None
    assert current.value is not None
    total = str(int(current.value) + 7).encode()
    ack(store, second.lease, writes=(Change(kind="balance", key="ada", value=total, version=current.version),))
    [current] = store.do(Read(kind="balance", keys=["ada"]))
    assert current is not None
    assert current.value == b"157"
    print(f"        computed again from the current balance, the second deposit commits: {current.value.decode()}")
