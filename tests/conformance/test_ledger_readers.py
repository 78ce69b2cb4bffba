"""A reader beside workers, trim and purge: it gets every row once, and finds the job of every row."""

import threading

import pytest

import holdfast
from holdfast.clock import DAY, SECOND
from holdfast.driver import Ack, Ending, Fail, JobRecord, LedgerReader, State
from holdfast.drivers.requests import Purge, Trim

JOBS, WORKERS, PAGE = 120, 3, 7
TIMEOUT_SECONDS = 120


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    return (
        f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else request.getfixturevalue("postgres_database")()
    )


def test_a_reader_gets_every_row_and_its_job_while_others_trim_and_purge(url):
    with holdfast.connect(url) as store:
        ids = [f"job-{number:04}" for number in range(JOBS)]
        store.enqueue([JobRecord(id=one, type="t", queue="q", payload=b"{}", created_at=1) for one in ids])
        reader, seen, stopped = LedgerReader(store, "outbox"), [], threading.Event()
        reader.read(limit=1)
        threads = [threading.Thread(target=work, args=(store,)) for _ in range(WORKERS)]
        threads += [threading.Thread(target=clean, args=(store, ids, stopped)) for _ in range(2)]
        for thread in threads:
            thread.start()
        deadline = threading.Timer(TIMEOUT_SECONDS, stopped.set)
        deadline.start()
        try:
            while len(seen) < JOBS and not stopped.is_set():
                for cursor, row in reader.read(limit=PAGE)[: PAGE - 2]:  # stops inside the page
                    if row.ending is not Ending.PURGED:
                        job = store.get(row.job_id)
                        assert job is not None, f"the job of row {row} was removed before the row was read"
                        assert job.state is row.state
                        seen.append(row.job_id)
                    assert reader.advance(cursor)
        finally:
            stopped.set()
            deadline.cancel()
            for thread in threads:
                thread.join(TIMEOUT_SECONDS)
        assert sorted(seen) == ids
        dead = [one for one in ids if (job := store.get(one)) is not None and job.state is State.DEAD]
        reader.forget()
        assert all(store.do(Purge(job_ids=dead)))


def work(store) -> None:
    while batch := store.reserve(["q"], limit=5, lease_for=60 * SECOND):
        settlements = [Fail(one.lease, reason="no") if int(one.job.id[-1]) % 2 else Ack(one.lease) for one in batch]
        assert store.settle(settlements) == [None] * len(batch)


def clean(store, ids, stopped) -> None:
    while not stopped.is_set():
        store.do(Purge(job_ids=[one for one in ids if int(one[-1]) % 3 == 0]))
        store.do(Trim(ended_for=DAY, ledger_for=1))
