"""Signals that arrive before the worker runs: the exit code is 0 and no job was reserved."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import click
import pytest

import holdfast
from holdfast import Client, JobRequest, State
from holdfast.cli import early_signals
from holdfast.cli.root import root

SIGNALS = pytest.mark.parametrize("number", early_signals.SIGNALS, ids=lambda number: number.name)

TASKS = """
from holdfast import Holdfast

app = Holdfast("sqlite:///jobs.db")

@app.handler("t")
def t(payload):
    raise AssertionError("it result")
"""

# Each snippet sends the signal at one point between the first line of the command and the start of its worker.
MOMENTS = {
    "while the command is imported": """
import importlib.abc

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "holdfast.cli.commands.work":
            send()

sys.meta_path.insert(0, Finder())
""",
    "while the user's module is imported": """
with open("tasks.py", "a") as file:
    file.write("import __main__\\n__main__.send()\\n")
""",
    "while the user's module is imported, which catches everything": """
with open("tasks.py", "a") as file:
    file.write("import __main__\\ntry:\\n    __main__.send()\\nexcept BaseException:\\n    pass\\n")
""",
    "while a destructor runs": """
with open("tasks.py", "a") as file:
    file.write("import __main__\\nclass Finalised:\\n    def __del__(self):\\n        __main__.send()\\nFinalised()\\n")
""",
    "while the store is opened": """
import holdfast.drivers.sqlite as sqlite
opened = sqlite.open_url

def open_url(*arguments, **options):
    store = opened(*arguments, **options)
    send()
    return store

sqlite.open_url = open_url
""",
    "when the worker is about to run": """
from holdfast.worker.worker import Worker
run = Worker.run

def send_and_run(*arguments):
    send()
    return run(*arguments)

Worker.run = send_and_run
""",
}

SCRIPT = """
import os, sys
from holdfast.cli import main

def send():
    print("sent", flush=True)
    os.kill(os.getpid(), {number})

{moment}
sys.argv = ["holdfast", "work", "tasks:app", "--processes", "1"]
sys.exit(main())
"""

ANNOUNCE_LISTENING = """
import sys
from holdfast.cli import main
from holdfast.cli import early_signals
listen = early_signals.listen

def listen_and_announce(arguments):
    listen(arguments)
    print("listens", flush=True)

early_signals.listen = listen_and_announce
sys.argv = ["holdfast", "work", "tasks:app", "--processes", "1"]
sys.exit(main())
"""


@pytest.fixture
def job(folder):
    """A job that must stay ready."""
    (folder / "tasks.py").write_text(TASKS)
    with holdfast.connect("sqlite:///jobs.db") as store:
        yield Client(store).enqueue(JobRequest(type="t")).id


def is_untouched(job_id: str) -> bool:
    with holdfast.connect("sqlite:///jobs.db") as store:
        record = store.get(job_id)
        assert record is not None
        return (record.state, record.attempts) == (State.READY, 0) and not store.ledger()


@SIGNALS
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_an_early_signal_exits_with_zero_and_reserves_nothing(job, moment, number):
    script = SCRIPT.format(moment=moment, number=int(number))
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert "sent" in result.stdout.splitlines()
    assert result.returncode == 0, result
    assert "Traceback" not in result.stderr
    assert is_untouched(job)


@SIGNALS
def test_a_signal_at_any_moment_exits_with_zero(folder, number):
    """Without a job in the store, so that the result does not depend on how far the worker got."""
    (folder / "tasks.py").write_text(TASKS)
    dice = random.Random(7)
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", ANNOUNCE_LISTENING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "listens\n"
        time.sleep(dice.uniform(0, 0.4))
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("line", "listens"),
    [
        ("work tasks:app", True),
        ("--url sqlite:///work --debug work tasks:app", True),
        ("--url=sqlite:///x work tasks:app", True),
        ("cron --url sqlite:///x run tasks:app --loop", True),
        ("cron next run", False),
        ("--space work enqueue t", False),
        ("enqueue work", False),
        ("job list", False),
        ("--config", False),
        ("--help", False),
        ("", False),
    ],
)
def test_only_commands_that_run_until_a_signal_handle_early_signals(line, listens, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # restored after the test
    before = {number: signal.getsignal(number) for number in early_signals.SIGNALS}
    try:
        early_signals.listen(line.split())
        assert [signal.getsignal(number) is early_signals._stop for number in early_signals.SIGNALS] == [
            listens,
            listens,
        ]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_the_list_of_options_with_a_value_matches_the_command():
    options = [option for option in root.params if isinstance(option, click.Option) and not option.is_flag]
    assert {name for option in options for name in option.opts} == early_signals.OPTIONS_WITH_VALUE


def test_main_with_arguments_leaves_the_signal_handlers_alone():
    before = signal.getsignal(signal.SIGTERM)
    from holdfast.cli import main

    assert main(["work", "nothing"]) == 2
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="wraps no exception of __set_name__ from Python 3.12 on")
@pytest.mark.parametrize("module", ["holdfast/cli/root.py", "tasks.py"])
def test_a_signal_while_a_class_is_created_exits_with_zero(folder, module):
    (folder / "tasks.py").write_text(
        "class Field:\n    def __set_name__(self, owner, name): pass\nclass C: x = Field()\n" + TASKS
    )
    script = f"""
import os, signal, sys
from holdfast.cli import main

def send(frame, event, _):
    if event == "call" and frame.f_code.co_name == "__set_name__" and {module!r} in called_from(frame):
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGTERM)

def called_from(frame):
    names = []
    while frame is not None:
        names.append(frame.f_code.co_filename)
        frame = frame.f_back
    return " ".join(names)

sys.setprofile(send)
sys.argv = ["holdfast", "work", "tasks:app", "--processes", "1"]
sys.exit(main())
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
