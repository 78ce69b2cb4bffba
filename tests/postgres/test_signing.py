"""Signed jobs in a real database: stored in every way, verified by a real worker, changed and forged by SQL."""

import psycopg

from holdfast import Holdfast, JobRequest, connect
from holdfast.driver import JobFilter, State
from holdfast.drivers.postgres.copy import MIN_COPY_JOBS
from tests.worker.conftest import QUICK

COPIED = MIN_COPY_JOBS + 100


def make_app(url):
    app = Holdfast(url)
    app.handler("note", max_attempts=2)(lambda payload: payload)
    return app


def test_signed_jobs_run_and_changed_or_forged_rows_are_dead_letters(url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_SIGNING", "required")
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY", "correct horse battery staple")
    app = make_app(url)
    one = app.enqueue("note", 1)
    copied = app.tasks["note"].enqueue_many(range(COPIED), keys=map(str, range(COPIED)))
    app.client.enqueue([JobRequest(type="note", payload=n, meta={"n": n}) for n in range(3)])
    with psycopg.connect(url, options="-c search_path=holdfast") as connection:
        joined = app.enqueue("note", 2, connection=connection, name="joined")
        connection.commit()
        changes = {
            copied[0].id: "payload = '7'",
            copied[1].id: "queue = 'other'",
            copied[2].id: "idempotency_key = 'x'",
            copied[3].id: "signature = NULL",
            one.id: "max_attempts = 99",
            joined.id: "name = 'another'",
        }
        for job_id, change in changes.items():
            connection.execute(f"UPDATE jobs SET {change} WHERE id = %s", [job_id])
        columns = connection.execute(
            "SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute WHERE attrelid = 'jobs'::regclass AND "
            "attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attidentity = '' "
            "AND attname NOT IN ('id', 'idempotency_key', 'seq')"
        ).fetchone()[0]
        connection.execute(  # a copy of a signed job, with an id of its own
            f"INSERT INTO jobs (id, {columns}) SELECT 'forged', {columns} FROM jobs WHERE id = %s", [copied[9].id]
        )
    counts = app.worker(processes=1, retry=QUICK, queues=("default", "other")).run(until_drained=True)
    app.close()
    assert counts == {"acked": COPIED + 5 - len(changes), "rejected": len(changes) + 1}
    with connect(url) as store:
        dead = store.find(JobFilter(states=(State.DEAD,)), limit=20).items
        assert {job.id for job in dead} == {*changes, "forged"}
        assert {(job.dead_reason, job.result) for job in dead} == {("bad signature", None)}


def test_a_reviewed_job_is_signed_again_and_runs(url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_SIGNING", "required")
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY", "correct horse battery staple")
    app = make_app(url)
    job_id = app.enqueue("note", 1).id
    with psycopg.connect(url, options="-c search_path=holdfast") as connection:
        connection.execute("UPDATE jobs SET payload = '7'")
    worker = app.worker()
    assert worker.process_once().status == "rejected"
    assert app.client.requeue_signed([app.client.get(job_id)]) == [True]
    assert worker.process_once().status == "acked"
    assert app.client.result(job_id) == 7
    worker.close()
    app.close()
