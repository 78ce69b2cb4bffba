"""A file that is moved, deleted or replaced while it is open: nothing is accepted that a restart would lose."""

import shutil
import sqlite3
from contextlib import closing

import pytest

import holdfast
from holdfast import Holdfast
from holdfast.errors import StoreMoved
from tests.sqlite.conftest import NOW


def move(path):
    path.rename(path.with_suffix(".moved"))


def delete(path):
    path.unlink()


def replace(path):
    shutil.copyfile(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").replace(path)


def move_folder(path):
    path.parent.rename(path.parent.with_suffix(".moved"))


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder / "jobs.db"


@pytest.mark.parametrize("lose", [move, delete, replace, move_folder])
@pytest.mark.parametrize("disconnects", [False, True], ids=["", "disconnects"])
def test_a_file_that_is_lost_is_refused_by_every_call(store, path, job, lose, disconnects):
    store.enqueue([job()], now=NOW)
    if disconnects:
        store.engine._database.disconnect()  # as before a fork
    lose(path)
    existed = path.exists()
    calls = [
        lambda: store.enqueue([job()], now=NOW),
        lambda: store.enqueue([job(), job()], now=NOW),
        lambda: store.reserve(["q"], limit=1, lease_for=10, now=NOW),
        lambda: store.counts(now=NOW),
        store.engine._database.version,
    ]
    for call in calls:
        with pytest.raises(StoreMoved, match=r"jobs\.db.*restart"):
            call()
    assert path.exists() == existed  # no empty file is made in its place


def test_nothing_is_committed_after_a_move_and_all_goes_on_after_the_way_back(store, path, job):
    store.enqueue([job()], now=NOW)
    move(path)
    for jobs in ([job()], [job(), job()]):
        with pytest.raises(StoreMoved):
            store.enqueue(jobs, now=NOW)
    path.with_suffix(".moved").rename(path)
    assert store.counts(now=NOW)[0].ready == 1
    store.enqueue([job()], now=NOW)
    assert store.counts(now=NOW)[0].ready == 2


def test_a_move_between_the_start_and_the_commit_of_a_write_is_noticed(store, path, job):
    store.enqueue([job()], now=NOW)

    def write(connection):
        connection.execute("DELETE FROM holdfast_jobs")
        move(path)

    with pytest.raises(StoreMoved):
        store.engine._database.write(write)
    path.with_suffix(".moved").rename(path)
    assert store.counts(now=NOW)[0].ready == 1


def test_a_job_in_the_transaction_of_a_caller_is_refused(store, path, job):
    with closing(sqlite3.connect(path)) as connection:
        joined = store.joined(connection)
        joined.enqueue([job()], now=NOW)
        connection.commit()
        replace(path)
        with pytest.raises(StoreMoved):
            joined.enqueue([job()], now=NOW)
        delete(path)
        with pytest.raises(StoreMoved):
            store.joined(connection).enqueue([job()], now=NOW)


def test_a_worker_takes_no_job_of_a_moved_file(path):
    app = Holdfast(f"sqlite:///{path}")
    app.handler("t")(lambda _: None)
    app.enqueue("t", None)
    worker = app.worker()
    assert worker.process_once().status == "acked"
    move(path)
    with pytest.raises(StoreMoved):
        worker.process_once()
    worker.close()
    app.close()


def test_a_symbolic_link_may_lead_to_the_file(tmp_path, job):
    (tmp_path / "link.db").symlink_to(tmp_path / "jobs.db")
    with holdfast.connect(f"sqlite:///{tmp_path}/link.db") as store:
        store.enqueue([job()])
        (tmp_path / "other.db").touch()
        (tmp_path / "other.db").replace(tmp_path / "link.db")
        with pytest.raises(StoreMoved):
            store.enqueue([job()])
