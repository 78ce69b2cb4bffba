"""Refusals (L14): whatever needs a group or a field that an engine lacks is refused, and changes nothing.

There is one case for each group and each field. The cases are made from the tables of the requests, so a new request or
field has its refusal as soon as it says what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from holdfast.clock import HOUR, SECOND
from holdfast.drivers import requests as r
from holdfast.drivers.capabilities import FIELDS, GROUPS, Feature
from holdfast.drivers.store import Store
from holdfast.errors import Unsupported
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease, Note
from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import Case
from holdfast.testing.drivers.harness import LEASE, QUEUE, START, TYPE, CaseSkipped, Harness

CHANGE = Change(kind="kind", key="key", value=b"1")

GROUP_REQUESTS: tuple[r.Request[Any], ...] = (
    r.Find(),
    r.ReadColumns(where=JobFilter(), names=["id"]),
    r.AnyOpen(queues=[QUEUE], types=[TYPE]),
    r.Counts(),
    r.Requeue(job_ids=["job-00001"]),
    r.Cancel(job_ids=["job-00001"]),
    r.Purge(job_ids=["job-00001"]),
    r.Trim(),
    r.Ledger(),
    r.LedgerTail(),
    r.LedgerEnd(),
    r.ReadTuples(),
    r.LedgerMarks(every=1, most=1),
    r.Read(kind="kind", keys=["key"]),
    r.Scan(kind="kind"),
    r.Write(changes=[CHANGE]),
    r.Configure(queue=QUEUE, settings=QueueSettings(paused_until=START + HOUR)),
    r.Settings(queue=QUEUE),
    r.Domains(),
    r.Resume(queue=QUEUE, domain="d"),
    r.ForgetDomain(queue=QUEUE, domain="d"),
    r.Spaces(),
    r.RemoveSpace(name="conform-none"),
)
"""A request of every type that belongs to a group."""

VALUES: Mapping[type, Mapping[str, Mapping[str, Any]]] = {
    JobRecord: {
        "priority": {"priority": 9},
        "run_at": {"run_at": START + HOUR},
        "requested_run_at": {"requested_run_at": START},
        "idempotency_key": {"idempotency_key": "key"},
        "unique_for": {"unique_for": HOUR},
        "domain": {"domain": "d"},
        "offset": {"domain": "d", "offset": 0},
        "limit_key": {"limit_key": "key"},
        "webhook": {"webhook": "https://example.com/hook"},
    },
    Ack: {"result": {"result": b"1"}, "writes": {"writes": (CHANGE,)}},
    Retry: {"delay": {"delay": SECOND}, "run_at": {"run_at": START + SECOND}, "hold_key": {"hold_key": True}},
    Release: {"delay": {"delay": SECOND}},
    QueueSettings: {
        "on_exhausted": {"on_exhausted": OnExhausted.HALT},
        "gaps": {"gaps": Gaps.WAIT},
        "gap_report_after": {"gap_report_after": SECOND},
        "gap_pass_after": {"gap_pass_after": SECOND},
        "key_max_inflight": {"key_max_inflight": 1},
        "key_rate": {"key_rate": 1.0},
        "key_burst": {"key_rate": 1.0, "key_burst": 1},
        "dedupe_window": {"dedupe_window": HOUR},
    },
    r.Enqueue: {
        "writes": {"writes": (CHANGE,)},
        "replace_dead_before": {"replace_dead_before": START},
    },
    r.Reserve: {"types": {"types": [TYPE]}, "prefetch": {"prefetch": True}},
    r.Extend: {"notes": {"notes": {"job-00001": Note(progress=b"1")}}},
    r.Resume: {"position": {"position": 1}},
}
"""By type and field: the values of a request, or of a part of one, that gives the field."""


def _refused_requests(h: Harness, feature: Feature, lease: Lease) -> Iterator[r.Request[Any]]:
    """Return requests that the store must refuse without the feature, each valid otherwise."""
    yield from (request for request in GROUP_REQUESTS if feature in request.needs)
    for type_, needs in r.FIELD_NEEDS.items():
        for name, features in needs.items():
            if feature in features:
                yield from _requests_with(h, type_, VALUES[type_][name], lease)


def _requests_with(h: Harness, type_: type, values: Mapping[str, Any], lease: Lease) -> Iterator[r.Request[Any]]:
    """Return requests that carry these values."""
    if type_ is JobRecord:
        yield r.Enqueue(jobs=[h.job(), h.job(**values)])
        columns: dict[str, Any] = {
            f"{name}s": [None, values[field]]  # the first job of the batch has no value
            for name, field in (("key", "idempotency_key"), ("limit_key", "limit_key"))
            if field in values
        }
        yield r.Enqueue(jobs=h.job_batch([b"1", b"2"], **columns, **({} if columns else values)))
    elif type_ in (Ack, Retry, Release):
        yield r.Settle(settlements=[type_(lease, **values)])
    elif type_ is QueueSettings:
        yield r.Configure(queue=QUEUE, settings=QueueSettings(**values))
    elif type_ is r.Enqueue:
        yield r.Enqueue(jobs=[h.job()], **values)
    elif type_ is r.Reserve:
        yield r.Reserve(queues=[QUEUE], limit=1, lease_for=LEASE, **values)
    elif type_ is r.Extend:
        yield r.Extend(leases=[lease], lease_for=LEASE, **values)
    else:
        yield type_(queue=QUEUE, domain="d", **values)


def _refusal(feature: Feature) -> Case:
    def check(h: Harness) -> None:
        if h.capabilities.has(feature):
            raise CaseSkipped(f"this driver offers {feature}")
        assert isinstance(h.store, Store), f"wanted a store in front of an engine, got {h.store!r}"
        reservation = h.reserve_new_job()
        requests = list(_refused_requests(h, feature, reservation.lease))
        with h.assert_unchanged():
            for request in requests:
                with assert_raises(Unsupported, repr(request)) as caught:
                    h.store.do(request)
                assert_equal(caught[0].reason, h.capabilities.gaps.get(Feature(caught[0].feature)), "the reason")
        assert_equal(h.reserve(), [], "jobs of refused requests")
        h.must_settle(Ack(reservation.lease))
        if feature is Feature.SPACES:
            with assert_raises(Unsupported):
                h.store.space(h.new_space_name())

    name = f"what needs {feature} is refused where the driver declines it and changes nothing"
    topic = __name__.rpartition(".")[2]
    return Case(name=name, topic=topic, laws=("L14",), needs=frozenset(), function=check)


CASES = tuple(map(_refusal, chain(GROUPS, FIELDS)))
