"""A ledger reader that resumes exactly: its count and its cursor are stored in one row of the registry.

If the reader crashes before it writes the row, the same page is read again; if it crashes afterwards, no page is read
twice. The row is written by compare-and-set, so a second reader cannot count the same page again.
"""

from __future__ import annotations

import contextlib
import json
import tempfile

from holdfast import Client, JobRequest, connect
from holdfast.driver import SECOND, Ack, Change, Ending, Store
from holdfast.drivers.requests import Read, Write


class Crash(Exception):
    """Simulates the crash of the reader."""


def count_next_page(store: Store, *, crash: bool = False) -> bool:
    """Count the acked jobs of the next page; False if there are no new rows."""
    [row] = store.do(Read(kind="reader", keys=["billing"]))
    cursor, before = (None, 0) if row is None or row.value is None else json.loads(row.value)
    page = store.ledger(cursor, 25)
    acked = sum(entry.ending is Ending.ACKED for entry in page.items)
    if crash:
        raise Crash
    if not page.items:
        return False
    value = json.dumps([page.cursor, before + acked]).encode()
    [written] = store.do(
        Write(changes=[Change(kind="reader", key="billing", value=value, version=0 if row is None else row.version)])
    )
    assert written is not None, "another reader has counted this page"
    print(f"  {acked} more acked jobs, {before + acked} in total; cursor {page.cursor}")
    return True


def run_jobs(store: Store, count: int) -> None:
    Client(store).enqueue([JobRequest(type="step", payload=number) for number in range(count)])
    while batch := store.reserve(["default"], limit=50, lease_for=30 * SECOND):
        store.settle([Ack(reservation.lease) for reservation in batch])


with tempfile.TemporaryDirectory() as folder:
    url = f"sqlite:///{folder}/jobs.db"
    with connect(url) as store, contextlib.suppress(Crash):
        run_jobs(store, 60)
        print("60 jobs have run; the reader counts one page and crashes during the next")
        count_next_page(store)
        count_next_page(store, crash=True)

    with connect(url) as store:
        run_jobs(store, 40)
        print("40 more jobs have run; the reader starts again")
        while count_next_page(store):
            pass
        [row] = store.do(Read(kind="reader", keys=["billing"]))
        assert row is not None
        assert row.value is not None
        cursor, counted = json.loads(row.value)
        assert counted == 100
        print(f"100 jobs, {counted} counted: none missed, none counted twice")
