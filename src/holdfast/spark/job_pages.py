"""Columns of the jobs in a store, page by page. Runs on executors and on the Spark driver."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.drivers.requests import ReadColumns
from holdfast.drivers.store import Store
from holdfast.model.filters import JobFilter


def job_pages(
    store: Store, where: JobFilter, names: Sequence[str], *, limit: int, after: str | None, upto: str | None
) -> Iterator[list[Sequence[object]]]:
    """Return these columns of the jobs that match a filter, ordered by id, at most ``limit`` jobs in a page.

    Only ids after ``after``, up to and including ``upto``, are returned; None is no limit.
    """
    cursor = after
    while True:
        columns, cursor = store.do(ReadColumns(where=where, names=["id", *names], limit=limit, after=cursor))
        ids: Any = columns[0]
        inside = len(ids) if upto is None else bisect_right(ids, upto)
        if inside:
            yield [column[:inside] for column in columns[1:]]
        if cursor is None or inside < len(ids) or (upto is not None and cursor >= upto):
            return
