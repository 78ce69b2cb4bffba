"""``holdfast dead``: dead letters by the list and by the cause; requeue or purge them, previewed and at a rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import click

from holdfast.cli import filters, json_values
from holdfast.cli.commands.job import known, show_one
from holdfast.cli.output import Column, Screen
from holdfast.cli.parameters import RATE
from holdfast.cli.session import Code, Group, Session, Stop, pass_session
from holdfast.drivers.contract import JobFilter, Store
from holdfast.model import bounds
from holdfast.model.fingerprint import normalise
from holdfast.model.job import JobRecord, State
from holdfast.throttle import Throttle

BATCH = 500  # letters in one transaction
SHOWN = 5  # groups in a preview

_FINGERPRINT = click.option("--fingerprint", metavar="HEX", help="Of this group (see `dead groups`).")


@dataclass(slots=True, kw_only=True)
class Cause:
    """Dead letters that failed alike."""

    fingerprint: str
    type: str
    reason: str
    error: str
    example: str
    count: int = 0
    first: int = bounds.MAX_INSTANT
    last: int = 0


@click.group(cls=Group)
def dead() -> None:
    """Look at dead letters, requeue or purge them."""


def _where(options: dict[str, Any]) -> JobFilter:
    return filters.made(states=(State.DEAD,), options=options)


def _letters(store: Store, where: JobFilter, fingerprint: str | None) -> Iterator[JobRecord]:
    found = filters.every(store, where)
    return found if fingerprint is None else (letter for letter in found if json_values.of(letter) == fingerprint)


@dead.command("list")
@filters.dead_letters
@_FINGERPRINT
@click.option(
    "--limit", type=click.IntRange(1, bounds.MAX_BATCH_ITEMS), default=50, show_default=True, help="The most to show."
)
@click.option("--after", metavar="CURSOR", help="Go on where a list ended.")
@click.option("--json", "as_json", is_flag=True, help='JSON: {"items": [...], "cursor": ...}.')
@pass_session
def list_(
    session: Session, /, fingerprint: str | None, limit: int, after: str | None, *, as_json: bool, **options: Any
) -> None:
    """List dead letters that fit every filter, in order of their ids."""
    store, screen = session.store(), session.screen
    found, cursor = _page(store, _where(options), fingerprint, limit=limit, after=after)
    if as_json:
        screen.document({"items": [json_values.job(letter) for letter in found], "cursor": cursor})
        return
    if not found:
        screen.note("no dead letter fits")
        return
    screen.table(
        [
            Column(title="ID"),
            Column(title="DEAD FOR", right=True),
            Column(title="TYPE", cut=True),
            Column(title="WHY", cut=True),
        ],
        [
            (letter.id, screen.ago(letter.dead_at), letter.type, _why(letter.dead_reason, letter.last_error))
            for letter in found
        ],
    )
    if cursor is not None:
        screen.note(f"more: --after {cursor}")


def _page(
    store: Store, where: JobFilter, fingerprint: str | None, *, limit: int, after: str | None
) -> tuple[list[JobRecord], str | None]:
    """Up to ``limit`` letters; with a fingerprint, which no store knows, over as many pages as that takes."""
    found: list[JobRecord] = []
    while True:
        page = store.find(where, limit=limit if fingerprint is None else filters.PAGE, after=after)
        found += [letter for letter in page if fingerprint is None or json_values.of(letter) == fingerprint]
        after = page.cursor
        if len(found) > limit:
            return found[:limit], found[limit - 1].id
        if after is None or len(found) == limit:
            return found, after


def _why(reason: str | None, error: str) -> str:
    told = error.strip().splitlines()
    return ": ".join(text for text in (reason or "", told[-1] if told else "") if text)


@dead.command()
@filters.dead_letters
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="The most groups to show.")
@click.option("--json", "as_json", is_flag=True, help="JSON: a list of groups, the largest first.")
@pass_session
def groups(session: Session, /, limit: int, *, as_json: bool, **options: Any) -> None:
    """Group dead letters by what went wrong.

    Letters of one type are in one group if reason and error are the same apart from numbers, ids, addresses and what
    stands in quotes.
    """
    screen = session.screen
    found = causes(filters.every(session.store(), _where(options)))
    if as_json:
        screen.document([_plain(cause) for cause in found[:limit]])
        return
    if not found:
        screen.note("no dead letter fits")
        return
    _table(screen, found[:limit])
    if len(found) > limit:
        screen.note(f"and {len(found) - limit} smaller groups: --limit shows more")


def causes(letters: Iterable[JobRecord]) -> list[Cause]:
    """The groups, the largest first."""
    found: dict[str, Cause] = {}
    for letter in letters:
        name = json_values.of(letter)
        cause = found.get(name)
        if cause is None:
            cause = found[name] = Cause(
                fingerprint=name,
                type=letter.type,
                reason=normalise(letter.dead_reason or ""),
                error=normalise(letter.last_error),
                example=letter.id,
            )
        died = letter.dead_at or letter.created_at
        cause.count += 1
        cause.first, cause.last = min(cause.first, died), max(cause.last, died)
    return sorted(found.values(), key=lambda cause: (-cause.count, cause.fingerprint))


def _plain(cause: Cause) -> dict[str, Any]:
    return {
        "fingerprint": cause.fingerprint,
        "count": cause.count,
        "type": cause.type,
        "reason": cause.reason,
        "error": cause.error,
        "first": json_values.instant(cause.first),
        "last": json_values.instant(cause.last),
        "example": cause.example,
    }


def _table(screen: Screen, found: Sequence[Cause]) -> None:
    screen.table(
        [
            Column(title="FINGERPRINT"),
            Column(title="JOBS", right=True),
            Column(title="LAST", right=True),
            Column(title="TYPE", cut=True),
            Column(title="WHY", cut=True),
        ],
        [
            (cause.fingerprint, cause.count, screen.ago(cause.last), cause.type, _why(cause.reason, cause.error))
            for cause in found
        ],
    )


@dead.command()
@click.argument("job_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_session
def show(session: Session, job_id: str, *, as_json: bool) -> None:
    """Show all that is known of one dead letter."""
    seen = known(session.store(), job_id)
    if seen.job.state is not State.DEAD:
        raise Stop(Code.NOT_FOUND, f"job {job_id} is no dead letter, it is {seen.job.state}: see `holdfast job show`")
    show_one(session, seen, as_json=as_json)


# Acting on many ---------------------------------------------------------------------------------------------


def _choosing(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.argument("job_ids", metavar="[ID]...", nargs=-1),
        filters.dead_letters,
        _FINGERPRINT,
        click.option("--all", "everything", is_flag=True, help="Every dead letter of the space."),
        click.option("--most", type=click.IntRange(min=1), help="Stop after this many."),
        click.option("--rate", type=RATE, metavar="RATE", help="No faster than this: 10/s, 600/m; 10 is 10/s."),
        click.option("--dry-run", is_flag=True, help="Only show and count what would be done."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--json", "as_json", is_flag=True, help="JSON: chosen, done, and the groups they were in."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@dead.command()
@_choosing
@pass_session
def requeue(session: Session, /, **options: Any) -> None:
    """Run dead letters again: by id, by filter, or --all.

    Shows what was chosen and asks first. Attempts and crashes begin at zero, at the end of the line.
    """
    _act(session, "requeue", "requeued", lambda store, ids: store.requeue(ids), options)


@dead.command()
@_choosing
@pass_session
def purge(session: Session, /, **options: Any) -> None:
    """Remove dead letters for good: by id, by filter, or --all.

    Shows what was chosen and asks first. The ledger keeps a row of each.
    """
    _act(session, "purge", "purged", lambda store, ids: store.purge(ids), options)


Act = Callable[[Store, Sequence[str]], list[bool]]


def _act(session: Session, verb: str, past: str, act: Act, options: dict[str, Any]) -> None:
    """Choose, preview, count, ask, then act in batches; what has changed meanwhile is left alone and counted."""
    store, screen = session.store(), session.screen
    chosen: list[str] = []
    found = causes(_noting(chosen, _chosen(store, options)))
    as_json: bool = options["as_json"]
    if not chosen:
        if as_json:
            screen.document({"chosen": 0, past: 0, "groups": []})
        else:
            screen.note("no dead letter fits")
        return
    if not as_json:
        _table(screen, found[:SHOWN])
        if len(found) > SHOWN:
            screen.line(f"and {len(found) - SHOWN} smaller groups")
    done = 0
    if not options["dry_run"]:
        if not options["yes"] and not screen.confirmed(f"{verb} {_count(len(chosen))}?"):
            raise Stop(Code.WRONG, "not confirmed, nothing was changed (--yes does not ask)")
        done = _paced(session, verb, chosen, lambda ids: act(store, ids), options["rate"])
    if as_json:
        screen.document({"chosen": len(chosen), past: done, "groups": [_plain(cause) for cause in found]})
    elif options["dry_run"]:
        screen.line(f"would {verb} {_count(len(chosen))}")
    else:
        screen.line(f"{past} {_count(done)}")
    if not options["dry_run"] and done < len(chosen):
        raise Stop(Code.WRONG, f"{len(chosen) - done} of them were no longer dead and were left alone")


def _count(number: int) -> str:
    return f"{number} dead letter" + ("" if number == 1 else "s")


def _noting(ids: list[str], letters: Iterable[JobRecord]) -> Iterator[JobRecord]:
    """The letters as they pass by, their ids kept: of many letters only the ids fit into memory."""
    for letter in letters:
        ids.append(letter.id)
        yield letter


def _chosen(store: Store, options: dict[str, Any]) -> Iterator[JobRecord]:
    job_ids: tuple[str, ...] = options["job_ids"]
    names = ("queue", "type_", "domain", "name", "key", "since", "until", "reason", "fingerprint")
    filtered = any(options[name] is not None for name in names)
    if not job_ids and not filtered and not options["everything"]:
        raise click.UsageError("wanted ids, a filter, or --all, got none")
    if job_ids and (filtered or options["everything"]):
        raise click.UsageError("wanted either ids or a filter, got both")
    if not job_ids:
        return islice(_letters(store, _where(options), options["fingerprint"]), options["most"])
    return islice(_named(store, job_ids), options["most"])


def _named(store: Store, job_ids: Iterable[str]) -> Iterator[JobRecord]:
    for job_id in dict.fromkeys(job_ids):
        record = known(store, job_id).job
        if record.state is not State.DEAD:
            raise Stop(Code.WRONG, f"job {job_id} is no dead letter, it is {record.state}; nothing was changed")
        yield record


def _paced(
    session: Session, verb: str, ids: Sequence[str], act: Callable[[Sequence[str]], list[bool]], rate: float | None
) -> int:
    """Act on the ids in batches, at a rate if one was given; gives on how many."""
    throttle = Throttle(rate)
    size = throttle.batch_size(BATCH)
    done = 0
    with session.screen.bar(verb, len(ids)) as step:
        for start in range(0, len(ids), size):
            throttle.wait(size)
            done += sum(act(ids[start : start + size]))
            step(min(start + size, len(ids)), len(ids))
    return done
