"""Signed jobs in an app: who signs, what a worker does with a job that is not as it was signed."""

import logging
import sqlite3
import threading
from functools import partial

import pytest
from msgspec.structs import replace

from holdfast import Client, Holdfast, JobRequest, connect
from holdfast.approvals import approve
from holdfast.driver import JobFilter, State
from holdfast.drivers.requests import Requeue
from holdfast.errors import InvalidInput
from holdfast.key_file import KeyFile, rotate
from holdfast.observability import InMemoryMetrics
from holdfast.observability import metric_table as table
from holdfast.wire.signing import KeyRing, Signer, SigningKey
from holdfast.worker import verification
from holdfast.worker.verification import Verification
from tests.worker.conftest import QUICK

SECRET = "correct horse battery staple"


@pytest.fixture
def signing(monkeypatch, tmp_path):
    """Set the mode and the key of this process."""
    monkeypatch.chdir(tmp_path)

    def set_variables(mode, secret=SECRET):
        monkeypatch.setenv("HOLDFAST_SIGNING", mode)
        monkeypatch.setenv("HOLDFAST_SIGNING_KEY", secret)

    return set_variables


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


def make_app(path):
    """An app that reads the settings as they are now."""
    app = Holdfast(f"sqlite:///{path}")

    @app.handler("note", max_attempts=2)
    def note(payload):
        return payload

    return app


def change(path, statement, *values):
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()


def run(app):
    try:
        return app.worker(processes=1, retry=QUICK).run(until_drained=True)
    finally:
        app.close()


def test_jobs_signed_in_every_way_run_in_a_worker(signing, path):
    signing("required")
    app = make_app(path)
    task = app.tasks["note"]
    app.enqueue("note", 1)
    task.enqueue_many(range(700))
    app.client.enqueue([JobRequest(type="note", payload=n) for n in range(3)])
    signatures = {job.signature for job in app.driver.find(limit=1000)}
    assert len(signatures) == 704
    assert None not in signatures
    assert run(app) == {"acked": 704}


def test_changed_jobs_become_dead_letters_and_their_handler_does_not_run(signing, path):
    signing("required")
    app = make_app(path)
    app.metrics = metrics = InMemoryMetrics()
    ids = [app.enqueue("note", n).id for n in range(4)]
    for field, value, job_id in (("payload", b"7", ids[0]), ("name", "x", ids[1]), ("signature", None, ids[2])):
        change(path, f"UPDATE holdfast_jobs SET {field} = ? WHERE id = ?", value, job_id)
    assert run(app) == {"acked": 1, "rejected": 3}
    assert metrics.value(table.DEAD.name, reason="bad signature") == 3
    with connect(f"sqlite:///{path}") as store:
        dead = store.find(JobFilter(states=(State.DEAD,))).items
        assert [job.id for job in dead] == ids[:3]
        assert {(job.dead_reason, job.result) for job in dead} == {("bad signature", None)}
        assert "no signature" in dead[2].last_error
        # A requeue keeps the signature: the job is rejected again.
        store.do(Requeue(job_ids=ids[:1]))
    assert run(make_app(path)) == {"rejected": 1}


def test_a_signed_payload_with_a_key_twice_is_a_dead_letter(signing, path):
    signing("required")
    app = make_app(path)
    job = app.driver.get(app.enqueue("note", 1).id)
    payloads = (b'{"a":1,"a":2}', b'[{"b": {"a":1, "a":1}}]', b'{"a":1,"\\u0061":2}', b'{"a": 1, "b": "a"}')
    jobs = [replace(job, id=f"job-{number}", payload=payload) for number, payload in enumerate(payloads)]
    app.driver.enqueue(app.client.signer.sign(jobs))
    assert run(app) == {"acked": 2, "rejected": 3}
    with connect(f"sqlite:///{path}") as store:
        dead = store.find(JobFilter(states=(State.DEAD,))).items
        assert {(job.dead_reason, job.last_error) for job in dead} == {
            ("bad signature", "an object in the payload has a key twice: which value was signed is unknown")
        }


def test_a_reviewed_dead_letter_runs_after_an_operator_has_signed_it(signing, path, caplog):
    signing("required")
    app = make_app(path)
    ids = [app.enqueue("note", n).id for n in range(2)]
    change(path, "UPDATE holdfast_jobs SET payload = ?", b"7")
    assert run(app) == {"rejected": 2}
    app = make_app(path)
    reviewed = [app.client.get(job_id) for job_id in ids]
    change(path, "UPDATE holdfast_ended SET payload = ? WHERE id = ?", b"8", ids[1])  # after the review
    caplog.clear()
    with caplog.at_level(logging.WARNING, "holdfast.signing"):
        assert app.client.requeue_signed(reviewed) == [True, True]
    assert [(record.event, record.job_id, record.reason) for record in caplog.records] == [
        ("job.signed_again", job_id, "bad signature") for job_id in ids
    ]
    assert run(app) == {"acked": 1, "rejected": 1}
    with connect(f"sqlite:///{path}") as store:
        assert [store.get(job_id).state for job_id in ids] == [State.DONE, State.DEAD]
        with pytest.raises(InvalidInput, match="wanted a client with a signer"):
            Client(store).requeue_signed(reviewed)


def test_an_approval_without_a_valid_signature_changes_nothing(signing, path):
    signing("required")
    app = make_app(path)
    job_id = app.enqueue("note", 1).id
    change(path, "UPDATE holdfast_jobs SET payload = ?", b"7")
    forged = Signer(KeyRing([SigningKey(id="k1", secret=b"x" * 16)]))
    approve(app.driver, forged, [app.client.get(job_id)])
    assert run(app) == {"rejected": 1}


def test_a_job_whose_key_is_lost_runs_after_an_operator_has_signed_it(signing, path):
    signing("required", "a secret that is lost soon")
    app = make_app(path)
    app.enqueue("note", 1)
    app.close()
    signing("required")
    app = make_app(path)
    [job] = app.driver.find().items
    app.client.cancel(job.id)  # otherwise it is released for a day, and then a dead letter
    assert app.client.requeue_signed([job]) == [True]
    assert run(app) == {"acked": 1}


def test_accept_runs_unsigned_jobs_and_rejects_changed_ones(signing, path):
    signing("off")
    app = make_app(path)
    app.enqueue("note", 1)
    app.close()
    signing("accept")
    app = make_app(path)
    changed = app.enqueue("note", 2).id
    change(path, "UPDATE holdfast_jobs SET payload = ? WHERE id = ?", b"3", changed)
    assert run(app) == {"acked": 1, "rejected": 1}


def test_a_job_of_another_space_or_queue_is_rejected(signing):
    signing("required")
    with connect("memory://") as store:
        app = Holdfast(driver=store)
        app.handler("note")(lambda payload: payload)
        for space, queue in (("other", "default"), ("main", "mail")):
            with connect("memory://", space=space) as elsewhere:
                Holdfast(driver=elsewhere).enqueue("note", 1, queue=queue)
                [job] = elsewhere.find()
            store.enqueue([replace(job, queue="default")])
        worker = app.worker()
        statuses = [worker.process_once("default").status for _ in range(2)]
        assert statuses == ["rejected", "rejected"]
        worker.close()


def test_a_job_with_an_unknown_key_is_released_and_runs_once_the_key_is_known(monkeypatch, tmp_path, path):
    keys, other_keys = tmp_path / "keys", tmp_path / "other"
    rotate(keys)
    rotate(other_keys)
    monkeypatch.setenv("HOLDFAST_SIGNING", "required")
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY_FILE", str(keys))
    app = make_app(path)
    app.enqueue("note", 1)
    app.close()
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY_FILE", str(other_keys))
    other = make_app(path)
    worker = other.worker()
    assert worker.process_once().status == "released"
    [job] = other.driver.find().items
    assert (job.state, job.attempts) == (State.READY, 0)
    keys.replace(other_keys)  # the worker reads the file again: it does not know the key
    change(path, "UPDATE holdfast_jobs SET run_at = NULL, available_at = 0")
    assert worker.process_once().status == "acked"
    worker.close()
    other.close()


@pytest.mark.parametrize("mode", ["accept", "required"])
def test_a_producer_and_a_worker_without_a_key_do_not_start(monkeypatch, path, mode, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_SIGNING", mode)
    app = make_app(path)
    for start in (lambda: app.client, app.worker):
        with pytest.raises(InvalidInput, match=f"signing = {mode}: wanted a key: HOLDFAST_SIGNING_KEY"):
            start()
    app.close()


def test_many_rejected_jobs_in_a_row_pause_this_worker(caplog):
    signer = Signer(KeyRing([SigningKey(id="k1", secret=SECRET.encode())]), required=True)
    with connect("memory://") as store:
        Client(store).enqueue_many(JobRequest(type="note"), range(20))
        jobs = store.find().items
        good = signer.sign(jobs)
        check = Verification(store, signer, worker="w")
        for job in jobs[: verification.MAX_REJECTED_IN_A_ROW - 1]:
            check.check(job)
        assert check.check(good[0]) is None  # begins a new count
        with caplog.at_level(logging.ERROR, "holdfast.worker"):
            for job in jobs[: verification.MAX_REJECTED_IN_A_ROW]:
                assert not check.pause_left()
                check.check(job)
        assert check.pause_left() > 0
        assert [record.event for record in caplog.records] == ["reserve.paused"]


def test_no_good_job_is_lost_while_keys_are_rotated(monkeypatch, tmp_path, path):
    keys = tmp_path / "keys"
    rotate(keys)
    monkeypatch.setenv("HOLDFAST_SIGNING", "required")
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY_FILE", str(keys))
    monkeypatch.setattr("holdfast.signing.KeyFile", partial(KeyFile, check_interval_seconds=0.0))
    app = make_app(path)
    worker, stop = app.worker(processes=1, retry=QUICK), threading.Event()
    worker.prepare()
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    used = set()
    for _ in range(3):
        ids = [answer.id for answer in app.tasks["note"].enqueue_many(range(100))]
        used.add(app.driver.get(ids[0]).signature.partition(":")[0])
        rotate(keys)
    for job in app.driver.find(limit=1000).items:
        app.client.wait(job.id, timeout=60)
    stop.set()
    thread.join(60)
    assert worker.tally.statuses == {"acked": 300}
    assert len(used) == 3
    app.close()
