"""Filters of Spark as filters of a store. Runs on the Spark driver, once for each read that is planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pyspark.sql import datasource as ds

from holdfast.clock import from_datetime
from holdfast.drivers.contract import JobFilter
from holdfast.model import bounds
from holdfast.model.columns import JOB_COLUMNS
from holdfast.model.job import State

MAX_IDS = 5_000  # ids that are looked up one by one

_FILTER_FIELDS = {  # column: field of JobFilter that is compared with ``=``
    **{name: name for name in ("queue", "type", "domain", "name", "idempotency_key")},
    "dead_reason": "reason",
}
_NEVER_NULL = frozenset(column.name for column in JOB_COLUMNS if not column.nullable)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSelection:
    """The jobs that match a filter, or the jobs with these ids. Pickled to executors."""

    where: JobFilter = field(default_factory=JobFilter)
    ids: tuple[str, ...] | None = None
    is_empty: bool = False  # the filters contradict each other


class FilterPushdown:
    """Collects the filters that a store can apply into a ``JobSelection``.

    Spark applies all other filters. It also applies bounds on instants again, because the store's bounds are wider.
    """

    def __init__(self) -> None:
        self.selection = JobSelection()

    def push(self, filters: Iterable[ds.Filter]) -> Iterator[ds.Filter]:
        """Return the filters that Spark must apply itself."""
        for each in filters:
            if not self._is_pushed(each):
                yield each

    def _is_pushed(self, each: ds.Filter) -> bool:
        match each:
            case ds.IsNotNull(attribute=(name,)):
                return name in _NEVER_NULL
            case ds.EqualTo(attribute=("state",), value=str(state)):
                return self._push_states([state])
            case ds.In(attribute=("state",), value=states):
                return self._push_states(states)
            case ds.EqualTo(attribute=("id",), value=str(job_id)):
                return self._push_ids([job_id])
            case ds.In(attribute=("id",), value=ids):
                return self._push_ids(ids)
            case ds.EqualTo(attribute=(name,), value=str(value)) if name in _FILTER_FIELDS:
                return self._push_equal(_FILTER_FIELDS[name], value)
            case (
                ds.GreaterThan(attribute=("created_at",), value=value)
                | ds.GreaterThanOrEqual(attribute=("created_at",), value=value)
            ):
                return self._push_created("created_from", value, timedelta())
            case (
                ds.LessThan(attribute=("created_at",), value=value)
                | ds.LessThanOrEqual(attribute=("created_at",), value=value)
            ):
                return self._push_created("created_before", value, timedelta(microseconds=1))
            case _:
                return False

    def _push_states(self, wanted: Sequence[object]) -> bool:
        if self.selection.ids is not None:
            return False
        before = set(State) if self.selection.where.states is None else set(self.selection.where.states)
        states = tuple(state for state in State if state in before and state.value in wanted)
        where = replace(self.selection.where, states=states)
        self.selection = replace(self.selection, where=where, is_empty=not states)
        return True

    def _push_ids(self, wanted: Sequence[object]) -> bool:
        """Ids are looked up one by one, without other filters. An id that no job can have is left out."""
        if self.selection.ids is not None or self.selection.where != JobFilter() or len(wanted) > MAX_IDS:
            return False
        ids = tuple(dict.fromkeys(str(job_id) for job_id in wanted if _is_valid_id(job_id)))
        self.selection = replace(self.selection, ids=ids)
        return True

    def _push_equal(self, name: str, value: str) -> bool:
        if self.selection.ids is not None or getattr(self.selection.where, name) is not None:
            return False
        self._narrow(name, value)
        return True

    def _push_created(self, name: str, value: object, margin: timedelta) -> bool:
        """Push a bound that passes at least the wanted jobs. Always False: Spark applies the exact bound."""
        if isinstance(value, datetime) and value.tzinfo is not None and getattr(self.selection.where, name) is None:
            self._narrow(name, from_datetime(value + margin))
        return False

    def _narrow(self, name: str, value: object) -> None:
        where = replace(self.selection.where, **{name: value})  # type: ignore[arg-type]
        self.selection = replace(self.selection, where=where)


def _is_valid_id(value: object) -> bool:
    try:
        bounds.check_name("id", value)
    except ValueError:
        return False
    return True
