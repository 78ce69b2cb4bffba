"""The registry: small rows changed by compare-and-set. A lock of it, and a write that commits with an ack."""

from __future__ import annotations

import contextlib
import tempfile

from holdfast import Client, JobRequest, LeaseError, State, ack, connect
from holdfast.clock import MINUTE, SECOND
from holdfast.drivers.contract import Change, Store


def lock(store: Store, name: str, owner: str) -> int | None:
    """The version under which ``owner`` now has the lock; None if somebody else has it. It expires by itself."""
    [entry] = store.write([Change(kind="lock", key=name, value=owner.encode(), version=0, ttl=MINUTE)])
    return None if entry is None else entry.version


def unlock(store: Store, name: str, version: int) -> bool:
    """Give the lock back, unless it has become somebody else's."""
    [entry] = store.write([Change(kind="lock", key=name, value=None, version=version)])
    return entry is not None


with (
    tempfile.TemporaryDirectory() as folder,
    contextlib.closing(connect(f"sqlite:///{folder}/jobs.db")) as store,
):
    ours = lock(store, "nightly-report", "a")
    theirs = lock(store, "nightly-report", "b")
    print(f"lock:   a has it under version {ours}, b is refused: {theirs}")
    assert ours is not None
    assert theirs is None
    assert unlock(store, "nightly-report", ours)
    later = lock(store, "nightly-report", "b")
    print(f"        a gave it back; b has it under version {later}, and a's version opens nothing")
    assert later is not None
    assert not unlock(store, "nightly-report", ours)

    # Two jobs add to one balance. Each write rides on its job's ack: both happen, or neither does.
    [balance] = store.write([Change(kind="balance", key="ada", value=b"100", version=0)])
    assert balance is not None
    assert balance.value is not None
    Client(store).enqueue([JobRequest(type="deposit", payload=50), JobRequest(type="deposit", payload=7)])
    first, second = store.reserve(["default"], limit=2, lease_for=30 * SECOND)

    deposit = Change(kind="balance", key="ada", value=b"150", version=balance.version)
    ack(store, first.lease, writes=(deposit,))
    print("writes: the first deposit and its ack are one commit")

    lost_update = Change(kind="balance", key="ada", value=b"107", version=balance.version)
    try:
        ack(store, second.lease, writes=(lost_update,))
    except LeaseError as error:
        print(f"        the second was computed from an old balance: {type(error).__name__}")
        refused = store.get(second.job.id)
        assert refused is not None
        assert refused.state is State.INFLIGHT  # nothing was changed, neither the balance nor the job
    else:
        raise AssertionError("an update was lost")

    [now] = store.read("balance", ["ada"])
    assert now is not None
    assert now.value is not None
    total = str(int(now.value) + 7).encode()
    ack(store, second.lease, writes=(Change(kind="balance", key="ada", value=total, version=now.version),))
    [now] = store.read("balance", ["ada"])
    assert now is not None
    assert now.value == b"157"
    print(f"        read again, computed again, acked: {now.value.decode()}")
