"""``holdfast dead requeue`` and ``holdfast dead purge``: previewed, confirmed, in batches, at a rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import click

from holdfast.cli import dead_letters, filters
from holdfast.cli.command import Command
from holdfast.cli.commands.job import inspect_job
from holdfast.cli.dead_letters import NO_MATCH, fingerprint_option
from holdfast.cli.output import Column
from holdfast.cli.parameters import RATE, add_options
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.client import Client
from holdfast.drivers.requests import Purge
from holdfast.drivers.store import Store
from holdfast.model.job import JobRecord, State
from holdfast.signing import open_signer
from holdfast.throttle import Throttle

BATCH_LETTERS = 500  # in one transaction
MAX_PREVIEW_GROUPS = 5
MAX_SIGNED_LETTERS = 1000  # in one call: a person reviews them
REVIEWED_FIELDS = (
    *("payload", "name", "meta", "idempotency_key", "limit_key", "domain", "offset", "webhook"),
    *("priority", "max_attempts", "timeout", "created_at", "requested_run_at"),
)

Action = Callable[[Sequence[str]], list[bool]]


def _selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.argument("job_ids", metavar="[ID]...", nargs=-1),
        filters.dead_letter_options,
        fingerprint_option,
        click.option("--all", "everything", is_flag=True, help="Every dead letter of the space."),
        click.option("--most", type=click.IntRange(min=1), help="Stop after this many."),
        click.option("--rate", type=RATE, metavar="RATE", help="No faster than this: 10/s, 600/m; 10 is 10/s."),
        click.option("--dry-run", is_flag=True, help="Only show and count what would be done."),
        click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
        click.option("--json", "as_json", is_flag=True, help="JSON: the counts, and the groups of the letters."),
    ]
    return add_options(options, command)


@click.command(cls=Command)
@_selection_options
@click.option("--sign", is_flag=True, help="Sign the letters as they are now: for those with a bad signature.")
@pass_session
def requeue(session: Session, /, *, sign: bool, **options: Any) -> None:
    """Run dead letters again: by id, by filter, or --all.

    Shows the selected letters and asks for confirmation. Attempts and crashes start again at zero, and the jobs go to
    the end of their queue.

    A letter with a bad signature is rejected again, unless --sign signs it with your key. Review it before: --sign
    shows the content of every letter that it signs.
    """
    store = session.store()
    if sign:
        _requeue_signed(session, store, options)
    else:
        _act(session, "requeue", Client(store).requeue, _select(store, options), options, past="requeued")


@click.command(cls=Command)
@_selection_options
@pass_session
def purge(session: Session, /, **options: Any) -> None:
    """Remove dead letters permanently: by id, by filter, or --all.

    Shows the selected letters and asks for confirmation. The ledger keeps one row for each. A letter whose end a reader
    of the ledger has not read stays: see `holdfast ledger readers list`.
    """
    store = session.store()

    def act(ids: Sequence[str]) -> list[bool]:
        return store.do(Purge(job_ids=ids))

    _act(session, "purge", act, _select(store, options), options, past="purged")


def _requeue_signed(session: Session, store: Store, options: dict[str, Any]) -> None:
    """Show the letters, and sign exactly what was shown."""
    signer = open_signer(session.settings, space=session.space)
    if signer is None:
        raise CommandFailed(ExitCode.USAGE, "--sign needs a key, and signing = accept or required in the settings")
    letters = list(islice(_select(store, options), MAX_SIGNED_LETTERS + 1))
    if len(letters) > MAX_SIGNED_LETTERS:
        raise CommandFailed(
            ExitCode.USAGE, f"--sign takes at most {MAX_SIGNED_LETTERS} letters: review fewer at a time"
        )
    if letters and not options["as_json"]:
        session.output.print_table(
            [Column(title="ID"), Column(title="TYPE"), Column(title="QUEUE"), Column(title="CONTENT", wrap=True)],
            [(letter.id, letter.type, letter.queue, _content(letter)) for letter in letters],
        )
    shown = {letter.id: letter for letter in letters}
    client = Client(store, signer=signer)

    def act(ids: Sequence[str]) -> list[bool]:
        return client.requeue_signed([shown[job_id] for job_id in ids])

    _act(session, "sign and requeue", act, letters, options, past="requeued")


def _content(letter: JobRecord) -> str:
    """Return every signed part of a letter that has a value; the table has its id, type and queue already."""
    parts = {name: getattr(letter, name) for name in REVIEWED_FIELDS}
    parts["payload"] = letter.payload.decode(errors="replace")
    return " ".join(f"{name}={value}" for name, value in parts.items() if value not in (None, 0, {}))


def _act(
    session: Session, verb: str, action: Action, letters: Iterable[JobRecord], options: dict[str, Any], *, past: str
) -> None:
    """Preview, confirm, then act in batches; letters that changed meanwhile are skipped and counted."""
    output = session.output
    ids: list[str] = []
    groups = dead_letters.group_failures(_collect_ids(ids, letters))
    as_json: bool = options["as_json"]
    if not ids:
        if as_json:
            output.print_json({"chosen": 0, past: 0, "groups": []})
        else:
            output.print_note(NO_MATCH)
        return
    if not as_json:
        dead_letters.print_groups(output, groups[:MAX_PREVIEW_GROUPS])
        if len(groups) > MAX_PREVIEW_GROUPS:
            output.print_line(f"and {len(groups) - MAX_PREVIEW_GROUPS} smaller groups")
    done = 0
    if not options["dry_run"]:
        if not options["yes"] and not output.confirm(f"{verb} {_count(len(ids))}?"):
            raise CommandFailed(ExitCode.FAILED, "not confirmed, nothing was changed (--yes skips the question)")
        done = _act_in_batches(session, verb, ids, action, options["rate"])
    if as_json:
        output.print_json({"chosen": len(ids), past: done, "groups": [group.to_json() for group in groups]})
    elif options["dry_run"]:
        output.print_line(f"would {verb} {_count(len(ids))}")
    else:
        output.print_line(f"{past} {_count(done)}")
    if not options["dry_run"] and done < len(ids):
        other = (
            "wait for a reader of the ledger"
            if verb == "purge"
            else "cannot be read (`holdfast dead show ID` says why)"
        )
        reason = f"were no longer dead, or {other},"
        raise CommandFailed(ExitCode.FAILED, f"{len(ids) - done} of them {reason} and were not changed")


def _count(number: int) -> str:
    return f"{number} dead letter" + ("" if number == 1 else "s")


def _collect_ids(ids: list[str], letters: Iterable[JobRecord]) -> Iterator[JobRecord]:
    """Pass the letters through and append their ids: many letters do not fit into memory, their ids do."""
    for letter in letters:
        ids.append(letter.id)
        yield letter


def _select(store: Store, options: dict[str, Any]) -> Iterator[JobRecord]:
    job_ids: tuple[str, ...] = options["job_ids"]
    names = ("queue", "type_", "domain", "name", "key", "since", "until", "reason", "fingerprint")
    filtered = any(options[name] is not None for name in names)
    if not job_ids and not filtered and not options["everything"]:
        raise click.UsageError("wanted ids, a filter, or --all, got none")
    if job_ids and (filtered or options["everything"]):
        raise click.UsageError("wanted either ids or a filter, got both")
    if job_ids:
        letters = _letters_by_id(store, job_ids)
    else:
        letters = dead_letters.find_letters(store, dead_letters.filter_from(options), options["fingerprint"])
    return islice(letters, options["most"])


def _letters_by_id(store: Store, job_ids: Iterable[str]) -> Iterator[JobRecord]:
    for job_id in dict.fromkeys(job_ids):
        record = inspect_job(store, job_id).job
        if record.state is not State.DEAD:
            raise CommandFailed(
                ExitCode.FAILED, f"job {job_id} is not a dead letter, it is {record.state}; nothing was changed"
            )
        yield record


def _act_in_batches(session: Session, verb: str, ids: Sequence[str], act: Action, rate: float | None) -> int:
    """Act on the ids in batches, at the given rate; return how many were changed."""
    throttle = Throttle(rate)
    size = throttle.batch_size(BATCH_LETTERS)
    done = 0
    with session.output.progress_bar(verb, len(ids)) as update:
        for start in range(0, len(ids), size):
            throttle.wait(size)
            done += sum(act(ids[start : start + size]))
            update(min(start + size, len(ids)), len(ids))
    return done
