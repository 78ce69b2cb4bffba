"""Whose retry policy counts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.model.job import JobRecord
from holdfast.model.request import META_RETRY, JobRequest
from holdfast.model.retry import Custom, Exponential, Fixed, Jitter, NoDelay
from holdfast.wire.records import to_record
from holdfast.worker import retry_policy
from holdfast.worker.catalogue import make_handler
from holdfast.worker.retry_policy import policy_of

SECOND = timedelta(seconds=1)
USUAL, TYPES = Fixed(SECOND), Custom(lambda attempt: attempt * SECOND)
PLAIN, WITH_POLICY = make_handler("t", lambda _: None), make_handler("t", lambda _: None, retry=TYPES)


def job(**meta: object) -> JobRecord:
    return JobRecord(id="j", type="t", queue="q", payload=b"1", created_at=0, meta=meta)


def test_the_jobs_own_wins_over_the_types_and_that_over_the_workers():
    for own in (NoDelay(), Fixed(3 * SECOND), Exponential(SECOND, jitter=Jitter.EQUAL)):
        asked = to_record(JobRequest(type="t", retry=own, meta={"a": 1}), now=0)
        assert policy_of(asked, WITH_POLICY, USUAL) == own
        assert policy_of(asked, None, USUAL) == own
    assert policy_of(job(a=1), WITH_POLICY, USUAL) is TYPES
    assert policy_of(job(), PLAIN, USUAL) is USUAL
    assert policy_of(job(), None, USUAL) is USUAL


@pytest.mark.parametrize(
    "stored", ["soon", "", "fixed(3s", "custom(f, max 1d, no jitter)", "x" * 5000, "a\n\ud800", 3, True, ["none"], {}]
)
def test_a_stored_text_that_is_no_policy_is_passed_over_and_told_once(stored: object, caplog):
    retry_policy._parse.cache_clear()
    for _ in range(3):
        assert policy_of(job(**{META_RETRY: stored}), WITH_POLICY, USUAL) is TYPES
    [told] = caplog.records
    assert (told.name, told.levelname, told.message) == ("holdfast.worker", "WARNING", "retry.unreadable")
    assert "retry policy: wanted " in told.error
    assert len(told.error) < 1000


def test_null_is_none_of_its_own(caplog):
    assert policy_of(job(**{META_RETRY: None}), PLAIN, USUAL) is USUAL
    assert not caplog.records
