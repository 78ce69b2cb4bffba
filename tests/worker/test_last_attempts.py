"""Jobs on their last attempt: they use every process, never run twice, and never die before they have begun (L7)."""

import sqlite3
import time
from contextlib import closing
from datetime import timedelta

from holdfast.driver import State
from tests.soak.last_attempts import run_last_attempt_kills
from tests.waiting import wait_until

PROCESSES = 4


def test_last_attempts_use_every_process(app, drain, tmp_path):
    """Each job waits until as many run as there are processes."""

    @app.handler("once", max_attempts=1)
    def once(number):
        (tmp_path / f"began-{number}").touch()
        least = number // PROCESSES * PROCESSES + PROCESSES
        wait_until(lambda: len(list(tmp_path.glob("began-*"))) >= least)

    once.enqueue_many(range(2 * PROCESSES))
    assert drain(processes=PROCESSES, lease=timedelta(seconds=30)) == {"acked": 2 * PROCESSES}


def test_no_place_is_left_free_while_last_attempts_wait_behind_short_jobs(app, drain):
    """A place that becomes free is filled after one call to the store, and not after a poll."""
    once = app.handler("once", max_attempts=1)(lambda payload: payload)
    many = app.handler("many")(lambda payload: payload)
    for number in range(200):
        (many if number % 2 else once).enqueue(number)
    began = time.monotonic()
    assert drain(processes=2) == {"acked": 200}
    assert time.monotonic() - began < 100 * 0.25 / 2


def test_the_store_knows_that_a_last_attempt_begins_before_its_handler_runs(app, drain):
    path = app.driver.engine.path

    @app.handler("once")
    def once(_payload, ctx):
        with closing(sqlite3.connect(path)) as connection:
            query = "SELECT started_at IS NOT NULL FROM holdfast_jobs WHERE id = ?"
            return connection.execute(query, [ctx.job.id]).fetchone()[0]

    last = [once.enqueue(None, max_attempts=1).id for _ in range(3)]
    other = once.enqueue(None).id
    assert drain(processes=2, lease=timedelta(seconds=60)) == {"acked": 4}
    assert [app.client.result(job_id) for job_id in [*last, other]] == [1, 1, 1, 0]


def test_a_last_attempt_shares_no_call_with_other_jobs(app, drain):
    """A call that crashes would be the end of it."""

    @app.handler("chunk", chunk=10)
    def chunk(payloads):
        return [len(payloads)] * len(payloads)

    last = [chunk.enqueue(number, max_attempts=1).id for number in range(3)]
    others = [chunk.enqueue(number).id for number in range(3)]
    drain(processes=1)
    assert [app.client.result(job_id) for job_id in last] == [1, 1, 1]
    assert [app.client.get(job_id).state for job_id in others] == [State.DONE] * 3


def test_a_killed_worker_ends_the_last_attempt_that_had_begun_and_no_other(tmp_path):
    run_last_attempt_kills(tmp_path, f"sqlite:///{tmp_path}/jobs.db", kills=3)


def test_a_killed_worker_ends_the_last_attempt_that_had_begun_and_no_other_on_postgres(tmp_path, postgres_database):
    run_last_attempt_kills(tmp_path, postgres_database(), kills=2)
