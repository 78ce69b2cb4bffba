"""What cannot be read of a row is named, and what can be read is accepted by every caller."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.drivers.packing import read_job as read_leniently
from holdfast.drivers.packing import read_ledger_row
from holdfast.drivers.unreadable import UnreadableJob, make_job_reader, read_any_text
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.columns import JOB_COLUMNS, LEDGER_COLUMNS, names_of
from holdfast.model.job import JobRecord, check_stored
from holdfast.model.ledger import Ending

NAMES = names_of(JOB_COLUMNS)
JOB = JobRecord(id="a", type="t", queue="q", payload=b"x", created_at=5)
GOOD = {name: getattr(JOB, name) for name in NAMES} | {"meta": None, "state": "dead"}

read_strictly = make_job_reader(NAMES)

hostile = st.one_of(  # no fractions: the columns of both stores refuse them
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from(
        [
            -1,
            0,
            1,
            9,
            10,
            2**31 - 1,
            2**31,
            bounds.MAX_INSTANT,
            bounds.MAX_INSTANT + 1,
            bounds.LAST_INSTANT + 1,
            bounds.MAX_DURATION + 1,
        ]
    ),
    st.text(),
    st.sampled_from(["", "x" * 128, "x" * 129, "x" * 256, "x" * 257, "ü" * 128, "ü" * 129, "https://a/" + "x" * 2048]),
    st.binary(),
    st.sampled_from([b"{}", b"[]", b"[" * 100_000, b'{"a":"\xff"}']),
)


@given(st.dictionaries(st.sampled_from(NAMES), hostile, max_size=4))
def test_a_row_is_read_exactly_if_its_values_can_have_been_stored(changes):
    row = list((GOOD | changes).values())
    shown = read_leniently(row)
    check_stored(shown)
    if shown.last_error.startswith("unreadable: "):
        with pytest.raises(UnreadableJob) as raised:
            read_strictly(row)
        assert raised.value.job == shown
        assert any(f"{name}: wanted" in raised.value.problem for name in changes)
        assert raised.value.has_no_id == (shown.id != row[0])
    else:
        assert read_strictly(row) == shown
        stored = {name: value for name, value in zip(NAMES, row, strict=True) if name != "meta"}
        assert {name: getattr(shown, name) for name in stored} == stored


@pytest.mark.parametrize(("stored", "text"), [(b"a", "a"), ("ü".encode(), "ü"), (b"a\xff", "\x1aa\\xff")])
def test_every_stored_text_can_be_shown(stored, text):
    assert read_any_text(stored) == text


def test_a_text_that_is_not_utf8_is_no_name_and_no_text():
    for check in (bounds.check_name, bounds.check_text, bounds.check_webhook):
        with pytest.raises(InvalidInput):
            check("field", read_any_text(b"http://a\xff"))


def test_numbers_of_the_ledger_are_shown_as_the_nearest_that_there_are():
    kinds = {"text": "x", "instant": 2**63 - 1, "integer": -(2**63)}
    row = [kinds[column.kind] for column in LEDGER_COLUMNS]
    row[names_of(LEDGER_COLUMNS).index("ending")] = "acked"
    read = read_ledger_row(row)
    assert (read.ending, read.attempt, read.ended_at, read.started_at) == (Ending.ACKED, 0, *[bounds.LAST_INSTANT] * 2)
