"""Rows of correct jobs, and rows that break a law: what an audit must report, and what it must not."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from benchmarks.generated_history import generate_history
from holdfast.clock import SECOND
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.unique import WHILE_OPEN, WHILE_QUEUED
from holdfast.spark.history.audit import Scope
from holdfast.spark.history.certificate import CHECKS, FILE_CHECKS, Certificate
from holdfast.spark.history.schemas import jobs_table, leases_table

START = 1_800_000_000 * SECOND
LATE = 10**12  # the position of records that were read after all ledger rows
AFTER = {"acked": "done", "failed": "dead", "cancelled": "cancelled", "purged": None}


@dataclass(frozen=True)
class Deleted:
    """A ledger row that was written and is missing."""

    row: LedgerRow


@dataclass(frozen=True)
class Repeated:
    """A ledger row that is there twice, at the same position."""

    row: LedgerRow


def row(
    job_id, ending, fence=None, *, at=0, lasts=1, attempt=1, state="", domain=None, offset=None, enqueued=0, detail=""
):
    """A ledger row, in seconds since the start. A row without a fence is an operator's."""
    if state == "":
        state = AFTER.get(ending, "ready")
    enqueued_at = START + int(enqueued * SECOND)
    return LedgerRow(
        job_id=job_id,
        type="t",
        queue="q",
        domain=domain,
        offset=offset,
        attempt=attempt,
        fence=fence,
        worker="w",
        enqueued_at=enqueued_at,
        available_at=enqueued_at,
        reserved_at=None if fence is None else START + at * SECOND,
        started_at=None,
        ended_at=START + (at + lasts) * SECOND,
        ending=Ending(ending),
        state=None if state is None else State(state),
        detail=detail,
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
    row("again", "requeued", at=10, attempt=3),
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
    # A key that a job has while it is queued: the second job arrives while the first runs. A key that a job has while
    # it is open: the enqueue of the second read its clock just before the end of the first.
    row("u1", "acked", 66, at=1, lasts=20),
    row("u2", "acked", 67, at=30, enqueued=5),
    row("u3", "acked", 68, at=4, lasts=3, enqueued=3),
    row("u4", "acked", 69, at=30, enqueued=6.5),
    # A prefetched job whose lease expired before it began: its attempt is given back.
    row("ahead", "expired", 61, at=1, detail="not begun"),
    row("ahead", "acked", 62, at=3),
    # A cancelled attempt was released, so it was given back, which only the record says. Then requeued and purged.
    row("stopped", "cancelled", 63, at=1, detail="cancelled at release"),
    row("stopped", "requeued", at=3, attempt=0),
    row("stopped", "cancelled", at=5, attempt=0),
    row("stopped", "purged", at=7, attempt=0),
    # Two jobs of one call, in the order of arrival although not of their ids.
    row("e2", "acked", 64, at=1, domain="one call"),
    row("e1", "acked", 65, at=3, domain="one call"),
    # Offsets: a smaller one takes the turn of one that waits for its retry, and another comes while one runs. The job
    # without an offset runs last.
    row("o5", "retried", 70, at=1, domain="offsets", offset=5),
    row("o3", "acked", 71, at=4, domain="offsets", offset=3, enqueued=3),
    row("o5", "acked", 72, at=6, domain="offsets", offset=5, attempt=2),
    row("o1", "acked", 73, at=8, domain="offsets", offset=1, enqueued=6.5),
    row("o", "acked", 74, at=10, domain="offsets"),
    # A job that halted its domain, and was requeued at its old place.
    row("h1", "failed", 75, at=1, domain="halted"),
    row("h1", "requeued", at=3, domain="halted"),
    row("h1", "acked", 76, at=5, domain="halted"),
    row("h2", "acked", 77, at=7, domain="halted"),
]
# Records that were read after all rows.
GOOD_JOBS = [
    job("plain", attempts=3),
    job("again", attempts=3),
    job("ahead", attempts=1),
    job("d2", attempts=1),
    job("k1", "ready", key="k"),
    job("k2", "ready", key="k"),
    job("w", "ready"),
    *(job(each, key="while queued", unique_for=WHILE_QUEUED, attempts=1) for each in ("u1", "u2")),
    *(job(each, key="while it was open", unique_for=WHILE_OPEN, attempts=1) for each in ("u3", "u4")),
    job("e1", attempts=1, domain="one call"),
    job("e2", attempts=1, domain="one call"),
    job("h1", attempts=1, domain="halted"),
    job("h2", attempts=1, domain="halted"),
]
GOOD_WAITING = [job("k1", "ready", key="k"), job("k2", "inflight", key="k", attempts=1), job("w", "ready")]
ARRIVALS = {"e2": 1, "e1": 2, "h1": 3, "h2": 4, "p31": 8, "p32": 7}

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
    "key while open": (
        [row("p39", "acked", 159, at=4, lasts=9, enqueued=3), row("p40", "acked", 160, at=20, enqueued=6)], "dedupe",
    ),
    "key": ([row("p18", "acked", 133, at=1, lasts=9), row("p19", "acked", 134, at=20, enqueued=5)], "dedupe"),
    "hole in the attempts": (
        [Deleted(row("p21", "retried", 140, at=1)), row("p21", "acked", 141, at=3, attempt=2)], "attempts missing_rows",
    ),
    "first attempt": ([row("p38", "acked", 142, at=1, attempt=2)], "attempts"),
    "no rows": ([Deleted(row("p22", "acked", 143, at=1))], "records missing_rows"),
    "last row": (
        [row("p23", "retried", 144, at=1), Deleted(row("p23", "acked", 145, at=3, attempt=2))], "records missing_rows",
    ),
    "repeated": (
        [Repeated(row("p24", "acked", 146, at=1))], "repeated_rows ended_twice acked_twice after_end overlap",
    ),
    "edited ending": ([row("p25", "failed", 147, at=1)], "records"),
    "edited attempt": ([row("p26", "acked", 148, at=1)], "records"),
    "swapped": (
        [row("p27", "acked", 150, at=3, attempt=2), row("p27", "retried", 149, at=1)],
        "fence_fell after_end attempts overlap",
    ),
    "requeued alive": ([row("p28", "retried", 151, at=1), row("p28", "requeued", at=3)], "states"),
    "purged alive": ([row("p29", "purged", at=1, attempt=0)], "states"),
    "acked without a lease": ([row("p30", "acked", at=1, attempt=0)], "states"),
    "order in one call": (
        [row("p31", "acked", 152, at=1, domain="h"), row("p32", "acked", 153, at=3, domain="h")], "domain_order",
    ),
    "order of two calls": (
        [row("p33", "acked", 154, at=2, domain="i", enqueued=0.001), row("p34", "acked", 155, at=4, domain="i")],
        "domain_order",
    ),
    "order of offsets": (
        [row("p41", "acked", 161, at=1, domain="j", offset=5), row("p42", "acked", 162, at=3, domain="j", offset=3)],
        "domain_order",
    ),
    "order of offsets, hidden by late ones": (
        [row("p43", "acked", 163, at=1, domain="k", offset=9),
         row("p44", "acked", 164, at=3, domain="k", offset=5, enqueued=2),
         row("p45", "acked", 165, at=5, domain="k", offset=2, enqueued=3.5),
         row("p46", "acked", 166, at=7, domain="k", offset=3, enqueued=2.5)],
        "domain_order",
    ),
    "without an offset first": (
        [row("p47", "acked", 167, at=1, domain="l"), row("p48", "acked", 168, at=3, domain="l", offset=1)],
        "domain_order",
    ),
    "offset twice": (
        [row("p49", "acked", 169, at=1, domain="m", offset=1),
         row("p50", "acked", 170, at=5, domain="m", offset=1, enqueued=3)],
        "domain_past",
    ),
    "attempt without a row": ([], "records"),
    "uncounted expiry": ([row("p36", "expired", 156, at=1), row("p36", "acked", 157, at=3)], "attempts"),
    "waits although done": ([row("p37", "acked", 158, at=1)], "records"),
}  # fmt: skip
# Records that were read before the rows; those that were read after them; and jobs in the store.
PLANTED_JOBS = [
    *(job("p7"), job("p18", key="x"), job("p19", key="x"), job("p20", "ready")),
    *(job(each, key="while open", unique_for=WHILE_OPEN) for each in ("p39", "p40")),
]
PLANTED_LATE_JOBS = [
    job("p22", attempts=1),
    job("p23", attempts=2),
    job("p25", attempts=1),
    job("p26", attempts=2),
    job("p31", attempts=1, domain="h"),
    job("p32", attempts=1, domain="h"),
]
PLANTED_WAITING = [job(each, "ready") for each in ("p1", "p3", "p6", "p7", "p9", "p27", "p28")]
PLANTED_LATE_WAITING = [job("p35", "ready", attempts=1), job("p37", "ready", attempts=1)]
GUILTY = {
    "two at a time": "p13",
    "overtaken": "p15",
    "late comer first": "p17",
    "key": "p19",
    "key while open": "p40",
    "never run": "p20",
    "order in one call": "p32",
    "order of two calls": "p34",
    "order of offsets": "p42",
    "order of offsets, hidden by late ones": "p46",
    "without an offset first": "p48",
    "offset twice": "p50",
    "attempt without a row": "p35",
}
NO_JOB = ("missing_rows", "table_rows")  # checks that accuse no job


def planted_rows():
    """All planted rows, in their order."""
    return [each for rows, _ in PLANTED.values() for each in rows]


def guilty_of(name):
    """The job that a planted violation must be reported for."""
    [first, *_] = [*PLANTED[name][0], None]
    return GUILTY.get(name) or (first.row if isinstance(first, Deleted | Repeated) else first).job_id


def make_tables(rows, jobs=(), waiting=(), *, late_jobs=(), late_waiting=(), position=0, arrivals=ARRIVALS):
    """The tables of a history, the first row at ``position``; deleted rows take a position, too."""
    written = [each.row if isinstance(each, Deleted | Repeated) else each for each in rows]
    leases = leases_table(written, position=position)
    kept = [place for place, each in enumerate(rows) if not isinstance(each, Deleted)]
    again = [place for place, each in enumerate(rows) if isinstance(each, Repeated)]
    records = [jobs_table(jobs, position=0), jobs_table(late_jobs, position=LATE, arrivals=arrivals)]
    waits = [jobs_table(waiting, position=0), jobs_table(late_waiting, position=LATE)]
    return leases.take(pa.array(kept + again, pa.int64())), pa.concat_tables(records), pa.concat_tables(waits)


def plant(spark, rows):
    """Generated rows, then the good rows and the planted ones; and their scope, by which one record is missing."""
    *generated, scope = generate_history(spark, rows)
    written = [*GOOD, *planted_rows()]
    tables = make_tables(
        written,
        PLANTED_JOBS,
        PLANTED_WAITING,
        late_jobs=[*GOOD_JOBS, *PLANTED_LATE_JOBS],
        late_waiting=[*GOOD_WAITING, *PLANTED_LATE_WAITING],
        position=scope.position,
    )
    position = scope.position + len(written)
    frames = [frame.unionByName(spark.createDataFrame(table)) for frame, table in zip(generated, tables, strict=True)]
    return frames, Scope(
        position=position,
        snapshot=position,
        jobs=scope.jobs + tables[1].num_rows + 1,
        waiting=scope.waiting + tables[2].num_rows,
    )


def planted_violations():
    """By check, the jobs that must be reported, and the number of violations."""
    jobs = {check: set() for check in CHECKS if check not in FILE_CHECKS}
    for name, (_, checks) in PLANTED.items():
        for check in checks.split():
            jobs[check].add("" if check in NO_JOB else guilty_of(name))
    counts = {check: len(found) for check, found in jobs.items()}
    counts["missing_rows"] = sum(isinstance(each, Deleted) for each in planted_rows())
    return jobs, counts


def check_certificate(certificate: Certificate) -> None:
    """Check that the certificate reports every planted violation and no other, and one row less in the jobs."""
    jobs, counts = planted_violations()
    jobs["table_rows"], counts["table_rows"] = {""}, 1
    reported = {check: set() for check in jobs}
    for violation in certificate.violations:
        reported[violation.check].add(violation.job_id)
    assert reported == jobs, {check: (reported[check], jobs[check]) for check in jobs if reported[check] != jobs[check]}
    assert dict(certificate.violation_counts) == counts
    assert not certificate.holds
