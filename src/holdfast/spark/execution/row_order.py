"""``order_by`` of ``run``: the rows of one domain run one at a time, in the order of their values. On the Spark driver.

The rows of a domain are stored by one slot, sorted, and the store runs a domain in the order of arrival. So a row is
stored only after every row that comes before it in its domain. This also holds for the second try of a Spark task, for
a speculative copy, and for a later call with the same name on another cluster: each of them stores the same rows in the
same order, and the store has a row only once, by its key.

Offsets from a window function are not used. A number that counts the rows of a domain changes for all later rows if a
later call has one row more, and a store answers a number that is in use as a repeated row, which would not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import AnyOpen, Configure, Read, Write
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, Unsupported
from holdfast.model import bounds
from holdfast.model.queue_settings import OnExhausted, QueueSettings
from holdfast.model.registry import Change
from holdfast.spark import row_values
from holdfast.spark.datasource.column_types import check_key_types, check_order_types
from holdfast.spark.datasource.key_conflicts import different_rows, shown_key
from holdfast.spark.datasource.row_keys import key_columns
from holdfast.spark.execution.run_columns import KEY, InputColumns, exact_text
from holdfast.worker.blocked_domains import blocked_domains

DOMAIN = "domain"  # the last column of the rows of a slot
ORDER_KIND = "spark.order"  # registry: by queue, the names of the columns of order_by
MAX_COMPARED_ROWS = 100  # with one key, all different
_UNGROUPABLE = tuple(  # types that Spark cannot group by; Spark 3.5 does not have all of them
    getattr(t, name) for name in ("MapType", "VariantType", "CalendarIntervalType") if hasattr(t, name)
)

OrderBy = str | Sequence[str | Sequence[str]]


def with_order(columns: InputColumns, schema: t.StructType, order_by: OrderBy | None) -> InputColumns:
    """Return the columns with those of ``order_by``: the last is the order, those before it are the domain."""
    if order_by is None:
        return columns
    wanted = "the columns of the domain, then the column of the order, as in ('customer', 'event_time')"
    if not isinstance(order_by, str | list | tuple):
        raise InvalidInput("order_by", wanted=wanted, got=order_by)
    parts = [part for part in order_by.split(",") if part.strip()] if isinstance(order_by, str) else list(order_by)
    if len(parts) < 2:
        raise InvalidInput("order_by", wanted=wanted, got=", ".join(map(str, parts)) or "nothing")
    names = [key_columns("order_by", part, columns.names, case_sensitive=columns.case_sensitive) for part in parts]
    domain = list(dict.fromkeys(name for part in names[:-1] for name in part))
    check_key_types("order_by", schema, domain)
    check_order_types("order_by", schema, names[-1])
    domain_places, order_places = (tuple(columns.names.index(name) for name in part) for part in (domain, names[-1]))
    return replace(columns, domain=domain_places, order=order_places)


def ordered_rows(jobs: DataFrame, columns: InputColumns, slots: int) -> DataFrame:
    """Return the rows of slots with their domain: all rows of a domain in one partition, sorted.

    Rows that are equal in the order are sorted by their key columns, so that no two different rows are equal. The
    domain is not the first column of the sort: a slot that stored the rows of one domain after another would have only
    one row that can run.
    """
    names = columns.internal_names
    sorted_by = [f.col(names[place]) for place in dict.fromkeys((*columns.order, *columns.key))]
    return jobs.withColumn(DOMAIN, _domain_of(columns)).repartition(slots, DOMAIN).sortWithinPartitions(*sorted_by)


def _domain_of(columns: InputColumns) -> Column:
    """Return the domain of a row: a text for people, the same in every application and time zone.

    A text that cannot be a domain is hashed.
    """
    texts = [exact_text(f.col(columns.internal_names[place]), columns.kinds[place]) for place in columns.domain]
    text = texts[0] if len(texts) == 1 else f.to_json(f.array(*texts))
    is_domain = f.octet_length(text).between(1, bounds.MAX_TEXT_BYTES) & ~text.rlike(r"\p{Cc}")
    return f.when(is_domain, text).otherwise(f.concat(f.lit("sha256:"), f.sha2(text, 256)))


def check_distinct_rows(rows: DataFrame, columns: InputColumns) -> None:
    """Raise ``InvalidInput`` if two different rows of an ordered run have one key, before anything runs.

    Without an order the store finds them. With an order they may be in different domains, and many rows have run before
    the second of them is stored. Maps and variants are not compared here: Spark cannot group by them.
    """
    if not columns.domain:
        return
    names = columns.internal_names
    compared = [
        name for name, kind in zip(names, columns.kinds, strict=True) if not row_values.contains(kind, *_UNGROUPABLE)
    ]
    repeated = rows.groupBy(KEY).count().where("count > 1").select(KEY)
    versions = rows.join(repeated, KEY, "left_semi").groupBy(KEY, *compared).count()
    found = versions.groupBy(KEY).count().where("count > 1").select(KEY).first()
    if found is None:
        return
    # Of the versions, and not of the rows: a row that differs may come after any number of equal ones.
    first, *others = versions.where(f.col(KEY) == found[KEY]).limit(MAX_COMPARED_ROWS).collect()
    differing = [
        columns.names[names.index(name)] for name in compared if any(other[name] != first[name] for other in others)
    ]
    key_names = [columns.names[place] for place in columns.key]
    shown = shown_key(key_names, [first[names[place]] for place in columns.key])
    raise different_rows(shown, differing)


# What the store knows ---------------------------------------------------------------------------------------


def parse_on_exhausted(on_exhausted: str | None, run: str | None, columns: InputColumns) -> OnExhausted | None:
    """Return what happens to a domain after a dead row. Raises ``InvalidInput`` if this run cannot do so."""
    if on_exhausted is None:
        return None
    if on_exhausted not in tuple(OnExhausted):
        raise InvalidInput("on_exhausted", wanted="skip or halt", got=on_exhausted)
    if not columns.domain:
        raise InvalidInput("on_exhausted", wanted="order_by beside it", got="rows without an order")
    if on_exhausted == OnExhausted.HALT and run is None:
        wanted = "a name of the run beside halt, by which a later call continues it"
        raise InvalidInput("on_exhausted", wanted=wanted, got="a run without a name")
    return OnExhausted(on_exhausted)


def configure_order(store: Store, queue: str, columns: InputColumns, on_exhausted: OnExhausted | None) -> None:
    """Raise ``Unsupported`` if the store has no domains; store what happens after a dead row, unless it is None."""
    capabilities = store.capabilities
    if columns.domain and not capabilities.has(Feature.DOMAIN):
        raise Unsupported(capabilities.driver, Feature.DOMAIN, capabilities.gaps[Feature.DOMAIN])
    if on_exhausted is not None:
        store.do(Configure(queue=queue, settings=QueueSettings(on_exhausted=on_exhausted), only=("on_exhausted",)))


def count_halted(store: Store, queue: str, columns: InputColumns) -> int:
    """Return how many domains of an ordered run are halted."""
    return sum(1 for _ in blocked_domains(store, queue)) if columns.domain else 0


def remember_order(store: Store, queue: str, type_: str, columns: InputColumns, *, ttl: int) -> None:
    """Remember the order of a named run. Raises ``InvalidInput`` if open rows of an earlier call have another order."""
    [entry] = store.do(Read(kind=ORDER_KIND, keys=[queue]))
    order = [[columns.names[place] for place in places] for places in (columns.domain, columns.order)]
    if entry is not None and entry.value is not None:
        before = msgspec.json.decode(entry.value, type=list[list[str]])
    else:
        before = [[], []]
    if order != before and store.do(AnyOpen(queues=[queue], types=[type_])):
        wanted = f"{_shown(before)}, as in the earlier call: the run has open rows"
        raise InvalidInput("order_by", wanted=wanted, got=_shown(order))
    if order != [[], []] or entry is not None:
        store.do(Write(changes=[Change(kind=ORDER_KIND, key=queue, value=msgspec.json.encode(order), ttl=ttl)]))


def _shown(order: Sequence[Sequence[str]]) -> str:
    return ", ".join(name for part in order for name in part) or "nothing"
