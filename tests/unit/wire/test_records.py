"""A request becomes a record, a reservation becomes a job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from holdfast.errors import InvalidInput, PayloadError
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State, check_new
from holdfast.model.lease import Lease, Reservation
from holdfast.model.request import META_RETRY, JobRequest
from holdfast.model.retry import Exponential
from holdfast.wire import codec as codecs
from holdfast.wire.envelope import META_CODEC
from holdfast.wire.job_message import job_message, read_payload
from holdfast.wire.records import to_job, to_record

NOW = 1_800_000_000_000_000


class Upper:
    name = "upper"

    def encode(self, value: object) -> bytes:
        return str(value).upper().encode()

    def decode(self, data: bytes) -> object:
        return data.decode().lower()


def reserve(record: JobRecord) -> Reservation:
    return Reservation(job=record, lease=Lease(job_id=record.id, token="7.ff", fence=7, expires_at=NOW + 1))


def test_a_plain_request_becomes_a_record_with_the_defaults():
    record = to_record(JobRequest(type="mail.send", payload={"to": "ada"}), now=NOW)
    assert record == JobRecord(id=record.id, type="mail.send", queue="default", payload=b'{"to":"ada"}', created_at=NOW)
    assert UUID(record.id).version == 7
    check_new(record)


def test_every_field_of_a_request_reaches_the_record():
    at = datetime(2027, 3, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    request = JobRequest(
        type="t",
        payload=[1],
        queue="q",
        priority=9,
        run_at=at,
        timeout=timedelta(seconds=1.5),
        max_attempts=3,
        idempotency_key="k",
        domain="d",
        offset=4,
        name="n",
        meta={"a": (1, 2)},
        webhook="https://example.org",
    )
    record = to_record(request, now=NOW)
    micros = int(at.timestamp()) * 1_000_000
    assert record == JobRecord(
        id=record.id,
        type="t",
        queue="q",
        payload=b"[1]",
        priority=9,
        run_at=micros,
        requested_run_at=micros,
        timeout=1_500_000,
        created_at=NOW,
        max_attempts=3,
        idempotency_key="k",
        domain="d",
        offset=4,
        name="n",
        meta={"a": [1, 2]},
        webhook="https://example.org",
    )


def test_a_delay_counts_from_now_and_a_delay_of_zero_is_no_delay():
    later = to_record(JobRequest(type="t", delay=timedelta(seconds=5)), now=NOW)
    assert later.run_at == later.requested_run_at == NOW + 5_000_000
    at_once = to_record(JobRequest(type="t", delay=timedelta(0)), now=NOW)
    assert at_once.run_at is at_once.requested_run_at is None


def test_ids_grow_with_time():
    ids = [to_record(JobRequest(type="t"), now=NOW).id for _ in range(1000)]
    assert ids == sorted(set(ids))


def test_the_payload_and_meta_are_bounded():
    with pytest.raises(PayloadError, match=r"payload: wanted at most 9 bytes \(.*\), got 10 bytes"):
        to_record(JobRequest(type="t", payload="x" * 8), now=NOW, max_payload=9)
    with pytest.raises(PayloadError, match=f"meta: wanted at most {bounds.MAX_META_BYTES} bytes"):
        to_record(JobRequest(type="t", meta={"a": "x" * bounds.MAX_META_BYTES}), now=NOW)
    with pytest.raises(PayloadError, match=r"meta\.a: wanted a JSON value"):
        to_record(JobRequest(type="t", meta={"a": object()}), now=NOW)


def test_a_record_does_not_change_with_the_callers_meta():
    meta: dict[str, object] = {"a": [1]}
    record = to_record(JobRequest(type="t", meta=meta), now=NOW)
    meta["a"] = "changed"
    assert record.meta == {"a": [1]}


def test_a_handler_sees_the_job_without_its_state_in_the_store():
    request = JobRequest(type="t", payload={"a": [1.5, None]}, delay=timedelta(seconds=5), domain="d", meta={"b": 1})
    record = to_record(request, now=NOW)
    job = to_job(reserve(record))
    assert job.payload == {"a": [1.5, None]}
    assert (job.id, job.type, job.queue, job.domain, job.meta) == (record.id, "t", "default", "d", {"b": 1})
    assert job.created_at == datetime(2027, 1, 15, 8, tzinfo=UTC)
    assert job.run_at == datetime(2027, 1, 15, 8, 0, 5, tzinfo=UTC)
    assert (job.fence, job.timeout, job.max_attempts) == (7, None, 25)
    assert not hasattr(job, "state")


def test_another_codec_is_named_in_meta_and_hidden_from_the_handler():
    record = to_record(JobRequest(type="t", payload="abc", meta={"a": 1}), now=NOW, codec=Upper())
    assert record.payload == b"ABC"
    assert record.meta == {"a": 1, META_CODEC: "upper"}
    job = to_job(reserve(record), Upper())
    assert (job.payload, job.meta) == ("abc", {"a": 1})


def test_a_retry_policy_is_a_text_in_meta_and_hidden_from_the_handler():
    policy = Exponential(timedelta(seconds=1), max_delay=timedelta(minutes=90))
    record = to_record(JobRequest(type="t", retry=policy), now=NOW)
    assert record.meta == {"holdfast.retry": "exponential(1s, x2, max 1h30m, full jitter)"}
    both = to_record(JobRequest(type="t", payload="abc", retry=policy, meta={"a": 1}), now=NOW, codec=Upper())
    assert both.meta == {"a": 1, META_CODEC: "upper", META_RETRY: record.meta[META_RETRY]}
    assert to_job(reserve(both), Upper()).meta == {"a": 1}


def test_the_codec_that_the_record_names_is_used(monkeypatch):
    monkeypatch.setattr(codecs, "_registered", dict(codecs._registered))
    record = to_record(JobRequest(type="t", payload="abc"), now=NOW, codec=Upper())
    with pytest.raises(InvalidInput, match=r"codec: wanted one of .*json.*, got 'upper'"):
        to_job(reserve(record))
    codecs.register_codec(Upper())
    assert to_job(reserve(record)).payload == "abc"
    assert to_job(reserve(to_record(JobRequest(type="t", payload=1), now=NOW)), Upper()).payload == 1


def test_a_reference_of_an_older_version_is_a_payload_error():
    """The bytes that it names were kept outside the store: no handler may take it for its payload."""
    record = JobRecord(id="j", type="t", queue="q", payload=b"{}", created_at=0, meta={"holdfast.payload_ref": True})
    with pytest.raises(PayloadError, match="got a reference of an older version"):
        to_job(reserve(record))
    with pytest.raises(PayloadError, match="got a reference of an older version"):
        read_payload(job_message(reserve(record)))


def test_an_unreadable_payload_is_a_payload_error():
    broken = JobRecord(id="j", type="t", queue="q", payload=b"\xff", created_at=0, state=State.INFLIGHT)
    with pytest.raises(PayloadError, match="payload: wanted JSON in UTF-8"):
        to_job(reserve(broken))
