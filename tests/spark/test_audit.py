"""Every planted violation is found by its check, and histories of correct stores are certified."""

from dataclasses import replace

import pyarrow as pa
import pytest

from holdfast import connect
from holdfast.clock import DAY, SECOND
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.spark.history.audit import CHECKS, audit
from holdfast.spark.history.schemas import jobs_table, leases_table
from holdfast.spark.history.store_reader import read_chunks
from holdfast.testing.drivers.simulation.run import simulate

START = 1_800_000_000 * SECOND
AFTER = {"acked": "done", "failed": "dead", "cancelled": "cancelled", "purged": None}


def row(job_id, ending, fence=None, *, at=0, lasts=1, attempt=1, state="", domain=None, enqueued=0):
    """A ledger row, in seconds since the start. A row without a fence is an operator's."""
    if state == "":
        state = AFTER.get(ending, "ready")
    return LedgerRow(
        job_id=job_id,
        type="t",
        queue="q",
        domain=domain,
        offset=None,
        attempt=attempt,
        fence=fence,
        worker="w",
        enqueued_at=START + enqueued * SECOND,
        available_at=START + enqueued * SECOND,
        reserved_at=None if fence is None else START + at * SECOND,
        started_at=None,
        ended_at=START + (at + lasts) * SECOND,
        ending=Ending(ending),
        state=None if state is None else State(state),
        detail="",
        error="",
    )


def job(job_id, state="done", key=None, max_attempts=3, **fields):
    return JobRecord(
        id=job_id, type="t", queue="q", payload=b"", created_at=START, max_attempts=max_attempts, state=State(state),
        idempotency_key=key, **fields,
    )  # fmt: skip


GOOD = [
    # Retried, released (which counts for nothing), expired, then done.
    row("plain", "retried", 1, at=1),
    row("plain", "released", 2, at=3, attempt=2),
    row("plain", "expired", 3, at=5, attempt=2),
    row("plain", "acked", 4, at=7, attempt=3),
    # Dead, requeued, and then again as many runs as allowed.
    *(row("again", "retried", 10 + n, at=n * 2, attempt=n + 1, state="ready" if n < 2 else "dead") for n in range(3)),
    row("again", "requeued", at=10),
    *(row("again", "retried", 20 + n, at=20 + n * 2, attempt=n + 1) for n in range(2)),
    row("again", "acked", 30, at=30, attempt=3),
    # Purged, and a new job with the same id; the other was trimmed, which takes a day.
    row("replaced", "acked", 40, at=1),
    row("replaced", "purged", at=2),
    row("replaced", "acked", 41, at=5, enqueued=4),
    row("old", "acked", 42, at=1),
    row("old", "acked", 43, at=100_005, enqueued=100_000),
    # A domain whose head was cancelled between two runs; the requeued job runs last.
    row("d1", "retried", 50, at=1, domain="d"),
    row("d1", "cancelled", at=3, domain="d"),
    row("d2", "failed", 51, at=5, domain="d", enqueued=2),
    row("d2", "requeued", at=7, domain="d", enqueued=2),
    row("d3", "acked", 52, at=9, domain="d", enqueued=3),
    row("d2", "acked", 53, at=11, domain="d", enqueued=2),
    # A key whose first job was dead before the second job arrived, and is requeued while the second waits.
    row("k1", "failed", 60, at=1),
    row("k1", "requeued", at=100_000),
]
GOOD_JOBS = [job("plain"), job("again"), job("k1", "ready", key="k"), job("k2", "ready", key="k"), job("w", "ready")]
GOOD_WAITING = [job("k1", "ready", key="k"), job("k2", "ready", key="k"), job("w", "ready")]

# By name: the rows, and the checks that must find them. Some rows break two laws.
PLANTED = {
    "overlap": ([row("p1", "retried", 101, at=1, lasts=5), row("p1", "acked", 102, at=5, attempt=2)], "overlap"),
    "backwards": ([row("p2", "acked", 103, at=5, lasts=-1)], "overlap"),
    "fence": ([row("p3", "retried", 105, at=1), row("p3", "acked", 104, at=3, attempt=2)], "fence_fell"),
    "twice": ([row("p4", "retried", 106, at=1), row("p4", "acked", 106, at=3, attempt=2)], "ended_twice"),
    "acked": ([row("p5", "acked", 107, at=1), row("p5", "acked", 108, at=3)], "acked_twice after_end"),
    "late": ([row("p6", "failed", 109, at=1), row("p6", "retried", 110, at=3)], "after_end"),
    "often": ([row("p7", "retried", 111 + n, at=n * 2, attempt=n + 1) for n in range(4)], "max_attempts"),
    "uncounted": ([row("p8", "retried", 120, at=1), row("p8", "acked", 121, at=3, attempt=1)], "attempts"),
    "state": ([row("p9", "acked", 122, at=1, state="ready")], "states"),
    "again": ([row("p10", "acked", 123, at=1), row("p10", "acked", 124, at=9, enqueued=5)], "accepted_twice"),
    "lost": ([row("p11", "retried", 125, at=1)], "lost"),
    "never run": ([], "lost"),
    "two at a time": (
        [row("p12", "acked", 126, at=1, lasts=9, domain="e"), row("p13", "acked", 127, at=3, lasts=9, domain="e")],
        "domain_overlap domain_order",
    ),
    "overtaken": (
        [row("p14", "retried", 128, at=1, domain="f"), row("p15", "acked", 129, at=3, domain="f"),
         row("p14", "acked", 130, at=5, attempt=2, domain="f")],
        "domain_order",
    ),
    "late comer first": (
        [row("p16", "acked", 131, at=20, enqueued=9, domain="g"), row("p17", "acked", 132, at=30, domain="g")],
        "domain_order",
    ),
    "key": ([row("p18", "acked", 133, at=1, lasts=9), row("p19", "acked", 134, at=20, enqueued=5)], "dedupe"),
}  # fmt: skip
PLANTED_JOBS = [job("p7"), job("p18", key="x"), job("p19", key="x"), job("p20", "ready")]
GUILTY = {"two at a time": "p13", "overtaken": "p15", "late comer first": "p17", "key": "p19", "never run": "p20"}


def frames(spark, rows, jobs, waiting, position=0):
    tables = leases_table(rows, position=position), jobs_table(jobs, position=0), jobs_table(waiting, position=0)
    return [spark.createDataFrame(table) for table in tables]


@pytest.fixture(scope="module")
def certificate(spark):
    """All rows in one history: a violation of one job must not hide or change another."""
    bad = [each for rows, _ in PLANTED.values() for each in rows]
    waiting = [*GOOD_WAITING, *(job(each, "ready") for each in ("p1", "p3", "p6", "p7", "p9"))]
    seen = frames(spark, [*GOOD, *bad], [*GOOD_JOBS, *PLANTED_JOBS], waiting)
    return audit(*seen, snapshot=10_000)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(certificate, name):
    rows, checks = PLANTED[name]
    guilty = GUILTY.get(name) or rows[0].job_id
    by_check = {violation.check: violation for violation in certificate.violations if violation.job_id == guilty}
    assert set(by_check) >= set(checks.split())
    assert not certificate.holds
    assert all(violation.facts for violation in by_check.values())


def test_correct_jobs_have_no_violation(certificate):
    innocent = {each.job_id for each in GOOD} | {each.id for each in GOOD_JOBS}
    assert not [violation for violation in certificate.violations if violation.job_id in innocent]
    planted = {check for _, checks in PLANTED.values() for check in checks.split()}
    assert {check for check, count in certificate.violation_counts.items() if count} == planted == set(CHECKS)


def test_one_of_each_kind_is_found_among_many_rows(spark):
    """The soak test does the same with ten million rows."""
    from tests.soak.planted_violations import audit_planted, check_certificate

    check_certificate(*audit_planted(spark, 20_000))


def test_the_certificate_counts_what_was_checked(certificate):
    rows = [*GOOD, *(each for rows, _ in PLANTED.values() for each in rows)]
    assert (certificate.rows, certificate.leases) == (len(rows), sum(each.fence is not None for each in rows))
    assert certificate.jobs == len({each.job_id for each in rows} | {"k2", "w", "p20"})
    assert (certificate.domains, certificate.keys) == (4, 2)
    assert (certificate.first, certificate.last) == (START, START + 100_006 * SECOND)
    assert sum(certificate.states.values()) == certificate.jobs


def test_histories_of_simulated_failures_are_certified(spark):
    """Crashes, late settlements, duplicates, cancels, requeues and purges of thirty seeds, in one history."""
    rows, jobs, waiting = [], [], []
    for seed in range(30):
        stores = []

        def fresh(stores=stores):
            stores.append(connect("memory://", caller_clock=True))
            return stores[0]

        assert simulate(seed, steps=150, open_store=fresh).failure is None
        for chunk in read_chunks(stores[0], None):
            for target, source in ((rows, chunk.rows), (jobs, chunk.records), (waiting, chunk.waiting or [])):
                target += [_with_seed(each, seed) for each in source]
    certificate = audit(*frames(spark, rows, jobs, waiting), snapshot=len(rows))
    assert certificate.holds, certificate.violations
    assert certificate.rows == len(rows) > 1000
    assert certificate.domains > 30


def _with_seed(each, seed):
    """Put the seed into the ids: every seed produces the same ids, which would otherwise be the same jobs."""
    name = "job_id" if isinstance(each, LedgerRow) else "id"
    return replace(each, **{name: f"{seed}-{getattr(each, name)}", "queue": f"{seed}-{each.queue}"})


def test_an_empty_history_holds(spark):
    certificate = audit(*frames(spark, [], [], []), snapshot=None)
    assert certificate.holds
    assert (certificate.rows, certificate.first) == (0, None)


def test_tables_keep_every_instant_to_the_microsecond(spark):
    [ledger_row] = [replace(GOOD[0], started_at=START + 1_234_567)]
    frame = spark.createDataFrame(leases_table([ledger_row], position=7))
    [got] = frame.selectExpr("position", "unix_micros(started_at) AS at", "CAST(day AS string) AS day").collect()
    assert tuple(got) == (7, START + 1_234_567, "2027-01-15")
    assert ledger_row.ended_at // DAY == 20_833
    assert isinstance(leases_table([], position=0), pa.Table)
