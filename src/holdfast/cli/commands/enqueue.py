"""``holdfast enqueue``: enqueue one job, or a file of jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import click

from holdfast.app import Holdfast
from holdfast.cli import parameters
from holdfast.cli.app_commands import load_app
from holdfast.cli.command import Command
from holdfast.cli.parameters import DURATION, INSTANT, POSITIVE_DURATION, RETRY_POLICY, UNIQUE
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.client import Client
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model import bounds, duration, instant, retry
from holdfast.model.lease import Enqueued
from holdfast.model.request import DEFAULT_QUEUE, JobRequest
from holdfast.model.suggestion import did_you_mean
from holdfast.model.unique import parse_unique
from holdfast.signing import open_signer
from holdfast.wire.codec import JSON

BATCH_JOBS = 1_000  # jobs in one transaction, and in one step of the progress bar
_FIELDS = tuple(field.name for field in fields(JobRequest))


@click.command(cls=Command)
@click.argument("type_", metavar="[TYPE]", required=False)
@click.argument("payload", metavar="[PAYLOAD|-|@FILE]", required=False)
@click.option("--queue", metavar="NAME", help="The queue of the job.")
@click.option("--priority", type=int, help="0 to 9; 9 runs first.")
@click.option("--delay", type=DURATION, metavar="DURATION", help="Run no earlier than this long from now, e.g. 5m.")
@click.option("--run-at", type=INSTANT, metavar="INSTANT", help="Run no earlier, e.g. 2026-11-15T20:30:00Z.")
@click.option("--timeout", type=POSITIVE_DURATION, metavar="DURATION", help="Limit of one attempt.")
@click.option("--max-attempts", type=int, help="The most attempts.")
@click.option(
    "--retry", type=RETRY_POLICY, metavar="POLICY", help="Delays between attempts, e.g. 'exponential(1s, max 1h)'."
)
@click.option("--key", "idempotency_key", metavar="TEXT", help="Idempotency key: one job per queue and key.")
@click.option(
    "--unique",
    type=UNIQUE,
    metavar="RULE",
    help="One job per key, or per payload: while_queued, while_open, or for a time such as 1h.",
)
@click.option("--single-instance", is_flag=True, default=None, help="One job of its queue and type runs at a time.")
@click.option("--single-instance-key", metavar="TEXT", help="One job with this text runs at a time.")
@click.option("--domain", metavar="TEXT", help="Jobs of one domain run one at a time, in order.")
@click.option("--offset", type=click.IntRange(0, bounds.MAX_OFFSET), metavar="N", help="Its place in the domain.")
@click.option("--limit-key", metavar="TEXT", help="A host or customer: the queue limits the jobs of each key.")
@click.option("--name", metavar="TEXT", help="A name for people.")
@click.option("--meta", multiple=True, metavar="KEY=TEXT", help="Passed to the handler; repeatable.")
@click.option("--webhook", metavar="URL", help="Is told how the job ended.")
@click.option("--app", "app_path", metavar="MODULE:APP", help="Its handler gives queue, attempts and payload type.")
@click.option("--any-type", is_flag=True, help="Store a job whose type has no handler in the app, too.")
@click.option("--batch", metavar="FILE", help="Many jobs: one JSON object per line, - for stdin.")
@click.option("--json", "as_json", is_flag=True, help="JSON: id, existed, conflict, past; with --batch one line each.")
@pass_session
def enqueue(
    session: Session,
    /,
    type_: str | None,
    payload: str | None,
    meta: tuple[str, ...],
    batch: str | None,
    *,
    single_instance_key: str | None,
    app_path: str | None,
    any_type: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Enqueue a job and print its id.

    PAYLOAD is JSON; - reads it from stdin, @FILE from a file; without PAYLOAD it is null. If a job with the same key,
    or with the same offset of its domain, exists, its id is printed; exits 1 if that job has a different payload.

    With --app, or app in the settings, the job is as the handler of TYPE says, in the store of the app: its queue,
    priority, attempts and timeout unless an option replaces them, and a payload that the handler takes. A type without
    a handler is refused.

    Each line of a --batch file has the fields of a request (type, payload, queue, delay, idempotency_key ...); TYPE and
    the options are defaults for the lines. A file is checked completely before its first job is stored.
    """
    given: dict[str, Any] = {
        **{name: value for name, value in options.items() if value is not None},
        **({"meta": parameters.parse_meta(meta)} if meta else {}),
    }
    if type_ is not None:
        given["type"] = type_
    if single_instance_key is not None:
        if "single_instance" in given:
            raise click.UsageError("wanted either --single-instance or --single-instance-key, got both")
        given["single_instance"] = single_instance_key
    if batch is not None and payload is not None:
        raise click.UsageError("wanted either a PAYLOAD or --batch, got both")
    if batch is None and type_ is None:
        raise click.UsageError("wanted the TYPE of the job, got nothing (or --batch FILE)")
    app_path = session.settings.app if app_path is None else app_path
    app = None if app_path is None else load_app(app_path, session)
    if app is not None:
        click.get_current_context().call_on_close(app.close)
    producer = _Producer(session, app, any_type=any_type)
    if batch is not None:
        _enqueue_file(session, producer, batch, given, as_json=as_json)
        return
    request = producer.request({**given, "payload": parameters.read_payload(payload)})
    enqueued = producer.client.enqueue(request, on_conflict="return")
    _print_enqueued(session, enqueued, as_json=as_json)
    if enqueued.conflict:
        raise CommandFailed(
            ExitCode.FAILED,
            f"the key, offset or id belongs to job {enqueued.id}, which has another payload; nothing was enqueued",
        )
    if enqueued.existed and not as_json:
        what = "the offset has ended in this domain" if enqueued.past else "the job existed already"
        session.output.print_note(f"{what}; nothing was enqueued")


def _print_enqueued(session: Session, enqueued: Enqueued, *, as_json: bool) -> None:
    if as_json:
        session.output.print_json_line(
            {
                "id": enqueued.id,
                "existed": enqueued.existed,
                "conflict": enqueued.conflict,
                "past": enqueued.past,
            }
        )
    else:
        session.output.print_line(enqueued.id)


class _Producer:
    """Makes requests, as the handlers of the app say or as the settings say, and has the client that stores them."""

    def __init__(self, session: Session, app: Holdfast | None, *, any_type: bool) -> None:
        self._session = session
        self._app = app
        self._any_type = any_type

    @cached_property
    def client(self) -> Client:
        """The client of the app, or of the store of the settings."""
        if self._app is not None:
            return self._app.client
        settings, space = self._session.settings, self._session.space
        return Client(
            self._session.store(create=True),
            signer=open_signer(settings, space=space),
        )

    def request(self, fields: dict[str, Any]) -> JobRequest:
        """Return the request with these fields, its type and payload among them. Raises ``InvalidInput``."""
        type_ = fields["type"]
        if self._app is not None and type_ in self._app.tasks:
            others = {name: value for name, value in fields.items() if name not in {"type", "payload"}}
            return self._app.tasks[type_].request(fields["payload"], **others)
        if self._app is not None and not self._any_type:
            wanted = "a type that the app has a handler for (--any-type stores any)"
            raise InvalidInput("type", wanted=wanted, got=f"{type_}{did_you_mean(str(type_), self._app.tasks)}")
        settings = self._session.settings
        defaults = {"queue": DEFAULT_QUEUE, "max_attempts": settings.max_attempts, "timeout": settings.timeout}
        return JobRequest(**{**defaults, **fields})


# A file of jobs ---------------------------------------------------------------------------------------------


def _enqueue_file(session: Session, producer: _Producer, name: str, given: dict[str, Any], *, as_json: bool) -> None:
    # A file is read twice: the first pass checks every line, so that a bad line stores nothing. Stdin is read once.
    total = None if name == "-" else sum(1 for _ in _read_requests(name, producer, given))
    stored = existed = past = conflicts = 0
    requests = _read_requests(name, producer, given)
    with session.output.progress_bar("enqueue", total, shown=not as_json) as update:
        while True:
            try:
                chunk = list(islice(requests, BATCH_JOBS))
                answers = producer.client.enqueue(chunk, on_conflict="return")
            except (HoldfastError, click.ClickException) as error:
                if not stored + existed:
                    raise
                raise CommandFailed(
                    ExitCode.FAILED, f"{_message(error)}; {stored} jobs of earlier lines were enqueued and remain"
                ) from error
            if not chunk:
                break
            for answer in answers:
                existed += answer.existed
                past += answer.past
                conflicts += answer.conflict
                if as_json:
                    _print_enqueued(session, answer, as_json=True)
            stored += sum(not answer.existed for answer in answers)
            update(stored + existed, total)
    if not as_json:
        ended = f" ({past} of them have ended)" if past else ""
        session.output.print_line(f"{stored} enqueued" + (f", {existed} existed already{ended}" if existed else ""))
    if conflicts:
        raise CommandFailed(ExitCode.FAILED, f"{conflicts} jobs that existed already have another payload")


def _message(error: Exception) -> str:
    return error.format_message() if isinstance(error, click.ClickException) else str(error)


def _read_requests(name: str, producer: _Producer, given: dict[str, Any]) -> Iterator[JobRequest]:
    """One request per line; the error of a bad line contains its number."""
    try:
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _parse_line(f"{name} line {number}", line, producer, given)
    except OSError as error:
        raise click.UsageError(
            f"wanted a file that can be read, got {name or repr(name)}: {error.strerror or error}"
        ) from error


def _parse_line(where: str, line: bytes, producer: _Producer, given: dict[str, Any]) -> JobRequest:
    try:
        fields = _merge(JSON.decode(line.strip(), field="the line"), given)
        return producer.request({"payload": None, **fields})
    except InvalidInput as error:
        raise click.UsageError(f"{where}: {error}") from error


def _merge(value: object, defaults: dict[str, Any]) -> dict[str, Any]:
    """The fields of a line over the defaults. A line's ``run_at`` or ``delay`` replaces both of the defaults'."""
    if not isinstance(value, dict):
        raise InvalidInput("the line", wanted="a JSON object", got=value)
    for name in value:
        if name not in _FIELDS:
            raise InvalidInput(name, wanted=f"one of {', '.join(_FIELDS)}", got="an unknown field")
    own = {name: _parse_field(name, field) for name, field in value.items() if field is not None or name == "payload"}
    has_time = "run_at" in own or "delay" in own
    inherited = {name: field for name, field in defaults.items() if not (has_time and name in {"run_at", "delay"})}
    merged = inherited | own
    if "type" not in merged:
        raise InvalidInput("type", wanted="the type of the job", got="none")
    return merged


def _parse_field(name: str, value: object) -> object:
    """The value of a field of a line: durations and policies are text, instants are ISO 8601."""
    if name == "retry":
        return retry.parse(value)  # type: ignore[arg-type] # parse refuses a value that is not text
    if name == "unique":
        return parse_unique(name, value)
    if name in {"delay", "timeout"}:
        return _parse_duration(name, value)
    if name == "run_at":
        return _parse_instant(name, value)
    return value


def _parse_duration(name: str, value: object) -> timedelta:
    if not isinstance(value, str):
        raise InvalidInput(name, wanted=duration.WANTED_DURATION, got=value)
    return duration.parse(name, value)


def _parse_instant(name: str, value: object) -> datetime:
    if not isinstance(value, str):
        raise InvalidInput(name, wanted=instant.WANTED_INSTANT, got=value)
    return instant.parse(name, value)
