"""The verbs read only the rows they need, whatever the tables hold: their plans and page counts show it.

A function uses one plan for all arguments (``plan_cache_mode = force_generic_plan``), so a plan that is seen here for
one batch is the plan for every batch. Plans are checked with empty tables without statistics, with full tables without
statistics, and with full tables after ANALYZE.
"""

import random
import re
from functools import partial

import psycopg
import pytest

import holdfast
import holdfast.driver
from holdfast.clock import DAY, MINUTE
from holdfast.drivers.packing import MAX_INLINE_BYTES
from holdfast.drivers.postgres import arrays
from holdfast.drivers.postgres.arrays import pack_blobs, pack_integers, pack_texts
from holdfast.drivers.postgres.enqueue import pack_job, pack_jobs
from holdfast.drivers.postgres.functions import load_functions
from holdfast.drivers.postgres.registry import pack_changes
from holdfast.drivers.postgres.settle import find_writes, pack_acks, pack_settlements, pack_writes
from holdfast.drivers.requests import FIND_LIMIT, AnyOpen, Cancel, Counts, Find, LedgerTail, ReadColumns, Reap, Trim
from holdfast.model.filters import JobFilter
from holdfast.model.isolation import Isolation
from holdfast.model.job import State
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Retry
from holdfast.testing.servers.postgres import PostgresServer
from tests.postgres.conftest import NOW
from tests.postgres.test_wait import wait_until

TABLES = "jobs|ended|ledger|dedupe|registry|notes|arrivals|limit_keys|key_changes|domains|ended_offsets|payloads"
FULL_READ = re.compile(rf"Seq Scan on ({TABLES})\b")
# A batch that is compared with the rows of a table, instead of a probe for each item: all rows are read, and not locked
# in the order of the batch.
COMPARED = re.compile(r"Join Filter: .*space = ANY \(ARRAY\[")
PAGES = re.compile(r"Buffers: shared (?:hit=(\d+))?(?: ?read=(\d+))?")
REPAIRS = {"remove_repeated_endings"}  # reads all jobs of a space, when a call has failed
VERBS = {function.name for function in load_functions() if not function.is_internal} - REPAIRS


def insert_jobs(jobs: int) -> str:
    """Half of them scheduled; most others of a type that is not requested, in front of the due jobs."""
    return f"""
INSERT INTO jobs (space, id, queue, type, priority, available_at, enqueued_at, created_at, max_attempts, payload,
                  domain, turn)
SELECT 'main', 'full-' || n, 'q',
       CASE WHEN n > {jobs // 2} AND n <= {jobs * 9 // 10} THEN 'unknown' ELSE 't' END,
       CASE WHEN n <= {jobs // 2} THEN 9 ELSE 0 END,
       CASE WHEN n <= {jobs // 2} THEN {NOW + 10**12} ELSE {NOW - 10**7} + n END, 0, 0, 25, '{{}}',
       CASE WHEN n > {jobs * 98 // 100} THEN 'd' || (n % 100) END, n <= {jobs * 98 // 100}
  FROM generate_series(1, {jobs}) AS n
"""


INSERT_ENDED = """
INSERT INTO ended (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, created_at,
                   attempts, max_attempts, crashes, cancel_requested, noted, last_error, payload)
SELECT n, 'main', 'ended-' || n, 'q', 't', 0, 'done', 0, 0, n, 0, 1, 25, 0, false, false, '', '{}'
  FROM generate_series(1, 200000) AS n
"""


def insert_letters(count: int, state: State = State.DEAD) -> str:
    """Ended jobs with sorted ids; the last one has the name "last"."""
    return f"""
INSERT INTO ended (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, created_at,
                   attempts, max_attempts, crashes, cancel_requested, noted, last_error, payload, dead_reason, dead_at,
                   name)
SELECT n, 'main', '{state}-' || lpad(n::text, 8, '0'), 'q', 't', 0, '{state}', 0, 0, n, 0, 1, 25, 0, false, false,
       'ValueError: bad value ' || n, '{{}}', CASE '{state}' WHEN 'dead' THEN 'unrecoverable' END,
       CASE '{state}' WHEN 'dead' THEN n END, CASE n WHEN {count} THEN 'last' END
  FROM generate_series(1, {count}) AS n
"""


INSERT_KEYS = """
INSERT INTO dedupe (until, space, queue, key, job_id, digest)
SELECT 9000000000000000, 'main', 'q', 'full-' || n, 'full-' || n, '' FROM generate_series(1, 20000) AS n
"""


class ExplainedSession:
    """A session that reports the plan of every statement, also inside functions (auto_explain)."""

    def __init__(self, url: str) -> None:
        self.plans: list[str] = []  # of the last call
        self.all_plans = ""
        self.connection = psycopg.connect(url, autocommit=True, options="-c search_path=holdfast")
        arrays.register(self.connection.adapters)
        self.connection.add_notice_handler(lambda notice: self.plans.append(notice.message_primary))
        for name, value in (
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_nested_statements", "on"),
            ("auto_explain.log_analyze", "on"),
            ("auto_explain.log_buffers", "on"),
            ("auto_explain.log_timing", "off"),
            ("client_min_messages", "log"),
        ):
            if name == "auto_explain.log_min_duration":
                self.connection.execute("LOAD 'auto_explain'")
            self.connection.execute(f"SET {name} = {value}")

    def call(self, function: str, *arguments: object) -> tuple[list[tuple], int]:
        """Return the rows of a call and the number of pages it touched. Assert that no plan reads a whole table."""
        numbers = ", ".join(f"${number}" for number in range(1, len(arguments) + 1))
        with psycopg.RawCursor(self.connection) as cursor:
            for _ in range(2):  # the first call also plans, and reads the catalogue for that
                self.plans.clear()
                cursor.execute("BEGIN")
                cursor.execute(f"SELECT * FROM {function}({numbers})", arguments)
                rows = cursor.fetchall()
                cursor.execute("ROLLBACK")
        plans = "\n".join(self.plans)
        self.all_plans += plans
        assert not FULL_READ.search(plans), plans
        assert not COMPARED.search(plans), plans
        whole = [text for text in self.plans if f"FROM {function}(" in text.split("\n", 2)[1]][-1]
        pages = PAGES.search(whole)
        return rows, sum(int(count or 0) for count in pages.groups()) if pages else 0


@pytest.fixture
def database():
    """A database on its own server: filling it is one long transaction, which would delay every other ledger."""
    with PostgresServer(durable=False) as server:
        holdfast.connect(server.url).close()
        yield server.url


def reserve_leases(store, k):
    return [one.lease for one in store.reserve(["q"], limit=k, lease_for=MINUTE, types=["t"], now=NOW)]


def count_pages(
    url: str, sizes: tuple[int, ...], *, full: bool, session: ExplainedSession | None = None
) -> dict[tuple[str, int], int]:
    """Return the pages that each verb touches, for batches of these sizes."""
    store = holdfast.connect(f"{url}?listen=off", caller_clock=True)
    explained = session or ExplainedSession(url)
    types, queues = pack_texts(["t"]), pack_texts(["q", "other"])
    pages = {}
    for k in sizes:
        for some_types, isolation, max_bytes, verb in (
            (types, Isolation.SHARE, None, "reserve"),
            (None, Isolation.SHARE, None, "reserve of any type"),
            (types, Isolation.ALONE, 1 << 20, "reserve of jobs that may share"),
        ):
            arguments = (
                "main",
                NOW,
                queues,
                some_types,
                k,
                MINUTE,
                "w",
                b"\0" * 16 * k,
                max_bytes,
                isolation.value,
                True,
            )
            rows, pages[verb, k] = explained.call("reserve", *arguments)
            assert len(rows) == (k if full else 0)
        leases = reserve_leases(store, k)
        settlements = [Ack(lease) for lease in leases] or [Ack(_lease())]
        _, pages["ack", k] = explained.call("ack", "main", NOW, *pack_acks(settlements))
        mixed = [Retry(one.lease, delay=5) if place % 2 else one for place, one in enumerate(settlements)]
        _, pages["settle", k] = explained.call("settle", "main", NOW, *pack_settlements(mixed, []))
        changes = [Change(kind="k", key=f"w-{place}", value=b"", version=0) for place in range(len(settlements))]
        with_writes = [Ack(one.lease, writes=(change,)) for one, change in zip(settlements, changes, strict=True)]
        writes = find_writes(with_writes)
        with_writes = pack_settlements(with_writes, writes)
        _, pages["settle with writes", k] = explained.call("settle", "main", NOW, *with_writes)
        acks = (*pack_acks(settlements), *pack_writes(writes))
        _, pages["ack_with_writes", k] = explained.call("ack_with_writes", "main", NOW, *acks)
        ids = ids_of(settlements)
        tokens = pack_texts([one.lease.token for one in settlements])
        _, pages["extend", k] = explained.call("extend", "main", NOW, MINUTE, ids, tokens, None, None, None)
        _, pages["cancel", k] = explained.call("cancel", "main", NOW, ids)
        later = NOW + 2 * MINUTE
        _, pages["report_outage", k] = explained.call("report_outage", "main", later, ids, tokens)
        _, pages["release_lost", k] = explained.call("release_lost", "main", NOW, queues, "w", b"\0" * 16 * k)
        _, pages["reap", k] = explained.call("reap", "main", None, None, k, later)
        _, pages["next_due", k] = explained.call("next_due", "main", queues, NOW)
        new = [_record(n) for n in range(k)]
        _, pages["enqueue", k] = explained.call("enqueue", "main", NOW, "c", True, 1, *pack_jobs(new))
        ended, keyed = [f"ended-{n}" for n in range(1, k + 1)], [f"full-{n}" for n in range(1, k + 1)]
        for where, known in (("ended", ended), ("jobs", keyed)):
            again = pack_jobs([_record(n, id=job_id) for n, job_id in enumerate(known)])
            rows, pages[f"enqueue of ids in {where}", k] = explained.call("enqueue", "main", NOW, "c", True, 1, *again)
            assert len(rows) == (k if full else 0)
        again = pack_jobs([_record(n, idempotency_key=f"full-{n}") for n in range(1, k + 1)])
        rows, pages["enqueue of known keys", k] = explained.call("enqueue", "main", NOW, "c", True, 1, *again)
        assert len(rows) == (k if full else 0)
        for where, fields, known in (
            ("a new job", {}, False),
            ("an id in ended", {"id": "ended-1"}, True),
            ("an id in jobs", {"id": "full-1"}, True),
            ("a known key", {"idempotency_key": "full-1"}, True),
        ):
            values = pack_job(_record(0, **fields))
            [(existing, _)], pages[f"enqueue_one of {where}", k] = explained.call(
                "enqueue_one", "main", NOW, "c", True, 1, *values
            )
            assert (existing is not None) == (known and full)
        _, pages["purge", k] = explained.call("purge", "main", NOW, pack_texts([f"ended-{n}" for n in range(1, k + 1)]))
        _, pages["trim_expired", k] = explained.call("trim_expired", "main", NOW, 1, 1, k)
        purged = pack_texts([f"ended-{n}" for n in range(1, k + 1)])
        _, pages["purge with readers", k] = explained.call("purge", "main", NOW, purged, 0, 0)
        replaced = [pack_texts([text.format(n) for n in range(k)]) for text in ("new-{}", "q", "full-{}")]
        for name, *read in (("replace_dead",), ("replace_dead with readers", 0, 0)):
            _, pages[name, k] = explained.call("replace_dead", "main", NOW, NOW, *replaced, *read)
        _, pages["trim_expired with readers", k] = explained.call("trim_expired", "main", NOW, 1, 1, k, 0, 0)
        _, pages["list_spaces", k] = explained.call("list_spaces", "", k)
        _, pages["list_expired_spaces", k] = explained.call("list_expired_spaces", "", k, later)
        _, pages["remove_space", k] = explained.call("remove_space", "main", True, k)
        ended_ids = pack_texts(ended)
        lanes = pack_texts(["q"]), pack_texts(["t"]), pack_integers([0]), None
        for verb, *arguments in (
            ("requeue", NOW, ended_ids),
            ("prepare_copy", NOW, "c", True, 1, *lanes),
            ("prepare_leased_copy", NOW, 1, "q", k),
            ("finish_copy", "new-0", "new-1", pack_texts(["q"]), pack_texts(["d"])),
            ("refuse_ended_ids", pack_texts([f"new-{n}" for n in range(k)])),
            ("write_registry", NOW, pack_texts(["k"] * k), ended_ids, pack_blobs([b""] * k), None, None, False),
            ("enqueue_with_writes", NOW, "c", True, 1, *pack_changes(changes), *pack_jobs(new)),
            ("read_ledger", None, None, k),
            ("find_ledger_end",),
            ("wake_keys", "q"),
            ("wake_domains", "other"),  # reads each domain of its queue
            ("resume_domain", NOW, None, "q", "d1", "retry", 5),
            ("forget_domain", "q", "nobody"),
            ("list_domains", NOW, None, None, "running", "", "", k, k),  # counts the jobs of those it returns
        ):
            _, pages[verb, k] = explained.call(verb, "main", *arguments)
        together = NOW, pack_texts(["k"] * k), ended_ids, pack_blobs([b""] * k), None, None, True
        _, pages["write_registry together", k] = explained.call("write_registry", "main", *together)
        if leases:
            store.settle([Ack(lease) for lease in leases], now=NOW)
    if session is None:
        explained.connection.close()
    store.close()
    return pages


def ids_of(settlements):
    return pack_texts([one.lease.job_id for one in settlements])


def _lease():
    return holdfast.driver.Lease(job_id="nobody", token="1.0", fence=1, expires_at=1)


def _record(number: int, **fields):
    plain = {"id": f"new-{number}", "type": "t", "queue": "q", "payload": b"{}", "created_at": NOW}
    return holdfast.driver.JobRecord(**{**plain, "idempotency_key": f"k{number}", "domain": f"d{number % 5}", **fields})


@pytest.mark.parametrize(
    ("jobs", "sizes"), [(60_000, (1, 10)), pytest.param(500_000, (1, 100, 1000), marks=pytest.mark.long)]
)
def test_no_verb_reads_a_whole_table_and_the_pages_grow_with_the_batch_only(database, jobs, sizes):
    count_pages(database, (1,), full=False)
    with psycopg.connect(database, autocommit=True, options="-c search_path=holdfast") as connection:
        definitions = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'holdfast' AND indexname LIKE 'jobs\\_%' "
            "AND indexname <> 'jobs_pkey'"
        ).fetchall()
        for name, _ in definitions:
            connection.execute(f"DROP INDEX {name}")
        connection.execute("ALTER TABLE jobs SET (autovacuum_enabled = off)")
        connection.execute(insert_jobs(jobs))
        connection.execute(INSERT_ENDED)
        connection.execute(INSERT_KEYS)
        for _, definition in definitions:
            connection.execute(definition)
        connection.execute(
            "UPDATE jobs SET turn = true "
            "WHERE id IN (SELECT min(id) FROM jobs WHERE domain IS NOT NULL GROUP BY domain)"
        )
        [(table_pages,)] = connection.execute("SELECT pg_relation_size('jobs') / 8192").fetchall()
    assert table_pages > _most_pages(sizes[1]), f"wanted a table that a batch must not read, got {table_pages} pages"
    without_statistics = count_pages(database, sizes, full=True)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ANALYZE")
    with_statistics = count_pages(database, sizes, full=True)
    assert {verb.split()[0] for verb, _ in with_statistics} == VERBS
    assert all(count > 0 for count in with_statistics.values())
    for pages in (without_statistics, with_statistics):
        for (verb, k), count in pages.items():
            assert count <= _most_pages(k), f"{verb} of {k} touched {count} pages"


def _most_pages(jobs: int) -> int:
    return 400 + 60 * jobs


@pytest.mark.parametrize("vacuumed", [False, True])
def test_plans_made_for_empty_tables_are_good_for_full_ones(url, vacuumed):
    """A session keeps its plans until the next ANALYZE.

    The statistics may even say that the tables are empty: queues are drained and then vacuumed.
    """
    holdfast.connect(url).close()
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as connection:
        for table in ("jobs", "ended", "ledger", "dedupe"):
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        if vacuumed:
            connection.execute("VACUUM ANALYZE")
        session = ExplainedSession(url)
        count_pages(url, (1,), full=False, session=session)
        connection.execute(insert_jobs(20_000))
        connection.execute(INSERT_ENDED.replace("200000", "20000"))
        connection.execute(INSERT_KEYS)
    pages = count_pages(url, (1, 100), full=True, session=session)
    session.connection.close()
    assert {(verb, k): count for (verb, k), count in pages.items() if count > _most_pages(k)} == {}
    removed = [int(count) for count in re.findall(r"Rows Removed by [A-Za-z ]*Filter: (\d+)", session.all_plans)]
    assert max(removed, default=0) <= 1000


INSERT_ISOLATED = f"""
INSERT INTO jobs (space, id, queue, type, priority, available_at, enqueued_at, created_at, max_attempts, crashes,
                  payload)
SELECT 'main', 'isolated-' || n, 'q', 't', 0, {NOW - 10**6} + n, 0, 0, 25, 1, '{{}}'
  FROM generate_series(1, 100000) AS n
"""


def test_large_payloads_are_found_by_their_numbers(url):
    """Plans made for an empty table."""
    count, k = 20_000, 100
    jobs = [_record(n, domain=None, idempotency_key=None, payload=b"1" * (MAX_INLINE_BYTES + 1)) for n in range(k)]
    known = [_record(n, id=f"ended-{n + 1}", domain=None, idempotency_key=None) for n in range(k)]
    with holdfast.connect(f"{url}?listen=off", caller_clock=True) as store:
        explained = ExplainedSession(url)
        for is_full in (False, True):
            if is_full:
                explained.connection.execute(
                    f"INSERT INTO payloads SELECT -n, 'main', 'x' FROM generate_series(1, {count}) AS n"
                )
                explained.connection.execute(INSERT_ENDED.replace("200000", str(k)))
                explained.connection.execute("UPDATE ended SET payload = NULL, payload_seq = -seq")
                store.enqueue(jobs, now=NOW)
            queues, ids = pack_texts(["q"]), pack_texts([job.id for job in known])
            budget = (1 << 30, Isolation.SHARE.value, False)
            pages = {}
            for verb, *arguments in (
                ("enqueue", NOW, None, True, 1, *pack_jobs(jobs)),
                ("enqueue", NOW, None, True, 1, *pack_jobs(known)),
                ("reserve", NOW, queues, None, k, MINUTE, "w", b"\0" * 16 * k, *budget),
                ("purge", NOW, ids),
                ("trim_expired", NOW, 1, 1, k),
            ):
                _, pages[verb] = explained.call(verb, "main", *arguments)
            assert all(each <= _most_pages(k) for each in pages.values()), pages
        explained.connection.close()


@pytest.mark.parametrize("analyzed", [False, True])
def test_isolated_jobs_are_not_read_one_by_one(url, analyzed):
    """In front of a job that may share an answer are 100,000 that may not."""
    with holdfast.connect(f"{url}?listen=off", caller_clock=True) as store:
        store.enqueue([_record(n, domain=None, idempotency_key=None) for n in range(3)], now=NOW)
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as session:
        session.execute("ALTER TABLE jobs SET (autovacuum_enabled = off)")
        session.execute(INSERT_ISOLATED)
        if analyzed:
            session.execute("ANALYZE jobs")
    explained = ExplainedSession(url)
    queues = pack_texts(["q"])
    for isolation, ids in (
        (Isolation.SKIP, ["new-0", "new-1"]),
        (Isolation.STOP, []),
        (Isolation.ALONE, ["isolated-1"]),
        (Isolation.SHARE, ["isolated-1", "isolated-2"]),
    ):
        for types in (None, pack_texts(["t"])):
            arguments = ("main", NOW, queues, types, 2, MINUTE, "w", b"\0" * 32, 1 << 20, isolation.value, True)
            rows, pages = explained.call("reserve", *arguments)
            assert [row[5] for row in rows] == ids
            assert 0 < pages < 200, (isolation, pages)
            removed = re.findall(r"Rows Removed by [A-Za-z ]*Filter: (\d+)", "\n".join(explained.plans))
            assert max(map(int, removed), default=0) < 10
    explained.connection.close()


def test_a_payload_that_does_not_fit_the_byte_budget_is_not_read(url):
    payload = random.Random(1).randbytes(300_000)  # 38 pages, stored out of line
    with holdfast.connect(f"{url}?listen=off", caller_clock=True) as store:
        store.enqueue([_record(n, domain=None, idempotency_key=None, payload=payload) for n in range(10)], now=NOW)
    explained = ExplainedSession(url)
    for max_bytes, count in ((1, 1), (900_000, 3)):
        arguments = ("main", NOW, pack_texts(["q"]), None, 10, MINUTE, "w", b"\0" * 160, max_bytes, "share", False)
        rows, pages = explained.call("reserve", *arguments)
        assert len(rows) == count
        assert 0 < pages < 200  # to compare the sizes by reading ten payloads takes 400
    explained.connection.close()


def test_keys_of_a_batch_are_not_compared_with_every_stored_key_without_statistics(url):
    """The session plans while the table is empty and keeps that plan, which must be good for the full table."""
    store = holdfast.connect(f"{url}?listen=off")
    explained = ExplainedSession(url)
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("ALTER TABLE holdfast.dedupe SET (autovacuum_enabled = off)")
    for start in range(0, 3000, 1000):
        new = [_record(start + n, domain=None) for n in range(1000)]
        explained.call("enqueue", "main", None, None, True, 1, *pack_jobs(new))
        store.enqueue(new)
    compared = [int(count) for count in re.findall(r"Rows Removed by Join Filter: (\d+)", "\n".join(explained.plans))]
    assert max(compared, default=0) < 10_000
    explained.connection.close()
    store.close()


def count_fetched_rows(session, table: str) -> int:
    """Return how many rows of a table all ended sessions have read."""
    counted = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = %s"
    row = session.execute(counted, [table]).fetchone()
    assert row is not None
    return int(row[0])


def test_pages_of_jobs_are_read_in_the_order_of_ids_without_statistics(url):
    """Otherwise each page would read and sort all rows after it."""
    holdfast.connect(url).close()
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as session:
        session.execute("ALTER TABLE ended SET (autovacuum_enabled = off)")
        session.execute(INSERT_ENDED)
        where, limit = JobFilter(queue="q", states=tuple(State)), 1000

        fetched = partial(count_fetched_rows, session, "ended")

        calls = (
            lambda store: store.find(where, limit=limit),
            lambda store: store.do(Find(where=where, limit=limit, newest=True)),
            lambda store: store.do(ReadColumns(where=where, names=["id", "state"], limit=limit)),
        )
        for call in calls:
            before = fetched()
            with holdfast.connect(f"{url}?listen=off") as store:  # a session reports its statistics when it ends
                call(store)
            wait_until(lambda before=before: fetched() > before)
            assert fetched() - before <= 3 * limit  # the page, and its ids to see how far it came


@pytest.fixture
def long_ledger(url):
    """A session in a database whose ledger has 20,000 rows and no statistics."""
    holdfast.connect(url).close()
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as session:
        session.execute("ALTER TABLE ledger SET (autovacuum_enabled = off)")
        session.execute(
            "INSERT INTO ledger (enqueued_at, available_at, ended_at, attempt, space, job_id, type, queue, worker, "
            "ending, detail, error) "
            "SELECT 1, 1, 1, 1, 'main', 'j', 't', 'q', 'w', 'acked', '', '' FROM generate_series(1, 20000)"
        )
        yield session


def test_the_tail_of_the_ledger_reads_no_other_row_without_statistics(url, long_ledger):
    fetched = partial(count_fetched_rows, long_ledger, "ledger")
    before = fetched()
    with holdfast.connect(f"{url}?listen=off") as store:  # a session reports its statistics when it ends
        page = store.do(LedgerTail(limit=100))
        assert len(store.do(LedgerTail(before=page.cursor, limit=100))) == 100
    wait_until(lambda: fetched() > before)
    assert fetched() - before < 300


def test_expired_leases_are_told_without_a_look_at_other_rows_without_statistics(url, long_ledger, job):
    fetched = partial(count_fetched_rows, long_ledger, "ledger")
    before = fetched()
    with holdfast.connect(f"{url}?listen=off") as store:
        store.enqueue([job() for _ in range(30)])
        store.reserve(["q"], limit=30, lease_for=1)
        for _ in range(3):
            store.do(Reap(limit=10))
        assert len(store.take_expired()) == 30
    wait_until(lambda: fetched() > before)
    assert fetched() - before < 100


def test_any_open_does_not_read_the_jobs_of_other_queues(url):
    with holdfast.connect(url) as store, psycopg.connect(url, autocommit=True) as session:
        session.execute("ALTER TABLE holdfast.jobs SET (autovacuum_enabled = off)")
        session.execute("SET search_path = holdfast")
        session.execute(insert_jobs(20_000))

        fetched = partial(count_fetched_rows, session, "jobs")

        before = fetched()
        with holdfast.connect(f"{url}?listen=off") as one:  # a session reports its statistics when it ends
            assert [one.do(AnyOpen(queues=["q"], types=["t"])), one.do(AnyOpen(queues=["other"], types=["t"]))] == [
                True,
                False,
            ]
        wait_until(lambda: fetched() > before)
        assert fetched() - before < 100
        assert not store.do(AnyOpen(queues=["other"], types=["t", "unknown"]))


def test_an_enqueue_reads_the_heads_of_its_lanes_and_not_every_ready_job(url):
    """Also in a session that began with an empty table: it keeps the plans of that time."""
    count, each = 20_000, 1000
    with holdfast.connect(url) as store, psycopg.connect(url, autocommit=True) as session:
        session.execute("ALTER TABLE holdfast.jobs SET (autovacuum_enabled = off)")
        for start in range(0, count, each):
            queue = "a" if start < count // 2 else "q"  # jobs of one queue must not be read for the other
            plain = {"domain": None, "idempotency_key": None, "queue": queue}
            store.enqueue([_record(start + n, **plain) for n in range(each)])
    with psycopg.connect(url, autocommit=True) as session:
        statistics = "SELECT idx_scan, idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'jobs_lane'"

        def read() -> tuple[int, int]:
            row = session.execute(statistics).fetchone()
            assert row is not None
            return row[0], row[1]

        wait_until(lambda: read()[0] >= count // each)
        assert read()[1] <= count // each


def test_a_trim_does_not_read_the_keys_again_that_must_stay(url):
    """Keys of open and dead jobs whose window has ended: a trim looks at each of them once, and then rarely."""
    count = 5000
    with holdfast.connect(f"{url}?listen=off", caller_clock=True) as store:
        for start in range(0, count, 1000):
            store.enqueue([_record(start + n, domain=None) for n in range(1000)], now=NOW)
        explained, later = ExplainedSession(url), NOW + 2 * DAY
        arguments = ("trim_expired", "main", later, DAY, DAY, 1000)
        _, first = explained.call(*arguments)
        assert first > count  # the call was rolled back
        assert store.do(Trim(limit=1000, now=later)).dedupe == 0
        _, second = explained.call(*arguments)
        explained.connection.close()
        assert second < first / 20
        assert store.do(Cancel(job_ids=[f"new-{n}" for n in range(count)], now=later)) == [State.CANCELLED] * count
        trimmed = store.do(Trim(ended_for=DAY, limit=10_000, now=later + DAY))
        assert (trimmed.jobs, trimmed.dedupe) == (count, count)


@pytest.mark.parametrize("state", [State.DONE, State.DEAD])
def test_one_page_reads_a_bounded_number_of_rows(url, state):
    """However many rows do not match; the pages that follow find the jobs that match."""
    count, where = 5 * FIND_LIMIT, JobFilter(states=(state,), name="last")
    holdfast.connect(url).close()
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as session:
        session.execute("ALTER TABLE ended SET (autovacuum_enabled = off)")
        session.execute(insert_letters(count, state))

        fetched = partial(count_fetched_rows, session, "ended")

        before = fetched()
        with holdfast.connect(f"{url}?listen=off") as store:  # a session reports its statistics when it ends
            page = store.find(where)
        wait_until(lambda: fetched() > before)
        assert fetched() - before <= 3 * FIND_LIMIT
        assert (page.items, page.cursor is None) == ([], False)
        with holdfast.connect(f"{url}?listen=off") as store:
            found, after = 0, None
            for _ in range(6):
                page = store.find(where, after=after)
                columns, cursor = store.do(ReadColumns(where=where, names=["name"], limit=100, after=after))
                assert (list(columns[0]), cursor) == ([job.name for job in page], page.cursor)
                found, after = found + len(page), page.cursor
                if after is None:
                    break
            assert (found, after) == (1, None)


def test_counts_without_done_jobs_does_not_read_them(url):
    holdfast.connect(url).close()
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as session:
        session.execute("ALTER TABLE ended SET (autovacuum_enabled = off)")
        session.execute(INSERT_ENDED.replace("200000", "20000"))
        session.execute(insert_letters(10))

        fetched = partial(count_fetched_rows, session, "ended")

        before = fetched()
        with holdfast.connect(f"{url}?listen=off") as store:  # a session reports its statistics when it ends
            [row] = store.do(Counts(states=set(State) - {State.DONE}))
        assert (row.done, row.dead) == (0, 10)
        wait_until(lambda: fetched() > before)
        assert fetched() - before < 100
