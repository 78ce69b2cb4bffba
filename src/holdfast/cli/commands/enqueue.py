"""``holdfast enqueue``: one job, or a file of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import click

from holdfast.cli import parameters
from holdfast.cli.parameters import INSTANT, LENGTH, POLICY
from holdfast.cli.session import Code, Command, Session, Stop, pass_session
from holdfast.client import Client
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model import duration, retry
from holdfast.model.lease import Enqueued
from holdfast.model.request import JobRequest
from holdfast.wire.codec import JSON

CHUNK = 1_000  # jobs in one transaction: often enough for a bar that moves
_FIELDS = tuple(field.name for field in fields(JobRequest))


@click.command(cls=Command)
@click.argument("type_", metavar="[TYPE]", required=False)
@click.argument("payload", metavar="[PAYLOAD|-|@FILE]", required=False)
@click.option("--queue", metavar="NAME", help="Where it waits.")
@click.option("--priority", type=int, help="0 to 9; 9 runs first.")
@click.option("--delay", type=LENGTH, metavar="LENGTH", help="Not before this long from now, e.g. 5m.")
@click.option("--run-at", type=INSTANT, metavar="INSTANT", help="Not before, e.g. 2026-11-15T20:30:00Z.")
@click.option("--timeout", type=LENGTH, metavar="LENGTH", help="Of one attempt.")
@click.option("--max-attempts", type=int, help="The most runs.")
@click.option("--retry", type=POLICY, metavar="POLICY", help="Waits between runs, e.g. 'exponential(1s, max 1h)'.")
@click.option("--key", "idempotency_key", metavar="TEXT", help="Idempotency key: one job per queue and key.")
@click.option("--domain", metavar="TEXT", help="Its jobs run one at a time, in order.")
@click.option("--name", metavar="TEXT", help="For people.")
@click.option("--meta", multiple=True, metavar="KEY=TEXT", help="Handed to the handler; repeatable.")
@click.option("--batch", metavar="FILE", help="Many jobs: one JSON object a line, - for stdin.")
@click.option("--json", "as_json", is_flag=True, help="JSON: id, existed, conflict; with --batch one line a job.")
@pass_session
def enqueue(
    session: Session,
    /,
    type_: str | None,
    payload: str | None,
    meta: tuple[str, ...],
    batch: str | None,
    *,
    as_json: bool,
    **options: Any,
) -> None:
    """Enqueue a job and print its id.

    PAYLOAD is JSON; - reads it from stdin, @FILE from a file; none is null. Prints the id of the job that exists if
    the key is known already; exits 1 if that one has another payload.

    Lines of a --batch file have the fields of a request (type, payload, queue, delay, idempotency_key ...); options
    and TYPE are what lines get that say nothing. A file is read through before its first job is stored.
    """
    settings = session.settings
    asked: dict[str, Any] = {
        "queue": settings.queue,
        "max_attempts": settings.max_attempts,
        "timeout": settings.timeout,
        **{name: value for name, value in options.items() if value is not None},
        **({"meta": parameters.meta(meta)} if meta else {}),
    }
    if type_ is not None:
        asked["type"] = type_
    if batch is not None:
        if payload is not None:
            raise click.UsageError("wanted either a PAYLOAD or --batch, got both")
        _enqueue_file(session, batch, asked, as_json=as_json)
        return
    if type_ is None:
        raise click.UsageError("wanted the TYPE of the job, got nothing (or --batch FILE)")
    request = JobRequest(**asked, payload=parameters.payload(payload))
    answer = Client(session.store(create=True)).enqueue(request, on_conflict="return")
    _answer(session, answer, as_json=as_json)
    if answer.conflict:
        raise Stop(
            Code.WRONG, f"the key or id belongs to job {answer.id}, which has another payload; nothing was enqueued"
        )
    if answer.existed and not as_json:
        session.screen.note("it existed already; nothing was enqueued")


def _answer(session: Session, answer: Enqueued, *, as_json: bool) -> None:
    if as_json:
        session.screen.document_line({"id": answer.id, "existed": answer.existed, "conflict": answer.conflict})
    else:
        session.screen.line(answer.id)


# Many -------------------------------------------------------------------------------------------------------


def _enqueue_file(session: Session, name: str, asked: dict[str, Any], *, as_json: bool) -> None:
    total = None if name == "-" else sum(1 for _ in _requests(name, asked))
    client = Client(session.store(create=True))
    stored = existed = conflicts = 0
    requests = _requests(name, asked)
    with session.screen.bar("enqueue", total, shown=not as_json) as step:
        while True:
            try:
                chunk = list(islice(requests, CHUNK))
                answers = client.enqueue(chunk, on_conflict="return")
            except (HoldfastError, click.ClickException) as error:
                if not stored + existed:
                    raise
                raise Stop(
                    Code.WRONG, f"{_said(error)}; {stored} jobs of the lines before were enqueued and stay"
                ) from error
            if not chunk:
                break
            for answer in answers:
                existed += answer.existed
                conflicts += answer.conflict
                if as_json:
                    _answer(session, answer, as_json=True)
            stored += sum(not answer.existed for answer in answers)
            step(stored + existed, total)
    if not as_json:
        session.screen.line(f"{stored} enqueued" + (f", {existed} existed already" if existed else ""))
    if conflicts:
        raise Stop(Code.WRONG, f"{conflicts} of those that existed have another payload")


def _said(error: Exception) -> str:
    return error.format_message() if isinstance(error, click.ClickException) else str(error)


def _requests(name: str, asked: dict[str, Any]) -> Iterator[JobRequest]:
    """One request per line; the error of a bad one names the line."""
    try:
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _request(f"{name} line {number}", line, asked)
    except OSError as error:
        raise click.UsageError(f"wanted a file that can be read, got {name}: {error.strerror or error}") from error


def _request(where: str, line: bytes, asked: dict[str, Any]) -> JobRequest:
    try:
        return JobRequest(**_given(JSON.decode(line.strip(), field="the line"), asked))
    except InvalidInput as error:
        raise click.UsageError(f"{where}: {error}") from error


def _given(value: object, asked: dict[str, Any]) -> dict[str, Any]:
    """What a line says over what the options say; a line's own time replaces either of theirs."""
    if not isinstance(value, dict):
        raise InvalidInput("the line", wanted="a JSON object", got=value)
    for name in value:
        if name not in _FIELDS:
            raise InvalidInput(name, wanted=f"one of {', '.join(_FIELDS)}", got="an unknown field")
    own = {name: _read(name, field) for name, field in value.items() if field is not None or name == "payload"}
    timed = "run_at" in own or "delay" in own
    given = {name: field for name, field in asked.items() if not (timed and name in {"run_at", "delay"})} | own
    if "type" not in given:
        raise InvalidInput("type", wanted="the type of the job", got="none")
    return given


def _read(name: str, value: object) -> object:
    """A field as a line has it: lengths and policies are texts, instants are ISO 8601."""
    if name == "retry":
        return retry.parse(value)  # type: ignore[arg-type] # refuses what is no text, too
    if name in {"delay", "timeout"}:
        return _length(name, value)
    if name == "run_at":
        return _instant(name, value)
    return value


def _length(name: str, value: object) -> timedelta:
    if not isinstance(value, str):
        raise InvalidInput(name, wanted=duration.WANTED_DURATION, got=value)
    return duration.parse(name, value)


def _instant(name: str, value: object) -> datetime:
    if not isinstance(value, str):
        raise InvalidInput(name, wanted=parameters.INSTANT_WANTED, got=value)
    return parameters.instant(name, value)
