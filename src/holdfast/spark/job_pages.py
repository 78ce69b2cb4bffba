"""Columns of the jobs in a store, page by page. Runs on executors and on the Spark driver."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.drivers.contract import JobFilter, Store
from holdfast.drivers.optional import JobScan


def job_pages(
    store: Store, where: JobFilter, names: Sequence[str], *, limit: int, after: str | None, upto: str | None
) -> Iterator[list[Sequence[object]]]:
    """Return these columns of the jobs that match a filter, ordered by id, at most ``limit`` jobs in a page.

    Only ids after ``after``, up to and including ``upto``, are returned; None is no limit.
    """
    cursor = after
    while True:
        columns, cursor = _read_page(store, where, ["id", *names], limit, cursor)
        ids: Any = columns[0]
        inside = len(ids) if upto is None else bisect_right(ids, upto)
        if inside:
            yield [column[:inside] for column in columns[1:]]
        if cursor is None or inside < len(ids) or (upto is not None and cursor >= upto):
            return


def _read_page(
    store: Store, where: JobFilter, names: Sequence[str], limit: int, after: str | None
) -> tuple[Sequence[Sequence[object]], str | None]:
    if isinstance(store, JobScan):
        return store.job_columns(where, names, limit=limit, after=after)
    page = store.find(where, limit=limit, after=after)
    return [[getattr(job, name) for job in page.items] for name in names], page.cursor
