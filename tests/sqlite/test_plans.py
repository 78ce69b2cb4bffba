"""The query plans: each statement uses its index, and no statement scans a table that grows."""

import re

import pytest

from holdfast.drivers.sqlite.statements import _STATEMENTS, sql

SEARCHED_INDEXES = {  # statement -> the indexes that its plan must search
    "ack/insert_valid": {"holdfast_jobs_id"},
    "settle/find_live": {"holdfast_jobs_id"},
    "settle/find_ended": {"holdfast_ended_id"},
    "reap/find_expired": {"holdfast_jobs_leased"},
    "reap/find_of_worker": {"holdfast_jobs_leased"},
    "reap/find_queues": {"holdfast_jobs_leased"},
    "reserve/due": {"holdfast_jobs_lane"},
    "reserve/find_lanes": {"holdfast_jobs_lane", "PRIMARY KEY"},
    "reserve/find_lanes_of_types": {"holdfast_jobs_lane", "PRIMARY KEY"},
    "wait/lane_heads": {"holdfast_jobs_lane", "PRIMARY KEY"},
    "reserve/limits": {"holdfast_jobs_leased", "PRIMARY KEY"},
    "enqueue/find_ids": {"holdfast_jobs_id", "holdfast_ended_id"},
    "enqueue/find_keys": {"PRIMARY KEY", "holdfast_jobs_id"},
    "domains/pass_turn": {"holdfast_jobs_domain"},
    "cancel/is_requested": {"holdfast_jobs_id"},
    "admin/get": {"holdfast_jobs_id", "holdfast_ended_id"},
    "find/live": {"holdfast_jobs_id"},
    "find/done": {"holdfast_ended_id"},
    "find/dead_or_cancelled": {"holdfast_ended_when"},
    "trim/find_ended": {"holdfast_ended_when"},
    "trim/dedupe": {"holdfast_dedupe_until", "holdfast_jobs_id", "holdfast_ended_id"},
    "ledger/page": {"PRIMARY KEY"},
    "ledger/mark": {"PRIMARY KEY"},
    "ledger/rest": {"PRIMARY KEY"},
    "registry/read": {"sqlite_autoindex_holdfast_registry_1"},
    "registry/scan": {"sqlite_autoindex_holdfast_registry_1"},
}
WITHOUT_SORT = {
    "reserve/due",
    "reap/find_expired",
    "reap/find_of_worker",
    "find/live",
    "find/done",
    "trim/find_ended",
    "ledger/page",
    "ledger/mark",
    "registry/scan",
}
SCANS_ALLOWED = {"admin/counts", "enqueue/dedupe_windows"}  # a person waits for the first; the second has few rows
SMALL_TABLE_SCAN = re.compile(
    r"SCAN (holdfast_acking|holdfast_settling|a|s|queues|types|given|taken|json_each|CONSTANT)\b"
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

        return store._database.write(read)

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


def test_every_statement_is_used():
    """A statement that no module names is dead code."""
    from pathlib import Path

    import holdfast.drivers.sqlite as package

    source = "".join(file.read_text() for file in Path(package.__file__).parent.glob("*.py"))
    assert [name for name in _STATEMENTS if f'"{name}"' not in source] == []
