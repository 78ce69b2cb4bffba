"""Conversions between values and columns."""

import pytest

from holdfast.drivers.packing import (
    GAP_COLUMNS,
    SETTINGS_COLUMNS,
    end_of_prefix,
    mark_first_occurrences,
    pack_meta,
    pack_settings,
    read_job,
    read_ledger_row,
    read_settings,
    tally_counts,
)
from holdfast.drivers.unreadable import make_job_reader, unpack_meta
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.queue_settings import Gaps, QueueSettings

JOB = JobRecord(id="a", type="t", queue="q", payload=b"x", created_at=5, meta={"k": [1]}, state=State.DEAD)
ROW = LedgerRow(
    job_id="a",
    type="t",
    queue="q",
    domain=None,
    offset=None,
    attempt=1,
    fence=7,
    worker="w",
    enqueued_at=1,
    available_at=2,
    reserved_at=3,
    started_at=4,
    ended_at=5,
    ending=Ending.ACKED,
    state=None,
    detail="",
    error="",
)


def columns_of(record: object) -> list[object]:
    values = {name: getattr(record, name) for name in record.__struct_fields__}
    if "meta" in values:
        values["meta"] = pack_meta(values["meta"])
    return [value.value if isinstance(value, State | Ending) else value for value in values.values()]


def test_a_row_reads_back_as_its_record():
    job = read_job(columns_of(JOB))
    assert (job, type(job), type(job.state)) == (JOB, JobRecord, State)
    row = read_ledger_row([*columns_of(ROW), 0, "a column after it"])
    assert (row, type(row), type(row.ending)) == (ROW, LedgerRow, Ending)


def test_a_job_is_read_from_columns_arguments_and_constants():
    """A driver need not select what it knows."""
    values = dict(zip(JOB.__struct_fields__, columns_of(JOB), strict=True))
    known = {name: values.pop(name) for name in ("queue", "state", "dead_at")}
    read = make_job_reader(["_", *values], arguments=["queue"], constants={"state": State.DEAD, "dead_at": None})
    assert read(["ignored", *values.values()], known["queue"]) == JOB
    with pytest.raises(ValueError, match="not in tuple"):  # the queue comes from nowhere
        make_job_reader(list(values), constants={"state": State.DEAD, "dead_at": None})


def test_empty_meta_is_stored_as_null():
    assert pack_meta({}) is None
    assert unpack_meta(None) == {}
    assert unpack_meta(None) is not unpack_meta(None)


@pytest.mark.parametrize("settings", [QueueSettings(), QueueSettings(paused_until=5, max_inflight=2, rate=3, burst=4)])
def test_settings_read_back_as_they_were(settings):
    assert read_settings(pack_settings(settings)) == settings


def test_gap_settings_read_back_as_they_were():
    settings = QueueSettings(rate=3, gaps=Gaps.WAIT, gap_report_after=5, gap_pass_after=7)
    assert read_settings(pack_settings(settings, (*SETTINGS_COLUMNS, *GAP_COLUMNS))) == settings


def test_only_the_first_of_two_equal_ids_is_marked():
    assert mark_first_occurrences(["a", "b", "a", "c"], {"a", "c"}) == [True, False, False, True]


def test_counts_are_grouped_by_queue_and_type():
    [first, second] = tally_counts([("q", "u", "done", 1), ("q", "t", "ready", 2), ("q", "u", "dead", 3)])
    assert (first.type, first.ready, second.type, second.done, second.dead) == ("t", 2, "u", 1, 3)


def test_the_end_of_a_prefix_sorts_after_every_key_with_it():
    assert "lock:\uffff" < (end_of_prefix("lock") or "") < "locl"
    assert end_of_prefix("") is None
