"""Capabilities, durability and close (L14, L15)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.drivers.capabilities import Durability, Feature
from holdfast.drivers.requests import (
    Cancel,
    Configure,
    Domains,
    ForgetDomain,
    Inspect,
    Purge,
    Read,
    Requeue,
    Resume,
    Scan,
    Settings,
    Trim,
    Write,
)
from holdfast.drivers.store import Store
from holdfast.errors import JobNotInflight, StoreClosed, Unsupported
from holdfast.model.job import State
from holdfast.model.lease import Lease
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack
from holdfast.testing.drivers.conformance.assertions import assert_answers, assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, CaseSkipped, Harness


def _gap_reason(h: Harness, feature: Feature) -> str:
    """Return the reason of a declared gap; skip the case if the driver supports the feature."""
    reason = h.capabilities.gaps.get(feature)
    if reason is None:
        raise CaseSkipped(f"this driver supports {feature}")
    return reason


@case("L15")
def durability_is_declared(h: Harness) -> None:
    assert isinstance(h.capabilities.durability, Durability), f"got {h.capabilities.durability!r}"


@case("L14")
def a_driver_has_a_name_and_a_reason_for_every_gap(h: Harness) -> None:
    assert h.capabilities.driver, "wanted a name"
    for feature, reason in h.capabilities.gaps.items():
        assert isinstance(feature, Feature), f"wanted a Feature, got {feature!r}"
        assert reason, f"wanted a reason for the gap {feature!r}"
        assert not h.capabilities.has(feature), f"wanted has({feature!r}) to be False"


@case("L13", needs={Feature.LEDGER, Feature.REGISTRY, Feature.RESULT})
def a_webhook_stays_with_its_job_so_that_a_reader_of_the_ledger_finds_it_after_the_end(h: Harness) -> None:
    url = "https://example.com/hook?key=1"
    [answer] = h.enqueue(h.job(webhook=url))
    [reservation] = h.reserve()
    assert_equal(reservation.job.webhook, url, "the webhook of the reserved job")
    h.must_settle(Ack(reservation.lease, result=b"1"))
    [row] = h.store.ledger()
    ended = h.store.get(row.job_id)
    assert ended is not None, "wanted the ended job"
    assert_equal((ended.id, ended.webhook, ended.result), (answer.id, url, b"1"), "the ended job")


@case("L14")
def joining_a_transaction_is_refused_by_a_driver_that_declines_it(h: Harness) -> None:
    reason = _gap_reason(h, Feature.JOINED)
    with assert_raises(Unsupported) as caught:
        h.store.joined(object())
    assert_equal((caught[0].feature, caught[0].reason), (Feature.JOINED, reason), "the attributes of the error")


def _calls(store: Store) -> dict[str, Callable[[], object]]:
    """Return every call that this driver supports, each with valid arguments."""
    lease = Lease(job_id="j", token="1.0", fence=1, expires_at=1)
    calls: dict[str, Callable[[], object]] = {
        "enqueue": lambda: store.enqueue([]),
        "reserve": lambda: store.reserve([QUEUE], limit=1, lease_for=LEASE),
        "extend": lambda: store.extend([lease], lease_for=LEASE),
        "settle": lambda: store.settle([Ack(lease)]),
        "reap": store.reap,
        "get": lambda: store.get("j"),
        "inspect": lambda: store.do(Inspect(job_ids=["j"])),
        "find": store.find,
        "counts": store.counts,
        "requeue": lambda: store.do(Requeue(job_ids=["j"])),
        "cancel": lambda: store.do(Cancel(job_ids=["j"])),
        "purge": lambda: store.do(Purge(job_ids=["j"])),
        "configure": lambda: store.do(Configure(queue=QUEUE, settings=QueueSettings())),
        "settings": lambda: store.do(Settings(queue=QUEUE)),
        "domains": lambda: store.do(Domains()),
        "resume": lambda: store.do(Resume(queue=QUEUE, domain="d")),
        "forget_domain": lambda: store.do(ForgetDomain(queue=QUEUE, domain="d")),
        "ledger": store.ledger,
        "trim": lambda: store.do(Trim()),
        "read": lambda: store.do(Read(kind="kind", keys=["key"])),
        "write": lambda: store.do(Write(changes=[Change(kind="kind", key="key", value=b"1")])),
        "scan": lambda: store.do(Scan(kind="kind")),
    }
    declined = {
        verb for feature, verbs in _METHODS_OF_GROUPS.items() if not store.capabilities.has(feature) for verb in verbs
    }
    return {verb: call for verb, call in calls.items() if verb not in declined}


_METHODS_OF_GROUPS = {
    Feature.JOBS: ("find", "counts", "requeue", "cancel", "purge", "trim"),
    Feature.LEDGER: ("ledger",),
    Feature.REGISTRY: ("read", "write", "scan"),
    Feature.LIMITS: ("configure", "settings"),
    Feature.DOMAINS: ("domains", "resume", "forget_domain"),
}


@case("L14")
def a_closed_store_refuses_every_call(h: Harness) -> None:
    store = h.open_store()
    store.close()
    for verb, call in _calls(store).items():
        with assert_raises(StoreClosed, verb):
            call()


@case("L14")
def closing_a_store_closes_its_spaces(h: Harness) -> None:
    store = h.open_store()
    inner = store.space(h.new_space_name()) if h.capabilities.has(Feature.SPACES) else store
    store.close()
    for verb, call in _calls(inner).items():
        with assert_raises(StoreClosed, verb):
            call()


@case("L14")
def closing_a_store_twice_has_no_effect(h: Harness) -> None:
    store = h.open_store()
    store.close()
    store.close()


@case("L14", needs={Feature.PROCESSES})
def closing_one_connection_leaves_the_others_open(h: Harness) -> None:
    job = h.enqueue_job()
    other = h.connect_again()
    assert_equal(other.get(job.id), job, "the job, seen by another connection")
    other.close()
    assert_equal(h.reserve_ids(), [job.id], "reserved on the first connection")


def _skip_unless_durable(h: Harness) -> None:
    if h.capabilities.durability < Durability.PROCESS:
        raise CaseSkipped("a store of this durability class is empty after a close")


@case("L15", needs={Feature.PROCESSES})
def jobs_leases_and_endings_survive_closing_and_reopening_the_store(h: Harness) -> None:
    _skip_unless_durable(h)
    space = h.new_space_name()
    first = h.open_store(space=space)
    jobs = [h.job(), h.job(), h.job()]
    first.enqueue(jobs, now=h.now_or_none)
    done, running = first.reserve([QUEUE], limit=2, lease_for=LEASE, now=h.now_or_none)
    first.settle([Ack(done.lease, result=b"1")], now=h.now_or_none)
    first.close()
    again = h.open_store(space=space)
    stored_jobs = [again.get(job.id) for job in jobs]
    wanted = [replace(done.job, state=State.DONE, result=b"1"), running.job, jobs[2]]
    assert_equal(stored_jobs, wanted, "the jobs")
    assert_equal(
        again.settle([Ack(done.lease), Ack(running.lease)], now=h.now_or_none), [None, None], "the settlements"
    )


@case("L4", "L15", needs={Feature.PROCESSES})
def fences_and_versions_keep_growing_after_the_store_is_reopened(h: Harness) -> None:
    _skip_unless_durable(h)
    space, fences, versions = h.new_space_name(), [], []
    for _ in range(3):
        store = h.open_store(space=space)
        store.enqueue([h.job()], now=h.now_or_none)
        [reservation] = store.reserve([QUEUE], limit=1, lease_for=LEASE, now=h.now_or_none)
        fences.append(reservation.lease.fence)
        if h.capabilities.has(Feature.REGISTRY):
            [entry] = store.do(Write(changes=[Change(kind="kind", key="key", value=b"1")], now=h.now_or_none))
            assert entry is not None, "wanted the row written"
            versions.append(entry.version)
            store.do(Write(changes=[Change(kind="kind", key="key", value=None)], now=h.now_or_none))
        store.close()
    assert fences == sorted(set(fences)), f"wanted growing fences, got {fences}"
    assert versions == sorted(set(versions)), f"wanted growing versions, got {versions}"


@case("L14")
def an_error_in_an_answer_names_its_job(h: Harness) -> None:
    lease = Lease(job_id="unknown", token="1.0", fence=1, expires_at=1)
    [answer] = h.settle(Ack(lease))
    assert_answers([answer], JobNotInflight)
    assert_equal(getattr(answer, "job_id", None), "unknown", "the job of the error")
