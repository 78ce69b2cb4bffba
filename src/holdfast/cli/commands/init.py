"""``holdfast init``: write the two files that a first worker needs."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.command import Command
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.settings import FILE_NAME

TASKS = "tasks.py"

SETTINGS_TEXT = """\
# Settings of every holdfast command in this folder and below. HOLDFAST_URL and --url override them.
url = "sqlite:///jobs.db"
"""

TASKS_TEXT = '''\
"""Jobs of this project. Run them with: holdfast work tasks:app"""

from holdfast import Holdfast

app = Holdfast()  # the store: url in holdfast.toml, or HOLDFAST_URL


@app.handler("hello", max_attempts=3)
def hello(payload):
    """Runs once per job. The return value is stored as the job's result."""
    return f"Hello, {payload['name']}!"


if __name__ == "__main__":
    job = hello.enqueue({"name": "Ada"})
    print(f"job {job.id} is waiting; run it with: holdfast work tasks:app --until-drained")
'''


@click.command(cls=Command)
@pass_session
def init(session: Session) -> None:
    """Write a working holdfast.toml and tasks.py to this folder.

    Existing files are not overwritten.
    """
    files = {Path(FILE_NAME): SETTINGS_TEXT, Path(TASKS): TASKS_TEXT}
    existing = [str(path) for path in files if path.exists()]
    if existing:
        raise CommandFailed(ExitCode.FAILED, f"exists already, nothing was written: {', '.join(existing)}")
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        session.output.print_line(f"wrote {path}")
    session.output.print_line("")
    session.output.print_line("next:  python tasks.py                                enqueue a job")
    session.output.print_line("       holdfast work tasks:app --until-drained        run it")
    session.output.print_line("       holdfast job list                              see its state")
