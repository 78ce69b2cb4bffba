"""Pause a queue, and limit its concurrency and its rate: `reserve` applies the limits to all workers together."""

from __future__ import annotations

import tempfile

from holdfast import Client, JobRequest, QueueSettings, connect
from holdfast.driver import HOUR, SECOND, ManualClock, Store, ack
from holdfast.drivers.requests import Configure


def reserve(store: Store, worker: str) -> int:
    """Reserve as many jobs as the limits allow; return their number."""
    return len(store.reserve(["mail"], limit=100, lease_for=60 * SECOND, worker=worker))


clock = ManualClock()  # advanced by the program, so that this example does not have to wait

with tempfile.TemporaryDirectory() as folder, connect(f"sqlite:///{folder}/jobs.db", clock=clock) as store:
    Client(store, clock=clock).enqueue([JobRequest(type="mail.send", queue="mail", payload=n) for n in range(100)])

    store.do(Configure(queue="mail", settings=QueueSettings(paused_until=clock.now() + HOUR)))
    reserved = reserve(store, "a")
    print(f"paused:            100 jobs are ready, a worker gets {reserved}")
    assert reserved == 0

    store.do(Configure(queue="mail", settings=QueueSettings(max_inflight=3)))
    reservations = store.reserve(["mail"], limit=100, lease_for=60 * SECOND, worker="a")
    reserved = reserve(store, "b")
    print(f"max_inflight=3:    the first worker gets {len(reservations)}, the second {reserved}")
    assert (len(reservations), reserved) == (3, 0)
    ack(store, reservations[0].lease)
    reserved = reserve(store, "b")
    print(f"                   after one ack, the second worker gets {reserved}")
    assert reserved == 1

    store.do(Configure(queue="mail", settings=QueueSettings(rate=10, burst=5)))
    counts = [reserve(store, "c")]
    for _ in range(3):
        clock.advance(SECOND // 5)
        counts.append(reserve(store, "c"))
    print(f"rate=10, burst=5:  at 0.0, 0.2, 0.4 and 0.6 s a worker gets {counts}")
    assert counts == [5, 2, 2, 2]

    store.do(Configure(queue="mail", settings=QueueSettings()))
    reserved = reserve(store, "d")
    print(f"no limits:         a worker gets the remaining {reserved} at once")
    assert reserved == 85
