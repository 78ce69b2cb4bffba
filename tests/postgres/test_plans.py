"""The verbs read what they need and nothing else, whatever the tables hold: their plans and their page counts say so.

Functions plan once for all arguments (``plan_cache_mode = force_generic_plan``): what is shown here for one batch is
what every batch gets. Looked at while the tables are empty and without statistics, when they are full and without,
and once they are analysed.
"""

import re

import psycopg
import pytest

import holdfast
import holdfast.driver
from holdfast.clock import MINUTE
from holdfast.drivers.contract import JobFilter
from holdfast.drivers.postgres import arrays, batch
from holdfast.drivers.postgres.arrays import names
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Retry
from holdfast.testing.servers.postgres import PostgresServer
from tests.postgres.conftest import NOW
from tests.postgres.test_wait import wait_until

GROWS = re.compile(r"Seq Scan on (jobs|ended|ledger|dedupe|registry|notes|arrivals)\b")
PAGES = re.compile(r"Buffers: shared (?:hit=(\d+))?(?: ?read=(\d+))?")
JOBS = 1_000_000  # half scheduled, most of the rest of a type that nobody asks for, in front of what is due


def filled(jobs: int) -> str:
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


ENDED = """
INSERT INTO ended (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at, created_at,
                   attempts, max_attempts, crashes, cancel_requested, noted, last_error, payload)
SELECT n, 'main', 'ended-' || n, 'q', 't', 0, 'done', 0, 0, n, 0, 1, 25, 0, false, false, '', '{}'
  FROM generate_series(1, 200000) AS n
"""


KEYS = """
INSERT INTO dedupe (until, space, queue, key, job_id, digest)
SELECT 9000000000000000, 'main', 'q', 'full-' || n, 'full-' || n, '' FROM generate_series(1, 20000) AS n
"""


class Watched:
    """A session whose every statement, also inside functions, tells its plan."""

    def __init__(self, url: str) -> None:
        self.told: list[str] = []
        self.all_told = ""
        self.connection = psycopg.connect(url, autocommit=True, options="-c search_path=holdfast")
        arrays.register(self.connection.adapters)
        self.connection.add_notice_handler(lambda notice: self.told.append(notice.message_primary))
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
        """Its rows, and the pages that it touched. No plan may read the whole of a table that grows."""
        places = ", ".join(f"${place}" for place in range(1, len(arguments) + 1))
        with psycopg.RawCursor(self.connection) as cursor:
            for _ in range(2):  # the first one also plans, and reads the catalogue for that
                self.told.clear()
                cursor.execute("BEGIN")
                cursor.execute(f"SELECT * FROM {function}({places})", arguments)
                rows = cursor.fetchall()
                cursor.execute("ROLLBACK")
        plans = "\n".join(self.told)
        self.all_told += plans
        assert not GROWS.search(plans), plans
        whole = [text for text in self.told if f"FROM {function}(" in text.split("\n", 2)[1]][-1]
        pages = PAGES.search(whole)
        return rows, sum(int(count or 0) for count in pages.groups()) if pages else 0


@pytest.fixture(scope="module")
def database():
    """On a server of its own: filling it is one long transaction, which would hold up every ledger beside it."""
    with PostgresServer(durable=False) as server:
        holdfast.connect(server.url).close()
        yield server.url


def acks(store, k):
    held = store.reserve(["q"], limit=k, lease_for=MINUTE, types=["t"], now=NOW)
    return [one.lease for one in held]


def look(url: str, ks: tuple[int, ...], *, full: bool, session: Watched | None = None) -> dict[tuple[str, int], int]:
    """The pages of each verb for batches of these sizes."""
    store = holdfast.connect(f"{url}?listen=off", caller_clock=True)
    watched = session or Watched(url)
    types, queues = names(["t"]), names(["q", "other"])
    pages = {}
    for k in ks:
        for asked, verb in ((types, "reserve_1"), (None, "reserve_1 of any type")):
            arguments = ("main", queues, asked, k, MINUTE, "w", b"\0" * 16 * k, NOW)
            rows, pages[verb, k] = watched.call("reserve_1", *arguments)
            assert len(rows) == (k if full else 0)
        leases = acks(store, k)
        settlements = [Ack(lease) for lease in leases] or [Ack(_lease())]
        _, pages["ack_2", k] = watched.call("ack_2", "main", NOW, *batch.acks(settlements))
        mixed = [Retry(one.lease, delay=5) if place % 2 else one for place, one in enumerate(settlements)]
        _, pages["settle_1", k] = watched.call("settle_1", "main", NOW, *batch.endings(mixed))
        ids = names([one.lease.job_id for one in settlements])
        tokens = names([one.lease.token for one in settlements])
        _, pages["extend_1", k] = watched.call("extend_1", "main", NOW, MINUTE, ids, tokens, None, None, None)
        _, pages["cancel_1", k] = watched.call("cancel_1", "main", NOW, ids)
        _, pages["reap_1", k] = watched.call("reap_1", "main", None, None, k, NOW + 2 * MINUTE)
        _, pages["next_due_1", k] = watched.call("next_due_1", "main", queues, NOW)
        new = [_record(n) for n in range(k)]
        _, pages["enqueue_1", k] = watched.call("enqueue_1", "main", NOW, "c", True, 1, *batch.jobs(new))
        ended, keyed = [f"ended-{n}" for n in range(1, k + 1)], [f"full-{n}" for n in range(1, k + 1)]
        for what, known in (("ended", ended), ("waiting", keyed)):
            again = batch.jobs([_record(n, id=job_id) for n, job_id in enumerate(known)])
            rows, pages[f"enqueue_1 of {what}", k] = watched.call("enqueue_1", "main", NOW, "c", True, 1, *again)
            assert len(rows) == (k if full else 0)
        again = batch.jobs([_record(n, idempotency_key=f"full-{n}") for n in range(1, k + 1)])
        rows, pages["enqueue_1 of known keys", k] = watched.call("enqueue_1", "main", NOW, "c", True, 1, *again)
        assert len(rows) == (k if full else 0)
        _, pages["purge_1", k] = watched.call("purge_1", "main", NOW, names([f"ended-{n}" for n in range(1, k + 1)]))
        _, pages["trim_1", k] = watched.call("trim_1", "main", NOW, 1, 1, k)
        if leases:
            store.settle([Ack(lease) for lease in leases], now=NOW)
    if session is None:
        watched.connection.close()
    store.close()
    return pages


def _lease():
    return holdfast.driver.Lease(job_id="nobody", token="1.0", fence=1, expires_at=1)


def _record(number: int, **fields):
    plain = {"id": f"new-{number}", "type": "t", "queue": "q", "payload": b"{}", "created_at": NOW}
    return holdfast.driver.JobRecord(**{**plain, "idempotency_key": f"k{number}", "domain": f"d{number % 5}", **fields})


def test_no_verb_reads_a_whole_table_at_any_time_and_pages_follow_the_batch(database):
    look(database, (1,), full=False)
    with psycopg.connect(database, autocommit=True, options="-c search_path=holdfast") as connection:
        definitions = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'holdfast' AND indexname LIKE 'jobs\\_%' "
            "AND indexname <> 'jobs_pkey'"
        ).fetchall()
        for name, _ in definitions:
            connection.execute(f"DROP INDEX {name}")
        connection.execute("ALTER TABLE jobs SET (autovacuum_enabled = off)")
        connection.execute(filled(JOBS))
        connection.execute(ENDED)
        connection.execute(KEYS)
        for _, definition in definitions:
            connection.execute(definition)
        connection.execute(
            "UPDATE jobs SET turn = true "
            "WHERE id IN (SELECT min(id) FROM jobs WHERE domain IS NOT NULL GROUP BY domain)"
        )
    blind = look(database, (1, 100, 1000), full=True)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ANALYZE")
    seeing = look(database, (1, 100, 1000), full=True)
    assert all(count > 0 for count in seeing.values())
    for pages in (blind, seeing):
        for (verb, k), count in pages.items():
            assert count <= 400 + 60 * k, f"{verb} of {k} touched {count} pages"


@pytest.mark.parametrize("known", [False, True])
def test_a_session_that_began_with_empty_tables_reads_no_more_when_they_are_full(url, known):
    """It keeps the plans that it made then: nothing tells it that they are no good now, before the next analysis.

    That the tables are empty may even be known: queues are drained now and then, and vacuumed.
    """
    holdfast.connect(url).close()
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as connection:
        for table in ("jobs", "ended", "ledger", "dedupe"):
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        if known:
            connection.execute("VACUUM ANALYZE")
        session = Watched(url)
        look(url, (1,), full=False, session=session)
        connection.execute(filled(20_000))
        connection.execute(ENDED.replace("200000", "20000"))
        connection.execute(KEYS)
    pages = look(url, (1, 100), full=True, session=session)
    session.connection.close()
    assert {(verb, k): count for (verb, k), count in pages.items() if count > 400 + 60 * k} == {}
    thrown_away = [int(count) for count in re.findall(r"Rows Removed by [A-Za-z ]*Filter: (\d+)", session.all_told)]
    assert max(thrown_away, default=0) <= 1000


def test_keyed_batches_are_not_compared_with_every_key_there_is_while_there_are_no_statistics(url):
    """A plan is made for the empty table, and kept: it must be right for the full one."""
    store = holdfast.connect(f"{url}?listen=off")
    watched = Watched(url)
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("ALTER TABLE holdfast.dedupe SET (autovacuum_enabled = off)")
    for start in range(0, 3000, 1000):
        new = [_record(start + n, domain=None) for n in range(1000)]
        watched.call("enqueue_1", "main", None, None, True, 1, *batch.jobs(new))
        store.enqueue(new)
    compared = [int(count) for count in re.findall(r"Rows Removed by Join Filter: (\d+)", "\n".join(watched.told))]
    assert max(compared, default=0) < 10_000
    watched.connection.close()
    store.close()


def test_pages_of_jobs_are_read_in_the_order_of_ids_while_there_are_no_statistics(url):
    """Else each page would read and sort all that is behind it, to throw most of it away."""
    holdfast.connect(url).close()
    with psycopg.connect(url, autocommit=True, options="-c search_path=holdfast") as session:
        session.execute("ALTER TABLE ended SET (autovacuum_enabled = off)")
        session.execute(ENDED)
        where, limit = JobFilter(queue="q", states=tuple(State)), 1000

        def fetched() -> int:
            counted = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'ended'"
            row = session.execute(counted).fetchone()
            assert row is not None
            return int(row[0])

        reads = (
            lambda store: store.find(where, limit=limit),
            lambda store: store.job_columns(where, ["id", "state"], limit=limit),
        )
        for read in reads:
            before = fetched()
            with holdfast.connect(f"{url}?listen=off") as store:  # a session tells what it has read when it ends
                read(store)
            wait_until(lambda before=before: fetched() > before)
            assert fetched() - before <= 2 * limit


def test_whether_anything_is_left_in_a_queue_is_not_looked_for_in_others(url):
    with holdfast.connect(url) as store, psycopg.connect(url, autocommit=True) as session:
        session.execute("ALTER TABLE holdfast.jobs SET (autovacuum_enabled = off)")
        session.execute("SET search_path = holdfast")
        session.execute(filled(20_000))

        def fetched() -> int:
            counted = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'jobs'"
            row = session.execute(counted).fetchone()
            assert row is not None
            return int(row[0])

        before = fetched()
        with holdfast.connect(f"{url}?listen=off") as one:  # a session tells what it has read when it ends
            assert [one.any_open(["q"], ["t"]), one.any_open(["other"], ["t"])] == [True, False]
        wait_until(lambda: fetched() > before)
        assert fetched() - before < 100
        assert not store.any_open(["other"], ["t", "unknown"])


def test_an_enqueue_looks_at_the_heads_of_its_lanes_and_not_at_all_that_waits(url):
    """In a session that began with an empty table, too: it keeps the plans that it made then."""
    count, each = 20_000, 1000
    with holdfast.connect(url) as store, psycopg.connect(url, autocommit=True) as session:
        session.execute("ALTER TABLE holdfast.jobs SET (autovacuum_enabled = off)")
        for start in range(0, count, each):
            queue = "a" if start < count // 2 else "q"  # what waits in the one is nothing to the other
            plain = {"domain": None, "idempotency_key": None, "queue": queue}
            store.enqueue([_record(start + n, **plain) for n in range(each)])
    with psycopg.connect(url, autocommit=True) as session:
        looked = "SELECT idx_scan, idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'jobs_lane'"

        def read() -> tuple[int, int]:
            row = session.execute(looked).fetchone()
            assert row is not None
            return row[0], row[1]

        wait_until(lambda: read()[0] >= count // each)
        assert read()[1] <= count // each
