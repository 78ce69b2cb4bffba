"""``run`` with ``order_by``: the rows of one domain run one at a time and in order, over all slots and calls."""

import json
import time
from collections import defaultdict
from itertools import pairwise

import pytest

import holdfast
from holdfast.driver import JobRecord, ResumeAction
from holdfast.drivers.requests import Resume
from holdfast.errors import InvalidInput
from holdfast.spark import run
from tests.spark.conftest import OPTIONS

CUSTOMERS, EVENTS, HALTING = 5, 10, 6


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def events(spark):
    """Events of some customers in any order, over several partitions; two at a time have the same ``at``."""
    return spark.sql(f"""
        select 'c' || id % {CUSTOMERS} as customer, id div {CUSTOMERS} as n,
               timestamp_seconds(1800000000 + id div {CUSTOMERS} div 2) as at
          from range({CUSTOMERS * EVENTS}) order by hash(id)""").repartition(4)


def read_attempts(path):
    """By customer, the events whose attempts began and ended, in this order."""
    attempts = defaultdict(list)
    for line in path.read_text().splitlines():
        customer, n, what = line.split()
        attempts[customer].append((int(n), what))
    return attempts


def check_order(attempts):
    """Check that no event began before the one before it had ended, and that events began in order."""
    for customer, steps in attempts.items():
        for whats in ({"begin"}, {"end", "dead"}):
            events = [n for n, what in steps if what in whats]
            assert events == sorted(events), (customer, events)
            assert set(events) == set(range(EVENTS)), (customer, events)
        for (n, _), (following, what) in pairwise(steps):
            assert following == n or (what == "begin" and following == n + 1), (customer, steps)


def test_rows_of_a_domain_run_in_order_across_retries_halts_slots_and_calls(spark, url, events, tmp_path):
    path = tmp_path / "attempts"

    def handle(row, ctx):
        def note(what):
            with path.open("a") as file:
                file.write(f"{row['customer']} {row['n']} {what}\n")

        note("begin")
        time.sleep(0.005)
        if row["n"] == HALTING:
            note("dead")
            raise holdfast.Unrecoverable("never")
        if row["n"] % 5 == 3 and ctx.attempt == 1:
            raise ValueError("at first")
        note("end")
        return row["n"]

    arguments = {"key": "customer,n", "order_by": ("customer", "at"), "url": url, "run": "bills", "options": OPTIONS}
    first = run(events, handle, **arguments, slots=2, on_exhausted="halt")
    done, still_open = CUSTOMERS * HALTING, CUSTOMERS * (EVENTS - HALTING - 1)
    assert str(first.summary) == f"{done} done, {CUSTOMERS} dead, {still_open} open; {CUSTOMERS} halted domains"
    with holdfast.connect(url) as store:
        assert all(
            store.do(Resume(queue="run:bills", domain=f"c{number}", action=ResumeAction.SKIP))
            for number in range(CUSTOMERS)
        )
    second = run(events.repartition(2), handle, **arguments, slots=1)
    assert str(second.summary) == f"{done + still_open} done, {CUSTOMERS} dead"
    check_order(read_attempts(path))
    _leave_a_row_open(url)
    with pytest.raises(InvalidInput, match=r"order_by: wanted nothing, as in the earlier call: .*, got customer, at"):
        run(events, handle, **arguments | {"run": "plain"})


def _leave_a_row_open(url):
    """A named run without an order that was stopped before its last row ran."""
    with holdfast.connect(url) as store:
        record = JobRecord(id="row", type="spark.row", queue="run:plain", payload=b"{}", created_at=1)
        store.enqueue([record])


def test_a_chunk_has_one_row_of_each_domain(spark, url):
    """The order has two columns, and so has the domain, whose text is too long for a domain."""
    df = spark.sql("select id % 3 as customer, 9 - id div 3 as hour, id as n, repeat('x', 300) as r from range(30)")
    order_by = ("r", "customer", ["hour", "n"])

    def refuse_repeated_customers(rows):
        customers = [row["customer"] for row in rows]
        if len(set(customers)) < len(customers):
            raise holdfast.Unrecoverable(f"two rows of one customer: {customers}")
        return customers

    ok, _ = run(df, refuse_repeated_customers, key="n", order_by=order_by, url=url, slots=1, chunk=10, options=OPTIONS)
    assert ok.count() == 30
    with holdfast.connect(url) as store:
        ended = [(row.domain, store.get(row.job_id).payload) for row in store.ledger(limit=100)]
    domains = {domain for domain, _ in ended}
    assert {(domain[:7], len(domain)) for domain in domains} == {("sha256:", 71)}
    for each in domains:
        assert [json.loads(payload)["hour"] for domain, payload in ended if domain == each] == list(range(10))


@pytest.mark.parametrize(
    ("select", "order_by", "message"),
    [
        ("id, 'a' as c", "c", "order_by: wanted the columns of the domain, then the column of the order, .*, got c"),
        ("id, 'a' as c", ("c", "at"), "order_by: wanted columns of id, c, got at"),
        ("id, 'a' as c", 5, "order_by: wanted the columns of the domain, .*, got 5"),
        ("id, 'a' as c", ("c", 5), "order_by: wanted names of columns, got 5"),
        ("id, 1.5D as c", ("c", "id"), "order_by: wanted a column with text, .*, got c double"),
        ("id, array(1) as c", ("id", "c"), "order_by: wanted a column with text, a number, .*, got c array<int>"),
        ("id, if(id = 1, null, 'a') as c", ("c", "id"), "order_by c: wanted a value in every row, got null"),
        (
            "id div 2 as id, id as at, map('a', 1) as m",
            ("id", "at"),
            "rows with id=[01]: they differ in at$",
        ),
    ],
)
def test_an_order_that_does_not_fit_is_refused_before_anything_runs(spark, url, select, order_by, message):
    with pytest.raises(InvalidInput, match=message):
        run(spark.sql(f"select {select} from range(4)"), len, key="id", order_by=order_by, url=url)
    with holdfast.connect(url) as store:
        assert not store.ledger(limit=1).items


def test_a_row_that_differs_from_many_equal_ones_is_named_with_its_column(spark, url):
    df = spark.sql("select 1 as id, 'a' as c, if(id = 999, 2, 1) as at from range(1000)").coalesce(1)
    with pytest.raises(InvalidInput, match=r"two different rows with id=1: they differ in at$"):
        run(df, len, key="id", order_by=("c", "at"), url=url)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_exhausted": "stop", "order_by": "id,id"}, "on_exhausted: wanted skip or halt, got stop"),
        ({"on_exhausted": "halt"}, "on_exhausted: wanted order_by beside it"),
        ({"on_exhausted": "halt", "order_by": "id,id"}, "on_exhausted: wanted a name of the run beside halt"),
    ],
)
def test_a_halt_that_nobody_could_end_is_refused(spark, url, options, message):
    with pytest.raises(InvalidInput, match=message):
        run(spark.range(1), len, key="id", url=url, **options)
