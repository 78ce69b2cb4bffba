"""Nearly every record is accepted at once, and only one that each check accepts."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State, check_each, check_new, convert_fields
from holdfast.model.lease import Lease

JOB = JobRecord(id="a", type="t", queue="q", payload=b"x", created_at=5)
LAST = JobRecord(
    id="x" * 128,
    type="t" * 128,
    queue="q" * 128,
    payload=b"",
    priority=9,
    run_at=bounds.MAX_INSTANT,
    timeout=bounds.MAX_DURATION,
    created_at=bounds.MAX_INSTANT,
    max_attempts=bounds.MAX_COUNT,
    max_crashes=bounds.MAX_COUNT,
    idempotency_key="k" * 256,
    unique_for=bounds.MAX_DURATION,
    domain="ü" * 128,
    offset=bounds.MAX_OFFSET,
    webhook="https://a/" + "x" * 2038,
    requested_run_at=bounds.MAX_INSTANT,
)

hostile = st.one_of(
    st.sampled_from([None, True, 1.0, "", "1", b"", -1, 0, 10, 2**31, 2**63, bounds.MAX_INSTANT + 1, "x" * 129, "a\0"]),
    st.sampled_from([bounds.MAX_DURATION + 1, bounds.LAST_INSTANT, "ü" * 129, "\ud800", "ftp://a", "done", State.DEAD]),
    st.sampled_from([bytearray(b"x"), [], {}]),
    st.integers(),
    st.text(),
)


@pytest.mark.parametrize("job", [JOB, LAST])
def test_a_record_within_all_bounds_is_accepted(job):
    check_new(job)
    check_each(job)


@given(st.sampled_from([JOB, LAST]), st.sampled_from(JobRecord.__struct_fields__), hostile)
def test_a_record_is_refused_if_one_of_the_checks_refuses_it(job, name, value):
    job = replace(job, **{name: value})
    try:
        check_each(job)
    except (InvalidInput, AttributeError, TypeError):
        with pytest.raises((InvalidInput, AttributeError, TypeError)):
            check_new(job)


@pytest.mark.parametrize("change", [{"payload": "eA=="}, {"result": "eA=="}, {"priority": True}, {"attempts": 1.0}])
def test_a_value_of_another_type_is_not_converted(change):
    assert convert_fields(astuple(replace(JOB, **change))) is None


def test_values_cross_pipes_as_they_are():
    lease = Lease(job_id="a", token="secret", fence=1, expires_at=2)
    assert pickle.loads(pickle.dumps((LAST, lease))) == (LAST, lease)


def test_values_are_frozen_and_the_token_of_a_lease_is_not_shown():
    lease = Lease(job_id="a", token="secret", fence=1, expires_at=2)
    with pytest.raises(AttributeError):
        lease.token = "other"  # type: ignore[misc]
    assert repr(lease) == "Lease(job_id='a', fence=1, expires_at=2, cancel_requested=False)"
    assert "secret" not in repr(lease.__rich_repr__())
    assert {lease: 1}[replace(lease)] == 1
