"""The query plans: each statement uses its index, and no statement scans a table that grows."""

import re
import tracemalloc

import pytest

import holdfast
from holdfast.clock import DAY, SECOND
from holdfast.drivers.requests import FIND_LIMIT, Cancel, Counts, Find, LedgerTail, Reserve, Trim
from holdfast.drivers.sqlite.statements import _STATEMENTS, sql
from holdfast.drivers.statements import NEWEST
from holdfast.model.filters import JobFilter
from holdfast.model.isolation import Isolation
from holdfast.model.job import State
from holdfast.model.settlement import Retry
from tests.sqlite.conftest import NOW

STEPS_BETWEEN_SAMPLES = 100

SEARCHED_INDEXES = {  # statement -> the indexes that its plan must search
    "ack/insert_valid": {"holdfast_jobs_id"},
    "ack/end_offsets": {"PRIMARY KEY"},
    "ack/any_special_domain": {"PRIMARY KEY"},
    "ack/give_turns": {"holdfast_jobs_domain", "INTEGER PRIMARY KEY"},
    "settle/find_live": {"holdfast_jobs_id"},
    "settle/find_ended": {"holdfast_ended_id"},
    "reap/find_expired": {"holdfast_jobs_leased"},
    "reap/find_of_worker": {"holdfast_jobs_leased"},
    "reap/find_queues": {"holdfast_jobs_leased"},
    "reserve/due": {"holdfast_jobs_lane"},
    "reserve/due_sizes": {"holdfast_jobs_lane"},
    "reserve/payloads": {"INTEGER PRIMARY KEY"},
    "reserve/find_lanes": {"holdfast_jobs_lane", "PRIMARY KEY"},
    "reserve/find_lanes_of_types": {"holdfast_jobs_lane", "PRIMARY KEY"},
    "wait/lane_heads": {"holdfast_jobs_lane", "PRIMARY KEY"},
    "reserve/limits": {"holdfast_jobs_leased", "PRIMARY KEY"},
    "limit_keys/read": {"PRIMARY KEY", "holdfast_jobs_key_leased"},
    "limit_keys/find_woken": {"holdfast_limit_keys_wake"},
    "limit_keys/find_parked_lanes": {"holdfast_jobs_parked", "PRIMARY KEY"},
    "limit_keys/park": {"holdfast_jobs_key_ready", "INTEGER PRIMARY KEY"},
    "limit_keys/unpark": {"holdfast_jobs_parked", "INTEGER PRIMARY KEY"},
    "limit_keys/is_parked": {"holdfast_jobs_parked"},
    "limit_keys/wake": {"PRIMARY KEY"},
    "limit_keys/trim": {"PRIMARY KEY"},
    "wait/first_wake": {"holdfast_limit_keys_wake"},
    "enqueue/insert_plain": {"holdfast_ended_id", "PRIMARY KEY"},
    "enqueue/find_id": {"holdfast_jobs_id", "holdfast_ended_id"},
    "enqueue/find_ids": {"holdfast_jobs_id", "holdfast_ended_id"},
    "enqueue/find_keys": {"PRIMARY KEY", "holdfast_jobs_id"},
    "enqueue/find_offsets": {"holdfast_jobs_domain", "PRIMARY KEY", "holdfast_ended_offset"},
    "offsets/find_ranges": {"PRIMARY KEY"},
    "domains/heads": {"holdfast_jobs_domain", "holdfast_jobs_turn", "PRIMARY KEY"},
    "domains/next_open": {"holdfast_jobs_domain"},
    "domains/halted": {"holdfast_domains_halted"},
    "domains/waiting": {"PRIMARY KEY"},
    "gaps/find_arrived": {"holdfast_domains_arrived"},
    "gaps/find_waiting": {"holdfast_domains_waiting"},
    "gaps/pass": {"PRIMARY KEY", "holdfast_jobs_domain"},
    "domains/describe": {"holdfast_jobs_domain", "holdfast_jobs_turn", "PRIMARY KEY"},
    "domains/find_halts": {"PRIMARY KEY"},
    "domains/has_open": {"holdfast_jobs_domain"},
    "requeue/find_taken": {"holdfast_jobs_domain"},
    "wait/first_gap": {"holdfast_domains_arrived", "holdfast_domains_waiting"},
    "cancel/is_requested": {"holdfast_jobs_id"},
    "ended/delete_payloads": {"INTEGER PRIMARY KEY"},
    "admin/count_stray_payloads": {"holdfast_payloads_space", "holdfast_jobs_payload", "holdfast_ended_payload"},
    "find/live": {"holdfast_jobs_id"},
    "find/done": {"holdfast_ended_id"},
    "find/dead_or_cancelled": {"holdfast_ended_few"},
    "admin/count_open": {"holdfast_jobs_id"},
    "admin/count_done": {"holdfast_ended_id"},
    "admin/count_dead_or_cancelled": {"holdfast_ended_few"},
    "find/end_live": {"COVERING INDEX holdfast_jobs_id"},
    "find/end_done": {"COVERING INDEX holdfast_ended_id"},
    "find/end_dead_or_cancelled": {"COVERING INDEX holdfast_ended_few"},
    "trim/find_ended": {"holdfast_ended_when"},
    "trim/find_keys": {"holdfast_dedupe_expiry", "holdfast_jobs_id", "holdfast_ended_id"},
    "trim/delete_key": {"PRIMARY KEY"},
    "trim/postpone_key": {"PRIMARY KEY"},
    "ledger/page": {"PRIMARY KEY"},
    "ledger/unread": {"PRIMARY KEY"},
    "admin/inspect": {"holdfast_jobs_id", "holdfast_ended_id"},
    "purge/find_late": {"holdfast_ended_id"},
    "estimate/has_many_open": {"holdfast_jobs_id"},
    "estimate/has_many_ended": {"holdfast_ended_id"},
    "estimate/has_many_few": {"holdfast_ended_few"},
    "estimate/due": {"holdfast_jobs_lane"},
    "estimate/later": {"holdfast_jobs_lane"},
    "estimate/leases": {"holdfast_jobs_leased"},
    "space/next_leased": {"holdfast_jobs_leased"},
    "space/is_expired": {"holdfast_jobs_leased"},
    "space/count_leases": {"holdfast_jobs_leased"},
    "ledger/mark": {"PRIMARY KEY"},
    "ledger/rest": {"PRIMARY KEY"},
    "registry/read": {"sqlite_autoindex_holdfast_registry_1"},
    "registry/scan": {"sqlite_autoindex_holdfast_registry_1"},
}
WITHOUT_SORT = {
    "ack/end_offsets",
    "ack/give_turns",
    "domains/heads",
    "domains/next_open",
    "domains/halted",
    "domains/waiting",
    "gaps/find_waiting",
    "gaps/pass",
    "domains/describe",
    "offsets/find_ranges",
    "enqueue/find_offsets",
    "wait/first_gap",
    "limit_keys/find_woken",
    "limit_keys/park",
    "limit_keys/unpark",
    "reserve/due",
    "reserve/due_sizes",
    "reap/find_expired",
    "reap/find_of_worker",
    "find/live",
    "find/done",
    "find/dead_or_cancelled",
    "find/end_live",
    "find/end_done",
    "find/end_dead_or_cancelled",
    "trim/find_ended",
    "trim/find_keys",
    "ledger/page",
    "ledger/unread",
    "ledger/mark",
    "registry/scan",
}
SCANS_ALLOWED = {"enqueue/dedupe_windows", "space/tables"}  # have few rows
SMALL_TABLE_SCAN = re.compile(
    r"SCAN (holdfast_(acking|settling)|a|s|queues|types|given|taken|kinds|expired|held|some|alone|json_each|CONSTANT|"
    r"pragma_\w+)\b"
)


@pytest.fixture
def plan(store):
    def explain(name: str) -> list[str]:
        def read(connection):
            for table in ("ack/create_table", "settle/create_table"):
                connection.execute(sql(table).replace("TEMP TABLE", "TEMP TABLE IF NOT EXISTS"))
            marks = sql(name).count("?")
            names = dict.fromkeys(re.findall(r":(\w+)", sql(name)))
            rows = connection.execute(f"EXPLAIN QUERY PLAN {sql(name)}", names or (None,) * marks)
            return [detail for *_, detail in rows]

        return store.engine._database.write(read)

    return explain


@pytest.mark.parametrize("name", SEARCHED_INDEXES)
def test_a_statement_uses_its_index(plan, name):
    lines = plan(name)
    assert lines
    for index in SEARCHED_INDEXES[name]:
        assert any(index in line and line.startswith("SEARCH") for line in lines), lines
    if name in WITHOUT_SORT:
        assert not [line for line in lines if "TEMP B-TREE" in line], lines


@pytest.mark.parametrize("name", [name for name in _STATEMENTS if not name.endswith("/create_table")])
def test_no_statement_scans_a_table_that_grows(plan, name):
    scans = [line for line in plan(name) if line.startswith("SCAN") and not SMALL_TABLE_SCAN.match(line)]
    assert name in SCANS_ALLOWED or scans == []


LANE_PROBES = ["reserve/find_lanes", "reserve/find_lanes_of_types", "reserve/due", "reserve/due_sizes"]


@pytest.mark.parametrize("name", LANE_PROBES)
def test_isolated_jobs_are_told_apart_by_the_index_and_not_by_a_filter(plan, name):
    wanted = "(space=? AND queue=? AND type=? AND priority=? AND isolated=? AND available_at<?)"
    assert [line for line in plan(name) if "holdfast_jobs_lane" in line and line.endswith(wanted)]


@pytest.mark.parametrize("isolation", Isolation)
def test_a_backlog_of_isolated_jobs_costs_no_more_than_a_few(path, job, isolation):
    assert _reserve_steps(path, job, isolation, backlog=3000) == _reserve_steps(path, job, isolation, backlog=30)


def _reserve_steps(path, job, isolation: Isolation, backlog: int) -> int:
    """Return how many steps SQLite's machine takes to reserve ten jobs while isolated jobs come first."""
    store = holdfast.connect(f"sqlite:///{path}-{backlog}", caller_clock=True)
    store.enqueue([job() for _ in range(backlog)], now=NOW)
    crashed = store.reserve(["q"], limit=backlog, lease_for=SECOND, now=NOW)
    store.settle([Retry(one.lease, crashed=True) for one in crashed], now=NOW)
    store.enqueue([job() for _ in range(20)], now=NOW + 1)
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    store.engine._database.write(lambda connection: connection.set_progress_handler(count, 1))
    store.do(Reserve(queues=["q"], limit=10, lease_for=SECOND, isolation=isolation, now=NOW + 2))
    store.close()
    assert steps
    return steps


@pytest.mark.parametrize("name", ["domains/heads", "domains/describe", "gaps/pass", "ack/give_turns"])
def test_the_first_job_of_a_domain_is_one_probe_whatever_its_backlog(plan, name):
    """By offset, and by arrival among the jobs without an offset: never a filter over the jobs of the domain."""
    wanted = "(space=? AND queue=? AND domain=? AND offset>?)"
    assert [line for line in plan(name) if "holdfast_jobs_domain" in line and line.endswith(wanted)]


@pytest.mark.parametrize(
    "name", ["domains/heads", "domains/describe", "enqueue/find_offsets", "offsets/find_ranges", "ack/end_offsets"]
)
def test_ended_offsets_are_found_by_a_probe(plan, name):
    lines = [line for line in plan(name) if line.startswith(("SEARCH r ", "SEARCH p "))]
    assert lines
    assert all("PRIMARY KEY (space=? AND queue=? AND domain=?" in line for line in lines)
    assert any("first<?" in line for line in lines)


def test_a_payload_that_does_not_fit_the_budget_is_not_read(store, job):
    size = 1_000_000
    store.enqueue([job(), *(job(type=f"t{number}", payload=b"1" * size) for number in range(3))], now=NOW)
    tracemalloc.start()
    try:
        reservations = store.do(Reserve(queues=["q"], limit=10, lease_for=SECOND, max_bytes=100, now=NOW)).reservations
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(reservations) == 1
    assert peak < size


def count_steps(store, call) -> int:
    """Return about how many instructions of SQLite's machine a call takes."""
    steps = [0]

    def step():
        steps[0] += STEPS_BETWEEN_SAMPLES

    def install(handler):
        store.engine._database.write(lambda connection: connection.set_progress_handler(handler, STEPS_BETWEEN_SAMPLES))
        with store.engine._database.reading() as connection:  # the next read takes this connection too
            connection.set_progress_handler(handler, STEPS_BETWEEN_SAMPLES)

    install(step)
    call()
    install(None)
    return steps[0]


def test_a_trim_does_not_read_the_keys_again_that_must_stay(store, job):
    """Keys of open and dead jobs whose window has ended: a trim looks at each of them once, and then rarely."""
    store.enqueue([job(idempotency_key=f"key-{n}") for n in range(5000)], now=NOW)
    later = NOW + 2 * DAY
    first = count_steps(store, lambda: store.do(Trim(now=later)))
    second = count_steps(store, lambda: store.do(Trim(now=later)))
    assert second < first / 20
    assert store.do(Cancel(job_ids=[f"job-{n:06}" for n in range(5000)], now=later)) == [State.CANCELLED] * 5000
    trimmed = store.do(Trim(ended_for=DAY, now=later + DAY))
    assert (trimmed.jobs, trimmed.dedupe) == (5000, 5000)


def insert_ended(store, count: int, state: State = State.DONE) -> None:
    """Fill the table of ended jobs without running jobs."""
    store.engine._database.write(
        lambda connection: connection.execute(
            "INSERT INTO holdfast_ended (seq, space, id, queue, type, priority, state, available_at, enqueued_at, "
            "ended_at, attempts, max_attempts, crashes, cancel_requested, noted, created_at, last_error, dead_reason, "
            "dead_at, payload) "
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1) "
            "SELECT n, 'main', format('ended-%08d', n), 'q', 't', 0, ?2, 0, 0, n, 1, 25, 0, 0, 0, 0, '', "
            "iif(?2 = 'dead', 'why', NULL), iif(?2 = 'dead', n, NULL), x'' FROM n",
            (count, state),
        )
    )


def find_all(store, where, limit=1000):
    """Return the pages of a list."""
    pages = [store.find(where, limit=limit)]
    while pages[-1].cursor is not None:
        pages.append(store.find(where, limit=limit, after=pages[-1].cursor))
    return pages


@pytest.mark.parametrize("state", [State.DONE, State.DEAD])
def test_one_page_reads_a_bounded_number_of_rows(store, state):
    """However many rows do not match; the pages that follow find the jobs that match."""
    count = 3 * FIND_LIMIT
    insert_ended(store, count, state)
    last = f"ended-{count:08}"
    rename = "UPDATE holdfast_ended SET name = 'one' WHERE id = ?"
    store.engine._database.write(lambda connection: connection.execute(rename, (last,)))
    where = JobFilter(states=(state,), name="one")
    pages = find_all(store, where)
    assert [[job.id for job in page] for page in pages] == [[], [], [last]]
    steps = [
        count_steps(store, lambda after=after: store.find(where, after=after)) for after in (None, pages[1].cursor)
    ]
    assert steps[0] < 3 * steps[1]  # the first page, with all rows after it, and the last page


def test_a_page_of_dead_letters_reads_no_other_page(store):
    insert_ended(store, 20_000, State.DEAD)
    where = JobFilter(states=(State.DEAD,))
    first, last = (
        count_steps(store, lambda after=after: store.find(where, limit=500, after=after))
        for after in (None, "ended-00019000")
    )
    assert first < 2 * last


def test_a_page_of_the_newest_jobs_reads_no_other_page(store):
    few, many = 2_000, 40_000
    insert_ended(store, few)
    before = count_steps(store, lambda: store.do(Find(limit=50, newest=True)))
    store.engine._database.write(lambda connection: connection.execute("DELETE FROM holdfast_ended"))
    insert_ended(store, many)
    assert count_steps(store, lambda: store.do(Find(limit=50, newest=True))) < 2 * before
    assert [job.id for job in store.do(Find(limit=2, newest=True))] == [f"ended-{many:08}", f"ended-{many - 1:08}"]
    bounded = JobFilter(name="none")
    newest, oldest = (
        count_steps(store, lambda order=order: store.do(Find(where=bounded, newest=order))) for order in (1, 0)
    )
    assert newest < 2 * oldest  # both stop after FIND_LIMIT rows


def test_the_tail_of_the_ledger_reads_no_other_row(store):
    def insert(count):
        store.engine._database.write(
            lambda connection: connection.execute(
                "INSERT INTO holdfast_ledger (space, seq, job_id, type, queue, attempt, worker, enqueued_at, "
                "available_at, ended_at, ending, detail, error) "
                "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?) "
                "SELECT 'main', (SELECT coalesce(max(seq), 0) FROM holdfast_ledger) + n, 'j', 't', 'q', 1, 'w', 1, 1, "
                "1, 'acked', '', '' FROM n",
                (count,),
            )
        )

    insert(1_000)
    before = count_steps(store, lambda: store.do(LedgerTail(limit=20)))
    insert(50_000)
    assert count_steps(store, lambda: store.do(LedgerTail(limit=20))) < 2 * before
    assert len(store.do(LedgerTail(limit=20))) == 20


def test_counts_without_done_jobs_does_not_read_them(store):
    insert_ended(store, 20_000)
    every = count_steps(store, lambda: store.counts(now=NOW))
    some = count_steps(store, lambda: store.do(Counts(states=set(State) - {State.DONE}, now=NOW)))
    assert some < every / 20


def test_every_statement_is_used():
    """A statement that no module names is dead code."""
    from pathlib import Path

    import holdfast.drivers.sqlite as package

    source = "".join(file.read_text() for file in Path(package.__file__).parent.glob("*.py"))
    assert [name for name in _STATEMENTS if f'"{name.removesuffix(NEWEST)}"' not in source] == []
