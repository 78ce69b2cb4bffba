"""``holdfast init`` and ``holdfast work``: from an empty folder to a finished job."""

import json
import signal
import subprocess
import sys
import time

import holdfast

HOLDFAST = [sys.executable, "-m", "holdfast"]


def test_init_writes_a_working_project(run, folder):
    out = run("init").out
    assert "wrote holdfast.toml" in out
    assert "wrote tasks.py" in out
    enqueued = subprocess.run([sys.executable, "tasks.py"], capture_output=True, text=True, check=True)
    assert "is waiting" in enqueued.stdout
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


def test_work_prints_the_number_of_jobs_per_outcome(folder):
    (folder / "mine.py").write_text(
        "from holdfast import Holdfast\n"
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


def test_work_runs_only_the_jobs_of_the_given_space(folder):
    (folder / "mine.py").write_text(
        "from holdfast import Holdfast\n"
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


def test_a_signal_stops_the_worker_with_exit_code_zero(run, folder):
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


def test_a_missing_or_wrong_app_is_reported(run, folder):
    assert "wanted MODULE:APP" in run("work", "tasks", code=2).err
    assert "no module nowhere" in run("work", "nowhere:app", code=4).err
    (folder / "half.py").write_text("app = 5\n")
    assert "half has no other" in run("work", "half:other", code=4).err
    assert "wanted a Holdfast app" in run("work", "half:app", code=2).err
    (folder / "empty.py").write_text("from holdfast import Holdfast\napp = Holdfast('memory://')\n")
    assert "has no handlers" in run("work", "empty:app", code=2).err


def test_an_invalid_duration_is_refused(run):
    assert "wanted" in run("work", "tasks:app", "--lease", "soon", code=2).err
