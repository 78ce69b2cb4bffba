"""Pause, concurrency and rate limits of a queue: rows that `reserve` honours, for every worker at once."""

from __future__ import annotations

import contextlib
import tempfile

from holdfast import Client, JobRequest, QueueSettings, ack, connect
from holdfast.clock import SECOND, ManualClock
from holdfast.drivers.contract import Store
from holdfast.model.bounds import MAX_INSTANT


def reserve(store: Store, worker: str) -> int:
    """Take as much as is allowed; gives how much that was."""
    return len(store.reserve(["mail"], limit=100, lease_for=60 * SECOND, worker=worker))


clock = ManualClock()  # moved by hand, so that nothing here waits

with (
    tempfile.TemporaryDirectory() as folder,
    contextlib.closing(connect(f"sqlite:///{folder}/jobs.db", clock=clock)) as store,
):
    Client(store, clock=clock).enqueue([JobRequest(type="mail.send", queue="mail", payload=n) for n in range(100)])

    store.configure("mail", QueueSettings(paused_until=MAX_INSTANT))
    none = reserve(store, "a")
    print(f"paused:            100 jobs are ready, a worker gets {none}")
    assert none == 0

    store.configure("mail", QueueSettings(max_inflight=3))
    held = store.reserve(["mail"], limit=100, lease_for=60 * SECOND, worker="a")
    second = reserve(store, "b")
    print(f"max_inflight=3:    one worker gets {len(held)}, the next one {second}")
    assert (len(held), second) == (3, 0)
    ack(store, held[0].lease)
    third = reserve(store, "b")
    print(f"                   one acked, and there is room for {third}")
    assert third == 1

    store.configure("mail", QueueSettings(rate=10, burst=5))
    taken = [reserve(store, "c")]
    for _ in range(3):
        clock.advance(SECOND // 5)
        taken.append(reserve(store, "c"))
    print(f"rate=10, burst=5:  at 0.0, 0.2, 0.4 and 0.6 s a worker gets {taken}")
    assert taken == [5, 2, 2, 2]

    store.configure("mail", QueueSettings())
    rest = reserve(store, "d")
    print(f"no limits:         the remaining {rest} at once")
    assert rest == 85
