"""``holdfast init`` and ``holdfast work``: from an empty folder to a finished job."""

import json
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest

import holdfast
from holdfast.cli.app_commands import load_app
from holdfast.cli.session import Session
from holdfast.clock import MINUTE
from holdfast.driver import ack
from holdfast.drivers.requests import Configure
from holdfast.model.queue_settings import QueueSettings

HOLDFAST = [sys.executable, "-m", "holdfast"]


def test_work_prints_the_number_of_jobs_per_outcome(folder):
    (folder / "holdfast.toml").write_text('app = "mine:app"\n', encoding="utf-8")
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
    command = [*HOLDFAST, "work", "--until-drained", "--processes", "1", "--json"]
    worked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(worked.stdout) == {"acked": 2, "dead": 1}


APP_OF_THE_SETTINGS = "from holdfast import Holdfast\napp = Holdfast()\napp.handler('t')(lambda payload: payload)\n"


@pytest.mark.parametrize("source", ["file", "variable", "name"])
def test_work_uses_the_store_of_the_settings(folder, monkeypatch, source):
    (folder / "mine.py").write_text(APP_OF_THE_SETTINGS)
    if source == "file":
        (folder / "holdfast.toml").write_text('url = "sqlite:///other.db"\nspace = "tenant"\n', encoding="utf-8")
    elif source == "name":
        text = 'url = "sqlite:///jobs.db"\n[stores.other]\nurl = "sqlite:///other.db"\nspace = "tenant"\n'
        (folder / "holdfast.toml").write_text(text, encoding="utf-8")
    else:
        monkeypatch.setenv("HOLDFAST_URL", "sqlite:///other.db")
        monkeypatch.setenv("HOLDFAST_SPACE", "tenant")
    chosen = ["--url", "store:other"] if source == "name" else []
    with holdfast.connect(f"sqlite:///{folder}/other.db", space="tenant") as store:
        holdfast.Client(store).enqueue(holdfast.JobRequest(type="t", payload=1))
    command = [*HOLDFAST, "work", "mine:app", "--until-drained", "--processes", "1", *chosen]
    worked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "1 acked" in worked.stdout


def test_the_worker_of_a_command_keeps_rows_as_long_as_the_settings_say(folder, monkeypatch):
    (folder / "retention_app.py").write_text(APP_OF_THE_SETTINGS)
    (folder / "holdfast.toml").write_text('url = "memory://"\nkeep_ledger = "365d"\n', encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_KEEP_ENDED", "90d")
    app = load_app("retention_app:app", Session())
    options = app.worker().options
    assert (options.keep_ended, options.keep_ledger) == (timedelta(days=90), timedelta(days=365))
    options = app.worker(keep_ledger=timedelta(days=2)).options
    assert (options.keep_ended, options.keep_ledger) == (timedelta(days=90), timedelta(days=2))
    app.close()


def test_a_store_of_the_settings_that_the_app_does_not_use_is_reported(folder, monkeypatch):
    (folder / "mine.py").write_text(APP_OF_THE_SETTINGS.replace("Holdfast()", "Holdfast('sqlite:///jobs.db')"))
    monkeypatch.setenv("HOLDFAST_URL", "postgresql://me:s3cret@h/db")
    command = [*HOLDFAST, "work", "mine:app", "--until-drained", "--processes", "1"]
    worked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "mine:app names its own store; postgresql://me:***@h/db from HOLDFAST_URL is not used" in worked.stderr


def test_an_app_without_a_store_names_the_ways_to_give_one(run, folder):
    (folder / "storeless.py").write_text(APP_OF_THE_SETTINGS)
    assert "Holdfast(url), HOLDFAST_URL, or url in holdfast.toml" in run("work", "storeless:app", code=2).err


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


def test_a_queue_without_jobs_and_settings_may_be_misspelt(run, folder, url, store):
    """The worker says so in one line, and works all the same. A queue of a handler of the app may be empty."""
    source = "from holdfast import Holdfast\napp = Holdfast()\napp.handler('t', queue='reports')(lambda _: None)\n"
    (folder / "mine.py").write_text(source)
    client = holdfast.Client(store)
    done = client.enqueue(holdfast.JobRequest(type="t", queue="mail"))
    [reservation] = store.reserve(["mail"], limit=1, lease_for=MINUTE)
    ack(store, reservation.lease)
    store.do(Configure(queue="limited", settings=QueueSettings(rate=5.0)))
    assert client.wait(done.id, timeout=0).state == "done"

    def notes(*queues: str) -> list[str]:
        options = [option for queue in queues for option in ("--queue", queue)]
        worked = run("work", "mine:app", "--until-drained", "--processes", "1", "--log-level", "error", *options)
        return worked.err.splitlines()

    assert notes("mial") == ["the queue mial has no jobs and no settings yet; did you mean 'mail'?"]
    assert notes("report", "xyz") == [
        "the queue report has no jobs and no settings yet; did you mean 'reports'?",
        "the queue xyz has no jobs and no settings yet",
    ]
    assert notes("mail", "limited", "reports") == []
    assert notes() == []
    client.enqueue(holdfast.JobRequest(type="t", queue="mial"))
    assert notes("mial") == []


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
    assert "HOLDFAST_APP, or app in holdfast.toml), got none" in run("work", code=2).err
    assert "no module nowhere" in run("work", "nowhere:app", code=4).err
    assert "wanted a module such as tasks, got a file" in run("work", "tasks.py:app", code=4).err
    (folder / "half.py").write_text("app = 5\n")
    assert "half has no other" in run("work", "half:other", code=4).err
    assert "wanted a Holdfast app" in run("work", "half:app", code=2).err
    (folder / "empty.py").write_text("from holdfast import Holdfast\napp = Holdfast('memory://')\n")
    assert "has no handlers" in run("work", "empty:app", code=2).err


def test_an_invalid_duration_is_refused(run):
    assert "wanted" in run("work", "tasks:app", "--lease", "soon", code=2).err
