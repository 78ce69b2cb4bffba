"""Dead letters: selected by filter and fingerprint, and grouped by what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import click

from holdfast.cli import filters, json_values
from holdfast.cli.output import Column, Output
from holdfast.drivers.requests import ReadColumns
from holdfast.drivers.store import Store
from holdfast.model import bounds
from holdfast.model.filters import JobFilter
from holdfast.model.fingerprint import failure_line, fingerprint, normalise
from holdfast.model.job import JobRecord, State

NO_MATCH = "no dead letter matches"
PAGE_LETTERS = 5000

fingerprint_option = click.option("--fingerprint", metavar="HEX", help="In this group (see `dead groups`).")


@dataclass(slots=True, kw_only=True)
class FailureGroup:
    """Dead letters of one type with the same reason and error, apart from numbers, ids and quoted text."""

    fingerprint: str
    type: str
    reason: str
    error: str
    example: str
    count: int = 0
    first: int = bounds.MAX_INSTANT
    last: int = 0

    def to_json(self) -> dict[str, Any]:
        """The group as a JSON object."""
        return {
            "fingerprint": self.fingerprint,
            "count": self.count,
            "type": self.type,
            "reason": self.reason,
            "error": self.error,
            "first": json_values.instant(self.first),
            "last": json_values.instant(self.last),
            "example": self.example,
        }


def filter_from(options: dict[str, Any]) -> JobFilter:
    """The filter for dead letters from the options."""
    return filters.from_options(states=(State.DEAD,), options=options)


def find_letters(store: Store, where: JobFilter, fingerprint: str | None) -> Iterator[JobRecord]:
    """Every dead letter that matches the filter and the fingerprint, page by page."""
    letters = filters.find_all(store, where)
    if fingerprint is None:
        return letters
    return (letter for letter in letters if json_values.fingerprint_of(letter) == fingerprint)


def find_page(
    store: Store, where: JobFilter, fingerprint: str | None, *, limit: int, after: str | None
) -> tuple[list[JobRecord], str | None]:
    """Up to ``limit`` letters and the next cursor. A fingerprint is compared here, because stores do not know it."""
    letters: list[JobRecord] = []
    while True:
        page = store.find(where, limit=limit if fingerprint is None else filters.PAGE_SIZE, after=after)
        letters += [
            letter for letter in page if fingerprint is None or json_values.fingerprint_of(letter) == fingerprint
        ]
        after = page.cursor
        if len(letters) > limit:
            return letters[:limit], letters[limit - 1].id
        if after is None or len(letters) == limit:
            return letters, after


class _Failure(NamedTuple):
    """What a group needs of a dead letter."""

    id: str
    type: str
    dead_reason: str | None
    last_error: str
    dead_at: int | None
    created_at: int


def _read_failures(
    store: Store, where: JobFilter, *, limit: int, after: str | None
) -> tuple[list[_Failure], str | None]:
    """A page of letters, without their payloads."""
    columns, cursor = store.do(ReadColumns(where=where, names=_Failure._fields, limit=limit, after=after))
    return [_Failure(*row) for row in zip(*columns, strict=True)], cursor


def read_groups(
    store: Store, where: JobFilter, *, most: int, after: str | None
) -> tuple[list[FailureGroup], str | None]:
    """The groups of up to ``most`` letters, the largest first, and the cursor of the letters that were not read."""
    failures: list[_Failure] = []
    while True:
        page, after = _read_failures(store, where, limit=min(most - len(failures), PAGE_LETTERS), after=after)
        failures += page
        if after is None or len(failures) == most:
            return group_failures(failures), after


def group_failures(letters: Iterable[JobRecord | _Failure]) -> list[FailureGroup]:
    """The groups, the largest first."""
    groups: dict[str, FailureGroup] = {}
    for letter in letters:
        hashed = fingerprint(type=letter.type, reason=letter.dead_reason, error=letter.last_error)
        group = groups.get(hashed)
        if group is None:
            group = groups[hashed] = FailureGroup(
                fingerprint=hashed,
                type=letter.type,
                reason=normalise(letter.dead_reason or ""),
                error=normalise(letter.last_error),
                example=letter.id,
            )
        died = letter.dead_at or letter.created_at
        group.count += 1
        group.first, group.last = min(group.first, died), max(group.last, died)
    return sorted(groups.values(), key=lambda group: (-group.count, group.fingerprint))


def print_groups(output: Output, groups: Sequence[FailureGroup]) -> None:
    """Print one row per group."""
    output.print_table(
        [
            Column(title="FINGERPRINT"),
            Column(title="JOBS", align_right=True),
            Column(title="LAST", align_right=True),
            Column(title="TYPE", truncate=True),
            Column(title="WHY", truncate=True),
        ],
        [
            (group.fingerprint, group.count, output.age(group.last), group.type, describe(group.reason, group.error))
            for group in groups
        ],
    )


def describe(reason: str | None, error: str) -> str:
    """The reason and the line of the error that names the exception, on one line."""
    return ": ".join(text for text in (reason or "", failure_line(error).strip()) if text)
