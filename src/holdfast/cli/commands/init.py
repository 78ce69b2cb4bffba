"""``holdfast init``: the two files a first worker needs."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.session import Code, Command, Session, Stop, pass_session
from holdfast.settings import FILE_NAME

TASKS = "tasks.py"

SETTINGS_TEXT = """\
# Settings of every holdfast command in this folder and below. HOLDFAST_URL and --url come first.
url = "sqlite:///jobs.db"
"""

TASKS_TEXT = '''\
"""Jobs of this project. Run them with: holdfast work tasks:app"""

import os

from holdfast.app import Holdfast

app = Holdfast(os.environ.get("HOLDFAST_URL", "sqlite:///jobs.db"))


@app.handler("hello", max_attempts=3)
def hello(payload):
    """Called with the payload of each job; what it returns is kept with the job."""
    return f"Hello, {payload['name']}!"


if __name__ == "__main__":
    answer = hello.enqueue({"name": "Ada"})
    print(f"job {answer.id} is waiting; run it with: holdfast work tasks:app --until-drained")
'''


@click.command(cls=Command)
@pass_session
def init(session: Session) -> None:
    """Write a holdfast.toml and a tasks.py that works.

    Into this folder; nothing is overwritten.
    """
    files = {Path(FILE_NAME): SETTINGS_TEXT, Path(TASKS): TASKS_TEXT}
    there = [str(path) for path in files if path.exists()]
    if there:
        raise Stop(Code.WRONG, f"already here, and left as it is: {', '.join(there)}")
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        session.screen.line(f"wrote {path}")
    session.screen.line("")
    session.screen.line("next:  python tasks.py                                a job")
    session.screen.line("       holdfast work tasks:app --until-drained        run it")
    session.screen.line("       holdfast job list                              look at it")
