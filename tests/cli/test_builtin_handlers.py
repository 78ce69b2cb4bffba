"""``holdfast work`` with built-in handlers: the settings of the command are the allowlists of its child processes."""

import json
import subprocess
import sys

import pytest

import holdfast

HOLDFAST = [sys.executable, "-m", "holdfast"]
APP = """
from holdfast import Holdfast

app = Holdfast()
app.builtin.shell()
app.builtin.command()


@app.command("double")
def double(payload: int) -> int:
    return 2 * payload
"""


@pytest.mark.parametrize("source", ["file", "variable", "nothing"])
def test_work_takes_the_allowlists_from_the_settings(folder, monkeypatch, source):
    (folder / "mine.py").write_text(APP)
    settings = 'url = "sqlite:///jobs.db"\n'
    if source == "file":
        settings += 'allowed_shell_commands = ["/usr/bin/printf"]\nallowed_commands = ["double"]\n'
    elif source == "variable":
        monkeypatch.setenv("HOLDFAST_ALLOWED_SHELL_COMMANDS", "/usr/bin/rsync, /usr/bin/printf")
        monkeypatch.setenv("HOLDFAST_ALLOWED_COMMANDS", "double")
    (folder / "holdfast.toml").write_text(settings, encoding="utf-8")
    with holdfast.connect(f"sqlite:///{folder}/jobs.db") as store:
        client = holdfast.Client(store)
        jobs = [
            client.enqueue(holdfast.JobRequest(type=type_, payload=payload)).id
            for type_, payload in (
                ("shell", {"argv": ["/usr/bin/printf", "hello"]}),
                ("shell", {"argv": ["/bin/sh", "-c", "id"]}),
                ("command", {"name": "double", "payload": 21}),
                ("command", {"name": "os.system", "payload": "id"}),
            )
        ]
        command = [*HOLDFAST, "work", "mine:app", "--until-drained", "--processes", "1", "--json"]
        worked = subprocess.run(command, capture_output=True, text=True, check=True)
        if source == "nothing":
            assert json.loads(worked.stdout) == {"dead": 4}
        else:
            assert json.loads(worked.stdout) == {"acked": 2, "dead": 2}
            assert client.result(jobs[0]) == {"exit_code": 0, "stdout": "hello", "stderr": ""}
            assert client.result(jobs[2]) == 42
        assert [client.get(jobs[index]).dead_reason.partition(":")[0] for index in (1, 3)] == ["not allowed"] * 2
