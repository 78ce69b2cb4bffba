"""A new job field stands in several places by hand. Each of these fails for a field that was forgotten in one."""

import inspect
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from holdfast import JobRequest
from holdfast.cli import json_values
from holdfast.model.job import JobRecord
from holdfast.wire.records import to_record

RECORD_FIELDS = JobRecord.__struct_fields__
SHOWN_AS = {"unique_for": "unique"}

# A value for each field of a request that is no default.
GIVEN: dict[str, Any] = {
    "type": "mail.send",
    "payload": {"to": "ada"},
    "queue": "mail",
    "priority": 9,
    "run_at": datetime(2030, 1, 1, tzinfo=UTC),
    "timeout": timedelta(minutes=1),
    "max_attempts": 3,
    "idempotency_key": "key",
    "domain": "d",
    "offset": 7,
    "limit_key": "host",
    "name": "welcome",
    "meta": {"a": 1},
    "webhook": "https://example.org/hook",
}
RESOLVED = {"delay", "retry", "unique", "unique_for", "single_instance"}  # become another field, or a key of meta


def test_a_request_gives_its_record_every_field_that_both_have():
    names = set(inspect.signature(JobRequest).parameters)
    assert names - RESOLVED - set(GIVEN) == set(), "give the new field a value here"
    record = to_record(JobRequest(**GIVEN), now=1)
    defaults = {field.name: field.default for field in msgspec.structs.fields(JobRecord)}
    assert [name for name in GIVEN if name in RECORD_FIELDS and getattr(record, name) == defaults[name]] == []


def test_the_records_of_the_envelope_tests_draw_every_field():
    drawn = (Path(__file__).parent / "wire" / "test_envelope.py").read_text(encoding="utf-8")
    assert [name for name in RECORD_FIELDS if f"        {name}=" not in drawn] == []


def test_a_job_is_shown_with_every_field():
    shown = json_values.job(JobRecord(id="j", type="t", queue="q", payload=b"1", created_at=1))
    assert [name for name in RECORD_FIELDS if SHOWN_AS.get(name, name) not in shown] == []
