"""``holdfast init``: write a small project that runs: an app, its settings, a test."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from holdfast.cli.command import Command
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session

TEMPLATES = {  # folders of holdfast/cli/templates, each with the commands to try first
    "script": (
        ("python tasks.py", "enqueue a job"),
        ("holdfast work tasks:app --until-drained", "run it"),
        ("holdfast job list", "see its state"),
    ),
    "fastapi": (
        ("uvicorn main:web", "start the web service"),
        ("holdfast work jobs:app", "run its jobs, in another terminal"),
        ("pytest", "test both"),
    ),
    "spark": (
        ("python pipeline.py", "run a DataFrame through a handler"),
        ("holdfast dead groups", "see the rows that failed"),
        ("pytest", "test the pipeline"),
    ),
}


@click.command(cls=Command)
@click.option(
    "--template",
    type=click.Choice(list(TEMPLATES)),
    default="script",
    show_default=True,
    help="A script, a FastAPI service, or a Spark pipeline.",
)
@pass_session
def init(session: Session, *, template: str) -> None:
    """Write a small working project to this folder.

    Existing files are not overwritten: if one of the files exists, nothing is written.
    """
    files = _files_of(template)
    existing = [name for name in files if Path(name).exists()]
    if existing:
        raise CommandFailed(ExitCode.FAILED, f"exists already, nothing was written: {', '.join(existing)}")
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
        session.output.print_line(f"wrote {name}")
    session.output.print_line()
    for place, (command, purpose) in enumerate(TEMPLATES[template]):
        session.output.print_line(f"{'next:' if place == 0 else '':<7}{command:<45}{purpose}")


def _files_of(template: str) -> dict[str, str]:
    folder = resources.files("holdfast.cli") / "templates" / template
    files = {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.is_file()}
    return dict(sorted(files.items()))
