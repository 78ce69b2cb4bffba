"""From an empty folder to a job that ran, with nothing but the command."""

import json
import signal
import subprocess
import sys
import time

import holdfast

HOLDFAST = [sys.executable, "-m", "holdfast"]


def test_init_writes_what_works(run, folder):
    said = run("init").out
    assert "wrote holdfast.toml" in said
    assert "wrote tasks.py" in said
    made = subprocess.run([sys.executable, "tasks.py"], capture_output=True, text=True, check=True)
    assert "is waiting" in made.stdout
    worked = subprocess.run(
        [*HOLDFAST, "work", "tasks:app", "--until-drained"], capture_output=True, text=True, check=True
    )
    assert "1 acked" in worked.stdout
    with holdfast.connect(f"sqlite:///{folder}/jobs.db") as store:
        assert [(count.type, count.done) for count in store.counts()] == [("hello", 1)]


def test_init_overwrites_nothing(run, folder):
    (folder / "tasks.py").write_text("mine")
    assert "tasks.py" in run("init", code=1).err
    assert (folder / "tasks.py").read_text() == "mine"
    assert not (folder / "holdfast.toml").exists()


def test_work_counts_what_it_did(folder):
    (folder / "mine.py").write_text(
        "from holdfast.app import Holdfast\n"
        "app = Holdfast('sqlite:///jobs.db')\n"
        "@app.handler('t', max_attempts=1)\n"
        "def t(payload):\n"
        "    return 1 / payload\n"
        "if __name__ == '__main__':\n"
        "    app.client.enqueue([t.request(n) for n in (1, 2, 0)])\n"
    )
    subprocess.run([sys.executable, "mine.py"], check=True)
    command = [*HOLDFAST, "work", "mine:app", "--until-drained", "--processes", "1", "--json"]
    worked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(worked.stdout) == {"acked": 2, "dead": 1}


def test_work_is_done_in_the_space_that_was_asked_for(folder):
    (folder / "mine.py").write_text(
        "from holdfast.app import Holdfast\n"
        "app = Holdfast('sqlite:///jobs.db')\n"
        "app.handler('t')(lambda payload: payload)\n"
    )
    with holdfast.connect(f"sqlite:///{folder}/jobs.db") as store:
        for space in ("main", "tenant"):
            holdfast.Client(store.space(space)).enqueue(holdfast.JobRequest(type="t", payload=1))
    command = [*HOLDFAST, "work", "mine:app", "--until-drained", "--space", "tenant"]
    assert "1 acked" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with holdfast.connect(f"sqlite:///{folder}/jobs.db") as store:
        assert [sum(count.done for count in store.space(space).counts()) for space in ("main", "tenant")] == [0, 1]


def test_a_signal_ends_it_with_zero(run, folder):
    run("init")
    process = subprocess.Popen(
        [*HOLDFAST, "work", "tasks:app"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert "at a time from default" in process.stdout.readline()
    while "worker.started" not in process.stderr.readline():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "nothing done\n")


def test_an_app_that_is_not_there_is_named(run, folder):
    assert "wanted MODULE:APP" in run("work", "tasks", code=2).err
    assert "no module nowhere" in run("work", "nowhere:app", code=4).err
    (folder / "half.py").write_text("app = 5\n")
    assert "half has no other" in run("work", "half:other", code=4).err
    assert "wanted a Holdfast app" in run("work", "half:app", code=2).err
    (folder / "empty.py").write_text("from holdfast.app import Holdfast\napp = Holdfast('memory://')\n")
    assert "has no handlers" in run("work", "empty:app", code=2).err


def test_bad_lengths_get_one_line(run):
    assert "wanted" in run("work", "tasks:app", "--lease", "soon", code=2).err
