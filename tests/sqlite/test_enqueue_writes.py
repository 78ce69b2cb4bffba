"""Registry writes with an enqueue: calls that share a commit, and transactions of the caller."""

import sqlite3
import threading
from contextlib import closing

import pytest

from holdfast.drivers.requests import Enqueue, Scan, Write
from holdfast.errors import WriteRefused
from holdfast.model.registry import Change
from tests.sqlite.conftest import NOW

KIND = "schedule"


def change(key, value, **fields):
    return Change(kind=KIND, key=key, value=value, **fields)


def rows(store):
    return {entry.key: entry.value for entry in store.do(Scan(kind=KIND, now=NOW))}


def test_a_refused_call_does_not_affect_the_calls_that_share_its_commit(path, store, job):
    """Another process holds the file, so that all calls wait in the queue of one commit."""
    [row] = store.do(Write(changes=[change("state", b"old")], now=NOW))
    refused = []

    def enqueue(number):
        fires = [change("state", b"new", version=row.version), change(f"next-{number}", b"1", version=0)]
        plain = [change(f"plain-{number}", b"1", version=0)]
        try:
            store.do(Enqueue(jobs=[job(id=f"job-{number}")], writes=fires if number % 2 else plain, now=NOW))
        except WriteRefused as error:
            refused.append((error.job_id, error.key))

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        threads = [threading.Thread(target=enqueue, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        other.execute("COMMIT")
        for thread in threads:
            thread.join(60)
    assert len(refused) == 3
    lost = {job_id for job_id, _ in refused}
    [won] = {"job-1", "job-3", "job-5", "job-7"} - lost
    assert {key for _, key in refused} == {"state"}
    assert {one.id for one in store.find().items} == {"job-0", "job-2", "job-4", "job-6", won}
    plain = {f"plain-{number}": b"1" for number in (0, 2, 4, 6)}
    assert rows(store) == {"state": b"new", won.replace("job", "next"): b"1", **plain}


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_writes_belong_to_the_transaction_of_the_caller(path, store, job, commits):
    [row] = store.do(Write(changes=[change("state", b"old")], now=NOW))
    with closing(sqlite3.connect(path)) as connection:
        joined = store.joined(connection)
        joined.do(Enqueue(jobs=[job(id="mine")], writes=[change("state", b"new", version=row.version)], now=NOW))
        assert rows(store) == {"state": b"old"}
        with pytest.raises(WriteRefused):
            joined.do(Enqueue(jobs=[job(id="other")], writes=[change("state", b"newer", version=row.version)], now=NOW))
        joined.enqueue([job(id="last")], now=NOW)  # the refusal has left the transaction usable
        if commits:
            connection.commit()
        else:
            connection.rollback()
    assert [one.id for one in store.find().items] == (["last", "mine"] if commits else [])
    assert rows(store) == {"state": b"new" if commits else b"old"}
