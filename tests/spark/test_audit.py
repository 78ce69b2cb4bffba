"""Every planted violation is found by its check, and histories of correct stores are certified."""

import pyarrow as pa
import pytest
from msgspec.structs import replace

from holdfast import connect
from holdfast.clock import DAY, SECOND
from holdfast.model.ledger import LedgerRow
from holdfast.spark.history.audit import Scope, audit
from holdfast.spark.history.schemas import leases_table
from holdfast.spark.history.store_reader import first_certain_instant, read_chunks
from tests.drivers.simulation.run import simulate
from tests.spark import planted_violations as planted
from tests.spark.planted_violations import GOOD, PLANTED, START, Deleted, Repeated, guilty_of, make_tables

GENERATED_ROWS, GENERATED_JOBS, GENERATED_DOMAINS, GENERATED_KEYS = 1400, 1000, 50, 334


def frames(spark, tables):
    return [spark.createDataFrame(table) for table in tables]


@pytest.fixture(scope="module")
def certificate(spark):
    """All rows in one history: a violation of one job must not hide or change another. Soak has ten million rows."""
    tables, scope = planted.plant(spark, GENERATED_ROWS)
    return audit(*tables, scope=scope)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(certificate, name):
    _, checks = PLANTED[name]
    guilty = {guilty_of(name), ""}
    by_check = {violation.check: violation for violation in certificate.violations if violation.job_id in guilty}
    assert set(by_check) >= set(checks.split())
    assert all(violation.facts for violation in by_check.values())


def test_no_other_violation_is_reported(certificate):
    planted.check_certificate(certificate)
    assert len(PLANTED) > 20
    assert all(certificate.violation_counts.values())


def test_missing_rows_are_reported_by_their_positions(certificate):
    rows = list(enumerate([*GOOD, *planted.planted_rows()], GENERATED_ROWS))
    missing = [place for place, each in rows if isinstance(each, Deleted)]
    found = [each.facts for each in certificate.violations if each.check == "missing_rows"]
    assert [place for facts in found for place in range(facts["from"], facts["to"] + 1)] == missing
    [repeated] = [each.facts for each in certificate.violations if each.check == "repeated_rows"]
    assert [repeated["position"]] == [place for place, each in rows if isinstance(each, Repeated)]


def test_the_certificate_counts_what_was_checked(certificate):
    rows = [each for each in [*GOOD, *planted.planted_rows()] if not isinstance(each, Deleted)]
    rows += [each for each in rows if isinstance(each, Repeated)]
    rows = [each.row if isinstance(each, Repeated) else each for each in rows]
    leases = sum(each.fence is not None for each in rows)
    assert (certificate.rows, certificate.leases) == (GENERATED_ROWS + len(rows), GENERATED_ROWS + leases)
    jobs = {each.job_id for each in rows} | {"k2", "w", "p20", "p22", "p35"}
    assert certificate.jobs == GENERATED_JOBS + len(jobs)
    assert (certificate.domains, certificate.keys) == (GENERATED_DOMAINS + 13, GENERATED_KEYS + 5)
    assert (certificate.first, certificate.last) == (START, START + 100_006 * SECOND)
    assert sum(certificate.states.values()) == certificate.jobs


def test_histories_of_simulated_failures_are_certified(spark):
    """Crashes, late settlements, cancels, requeues, purges and trims of thirty seeds, in one history.

    The seeds whose ledger was trimmed are the oldest, and the certificate is told from when on the others are whole.
    """
    rows, jobs, waiting, since, arrivals = [], [], [], [0], {}
    for seed in range(30):
        stores = []

        def fresh(stores=stores):
            stores.append(connect("memory://", caller_clock=True))
            return stores[0]

        assert simulate(seed, steps=150, open_store=fresh).failure is None
        [chunk] = read_chunks(stores[0], None)
        trimmed = first_certain_instant(stores[0], chunk.rows[0])
        since.append(trimmed or 0)
        arrivals.update({f"{seed}-{job_id}": place for job_id, place in chunk.arrivals.items()})
        for target, source in ((rows, chunk.rows), (jobs, chunk.records), (waiting, chunk.waiting)):
            target += [_with_seed(each, seed, later=365 * DAY if trimmed is None else 0) for each in source]
    tables = make_tables(rows, late_jobs=jobs, late_waiting=waiting, arrivals=arrivals)
    counts = {"jobs": len(jobs), "waiting": len(waiting)}
    scope = Scope(position=len(rows), snapshot=len(rows), since=max(since), **counts)
    certificate = audit(*frames(spark, tables), scope=scope)
    assert certificate.holds, certificate.violations
    assert certificate.rows == len(rows) > 1000
    assert certificate.domains > 30
    assert max(since) > 0


def _with_seed(each, seed, *, later):
    """Put the seed into the ids, which every seed has, and move the instants."""
    name = "job_id" if isinstance(each, LedgerRow) else "id"
    moved = {
        field: value + later
        for field in each.__struct_fields__
        if field.endswith("_at") and (value := getattr(each, field)) is not None
    }
    return replace(each, **{name: f"{seed}-{getattr(each, name)}", "queue": f"{seed}-{each.queue}"}, **moved)


def test_without_rows_nothing_holds(spark):
    certificate = audit(*frames(spark, make_tables([])), scope=Scope(position=0, jobs=0, waiting=0, snapshot=None))
    assert not any(certificate.violation_counts.values())
    assert not certificate.holds
    assert (certificate.rows, certificate.first) == (0, None)
    assert certificate.verdict == "Nothing was checked: there are no ledger rows"


def test_tables_keep_every_instant_to_the_microsecond(spark):
    [ledger_row] = [replace(GOOD[0], started_at=START + 1_234_567)]
    frame = spark.createDataFrame(leases_table([ledger_row], position=7))
    [got] = frame.selectExpr("position", "unix_micros(started_at) AS at", "CAST(day AS string) AS day").collect()
    assert tuple(got) == (7, START + 1_234_567, "2027-01-15")
    assert ledger_row.ended_at // DAY == 20_833
    assert isinstance(leases_table([], position=0), pa.Table)
