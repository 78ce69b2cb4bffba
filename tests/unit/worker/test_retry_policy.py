"""Which retry policy applies to a job."""

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
WORKERS, HANDLERS = Fixed(SECOND), Custom(lambda attempt: attempt * SECOND)
PLAIN, WITH_POLICY = make_handler("t", lambda _: None), make_handler("t", lambda _: None, retry=HANDLERS)


def job(**meta: object) -> JobRecord:
    return JobRecord(id="j", type="t", queue="q", payload=b"1", created_at=0, meta=meta)


def test_the_policy_of_a_job_goes_before_that_of_its_handler_and_that_of_the_worker():
    for own in (NoDelay(), Fixed(3 * SECOND), Exponential(SECOND, jitter=Jitter.EQUAL)):
        record = to_record(JobRequest(type="t", retry=own, meta={"a": 1}), now=0)
        assert policy_of(record, WITH_POLICY, WORKERS) == own
        assert policy_of(record, None, WORKERS) == own
    assert policy_of(job(a=1), WITH_POLICY, WORKERS) is HANDLERS
    assert policy_of(job(), PLAIN, WORKERS) is WORKERS
    assert policy_of(job(), None, WORKERS) is WORKERS


@pytest.mark.parametrize(
    "stored", ["soon", "", "fixed(3s", "custom(f, max 1d, no jitter)", "x" * 5000, "a\n\ud800", 3, True, ["none"], {}]
)
def test_a_stored_text_that_is_no_policy_is_skipped_and_logged_once(stored: object, caplog):
    retry_policy._parse.cache_clear()
    for _ in range(3):
        assert policy_of(job(**{META_RETRY: stored}), WITH_POLICY, WORKERS) is HANDLERS
    [logged] = caplog.records
    assert (logged.name, logged.levelname, logged.event) == ("holdfast.worker", "WARNING", "retry.unreadable")
    assert "retry policy: wanted " in logged.reason
    assert len(logged.reason) < 1000


def test_a_stored_null_is_no_policy_and_is_not_logged(caplog):
    assert policy_of(job(**{META_RETRY: None}), PLAIN, WORKERS) is WORKERS
    assert not caplog.records
