"""The envelope: no field is lost, invalid fields are refused, and the identity covers the fields that never change."""

from __future__ import annotations

import json
import math
import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.errors import PayloadError
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.request import META_RETRY, JobRequest
from holdfast.model.retry import Linear, parse
from holdfast.model.unique import WHILE_OPEN, WHILE_QUEUED
from holdfast.wire.codec import JSON
from holdfast.wire.envelope import META_CODEC, VERSION, EnvelopeContent, from_envelope, to_envelope
from holdfast.wire.identity import identity_bytes
from holdfast.wire.records import to_record

NAMES = st.from_regex(r"\A[A-Za-z0-9._:-]{1,20}\Z")
TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
INSTANTS = st.integers(0, bounds.MAX_INSTANT)
COUNTS = st.integers(0, bounds.MAX_COUNT)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)
PAYLOADS = st.binary(max_size=60) | VALUES.map(JSON.encode) | VALUES.map(lambda value: json.dumps(value).encode())
METAS = st.dictionaries(TEXTS, VALUES, max_size=3) | st.sampled_from(
    [{META_CODEC: "msgpack"}, {META_RETRY: "fixed(3s, no jitter)"}]
)


@st.composite
def records(draw: st.DrawFn) -> JobRecord:
    def maybe(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | strategy)

    max_attempts = draw(st.integers(1, bounds.MAX_COUNT))
    domain = maybe(TEXTS)
    return JobRecord(
        id=draw(NAMES),
        type=draw(NAMES),
        queue=draw(NAMES),
        payload=draw(PAYLOADS),
        priority=draw(st.integers(0, 9)),
        run_at=maybe(INSTANTS),
        timeout=maybe(st.integers(1, bounds.MAX_DURATION)),
        created_at=draw(INSTANTS),
        attempts=draw(st.integers(0, max_attempts)),
        max_attempts=max_attempts,
        crashes=draw(COUNTS),
        max_crashes=maybe(st.integers(1, bounds.MAX_COUNT)),
        idempotency_key=maybe(TEXTS),
        unique_for=maybe(st.integers(WHILE_QUEUED, 1) | st.integers(0, bounds.MAX_DURATION)),
        domain=domain,
        offset=None if domain is None else maybe(st.integers(0, 2**63 - 1)),
        limit_key=maybe(TEXTS),
        name=maybe(TEXTS),
        meta=draw(METAS),
        webhook=maybe(st.just("https://example.org/hook?a=b")),
        signature=maybe(st.sampled_from(["k1:00ff", "a:b:c:00ff", "00ff"])),
        state=draw(st.sampled_from(State)),
        last_error=draw(ANY_TEXT),
        failed_at=maybe(INSTANTS),
        dead_reason=maybe(ANY_TEXT),
        dead_at=maybe(INSTANTS),
        result=maybe(st.binary(max_size=20)),
        requested_run_at=maybe(INSTANTS),
    )


RECORD = JobRecord(id="j1", type="mail.send", queue="mail", payload=b'{"to":"ada"}', created_at=1_000)


# Round trips -----------------------------------------------------------------------------------------------


@given(records(), NAMES)
def test_reading_an_envelope_returns_an_equal_record(record: JobRecord, space: str):
    content = from_envelope(to_envelope(record, space=space))
    assert content == EnvelopeContent(record, space)
    assert isinstance(content.job.state, State)


@given(records())
def test_an_envelope_is_one_compact_json_object_with_every_field(record: JobRecord):
    envelope = to_envelope(record)
    fields_ = json.loads(envelope)
    assert list(fields_) == list(json.loads(to_envelope(RECORD)))
    assert fields_["job"] == record.type
    assert fields_["identifier"] == record.id
    assert fields_["maxRetries"] == record.max_attempts - 1
    assert fields_["schedule"] == record.requested_run_at


@pytest.mark.parametrize(
    "payload", [b"null", b'{ "a" : 1.50 }', b'{"a":1,"a":2}', b'"\\u00e9"', "é".join('""').encode()]
)
def test_json_is_in_the_envelope_byte_for_byte(payload: bytes):
    assert b'"encoding":"json","payload":%b,' % payload in to_envelope(replace(RECORD, payload=payload))


@pytest.mark.parametrize("payload", [b"", b" 1", b"1\n", b"\xff", b"{", b"[" * 65 + b"]" * 65, b"1" * 30, b"\x00" * 9])
def test_other_bytes_are_in_the_envelope_as_base64(payload: bytes):
    envelope = to_envelope(replace(RECORD, payload=payload))
    assert json.loads(envelope)["encoding"] == "base64"
    assert from_envelope(envelope).job.payload == payload


def test_a_payload_of_another_codec_is_base64_even_if_it_looks_like_json():
    record = replace(RECORD, payload=b"1", meta={META_CODEC: "msgpack"})
    assert json.loads(to_envelope(record))["encoding"] == "base64"
    assert from_envelope(to_envelope(record)).job == record


def test_a_job_without_a_status_is_new_and_scheduled_as_requested():
    fields_ = json.loads(to_envelope(replace(RECORD, run_at=7, requested_run_at=7)))
    del fields_["status"]
    job = from_envelope(json.dumps(fields_).encode()).job
    assert (job.state, job.run_at, job.crashes, job.max_crashes) == (State.READY, 7, 0, 3)


def test_a_text_that_utf8_cannot_encode_is_refused():
    with pytest.raises(PayloadError, match="wanted texts without lone surrogates"):
        to_envelope(replace(RECORD, last_error="\udcff"))


def test_meta_that_json_cannot_hold_is_refused():
    with pytest.raises(PayloadError, match=r"meta\.a: wanted a finite number"):
        to_envelope(replace(RECORD, meta={"a": math.nan}))


# Untrusted input --------------------------------------------------------------------------------------------------


def changed(**changes: object) -> bytes:
    fields_ = json.loads(to_envelope(replace(RECORD, signature="k1:00ff")))
    fields_.update(changes)
    return json.dumps({key: value for key, value in fields_.items() if value is not ...}).encode()


LONG = "x" * 5000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 0),
        ("version", VERSION + 1),
        ("version", "1"),
        ("version", None),
        ("version", ...),
        ("job", ...),
        ("job", 1),
        ("job", "a b"),
        ("job", LONG),
        ("identifier", ""),
        ("queue", None),
        ("space", "../main"),
        ("name", ""),
        ("name", "line\nbreak"),
        ("priority", -1),
        ("priority", 10),
        ("priority", 1.0),
        ("priority", True),
        ("domain", LONG),
        ("offset", -1),
        ("offset", 2**63),
        ("createdAt", ...),
        ("createdAt", bounds.MAX_INSTANT + 1),
        ("createdAt", "2027-01-15T08:00:00Z"),
        ("schedule", -1),
        ("timeout", 0),
        ("timeout", bounds.MAX_DURATION + 1),
        ("maxRetries", -1),
        ("maxRetries", bounds.MAX_COUNT),
        ("attempts", -1),
        ("attempts", 26),
        ("idempotencyKey", LONG),
        ("limitKey", LONG),
        ("meta", None),
        ("meta", []),
        ("meta", {"a": LONG * 4}),
        ("webhook", "file:///etc/passwd"),
        ("webhook", "https://" + LONG),
        ("encoding", "pickle"),
        ("encoding", "base64"),
        ("payload", ...),
        ("keyId", "a b"),
        ("_sig", "a:b"),
        ("_sig", LONG),
        ("status", []),
    ],
)
def test_an_invalid_value_is_refused_with_the_name_of_its_field(field: str, value: object):
    with pytest.raises(PayloadError) as refused:
        from_envelope(changed(**{field: value}))
    names = {"encoding": ("envelope.encoding", "envelope.payload")}.get(field, (f"envelope.{field}",))
    assert refused.value.field in names
    assert refused.value.wanted
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("state", "lost"),
        ("runAt", -1),
        ("crashes", -1),
        ("maxCrashes", 0),
        ("lastError", "x" * (bounds.MAX_ERROR_CHARACTERS + 1)),
        ("lastError", None),
        ("failedAt", bounds.MAX_INSTANT + 1),
        ("deadReason", "x" * (bounds.MAX_REASON_CHARACTERS + 1)),
        ("deadAt", 1.5),
        ("result", "not base64!"),
        ("colour", "red"),
    ],
)
def test_an_invalid_status_is_refused_with_the_name_of_its_field(field: str, value: object):
    with pytest.raises(PayloadError) as refused:
        from_envelope(changed(status={field: value}))
    assert refused.value.field == f"envelope.status.{field}"


def test_an_unknown_field_is_refused():
    with pytest.raises(PayloadError, match=r"envelope\.colour: wanted only fields that version 1 has"):
        from_envelope(changed(colour="red"))


def test_the_error_for_another_version_names_the_version_even_if_fields_are_unknown():
    with pytest.raises(PayloadError, match=r"envelope\.version: wanted 1, the one known here, got 2"):
        from_envelope(changed(version=2, colour="red", job=...))


def test_a_key_id_without_a_signature_is_refused():
    with pytest.raises(PayloadError, match=r"envelope\.keyId: wanted a _sig beside it"):
        from_envelope(changed(_sig=None))


def test_a_codec_in_meta_requires_base64():
    with pytest.raises(PayloadError, match=r"envelope\.encoding: wanted base64"):
        from_envelope(changed(meta={META_CODEC: "msgpack"}))


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        (b'{"a":[1e400]}', "envelope.payload"),
        (b'{"a":[18446744073709551616]}', "envelope.payload.a[0]"),
        (b'{"a":"\xff"}', "envelope.payload"),
        (b"[" * 65 + b"]" * 65, None),
    ],
)
def test_a_payload_beyond_the_bounds_is_refused_with_its_place(payload: bytes, field: str | None):
    envelope = to_envelope(RECORD).replace(RECORD.payload, payload)
    with pytest.raises(PayloadError) as refused:
        from_envelope(envelope)
    assert refused.value.field.startswith("envelope.payload")
    assert field in (None, refused.value.field)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff",
        to_envelope(RECORD) + b"x",
        to_envelope(RECORD)[:-1],
        b"[" * 100_000,
        b'{"version":1,"job":' + b"[" * 100_000,
        b'{"version":1,"payload":' + b"[" * 100_000,
        b'{"colour":1,"version":' + b"[" * 100_000,
    ],
    ids=lambda data: repr(data[:24]),
)
def test_bytes_that_are_not_an_envelope_are_refused(data: bytes):
    with pytest.raises(PayloadError, match=r"^envelope"):
        from_envelope(data)


@given(st.binary(max_size=100))
def test_random_bytes_raise_payload_error(data: bytes):
    with pytest.raises(PayloadError):
        from_envelope(data)


@given(records(), st.data())
def test_a_damaged_envelope_is_refused_or_is_still_valid(record: JobRecord, data: st.DataObject):
    envelope = bytearray(to_envelope(record))
    at = data.draw(st.integers(0, len(envelope) - 1))
    envelope[at] = data.draw(st.integers(0, 255))
    try:
        job, space = from_envelope(bytes(envelope))
    except PayloadError:
        return
    assert from_envelope(to_envelope(job, space=space)) == (job, space)


# Identity ---------------------------------------------------------------------------------------------------

CHANGES = {"attempts", "crashes", "max_crashes", "state", "last_error", "failed_at", "dead_reason", "dead_at"}
CHANGES |= {"result", "run_at", "unique_for"}

OTHER: dict[str, Any] = {
    "id": "j2",
    "type": "mail.other",
    "queue": "other",
    "payload": b'{"to":"eve"}',
    "priority": 1,
    "run_at": 5,
    "timeout": 5,
    "created_at": 5,
    "attempts": 1,
    "max_attempts": 5,
    "crashes": 1,
    "max_crashes": 1,
    "idempotency_key": "k",
    "unique_for": WHILE_OPEN,
    "domain": "d",
    "offset": 1,
    "limit_key": "h",
    "name": "n",
    "meta": {"a": 1},
    "webhook": "https://example.org",
    "signature": "other:00ff",
    "state": State.DEAD,
    "last_error": "x",
    "failed_at": 1,
    "dead_reason": "x",
    "dead_at": 1,
    "result": b"x",
    "requested_run_at": 5,
}


@pytest.mark.parametrize("field", JobRecord.__struct_fields__)
def test_the_identity_covers_exactly_the_fields_that_never_change(field: str):
    differs = identity_bytes(replace(RECORD, **{field: OTHER[field]})) != identity_bytes(RECORD)
    assert differs == (field not in CHANGES)


def test_the_identity_covers_the_space_and_the_key_but_not_the_signature():
    signed = replace(RECORD, signature="k1:00ff")
    assert identity_bytes(RECORD, space="a") != identity_bytes(RECORD, space="b")
    assert identity_bytes(RECORD, key_id="k1") == identity_bytes(signed)
    assert identity_bytes(signed) == identity_bytes(replace(RECORD, signature="k1:ffff"))
    assert identity_bytes(signed, key_id="k2") != identity_bytes(signed)


def test_the_identity_has_the_bytes_of_the_payload():
    ways = [b'{"a":1}', b'{"a": 1}', b'{"a":1.0}', b'{"a":1e0}']
    assert len({identity_bytes(replace(RECORD, payload=way)) for way in ways}) == len(ways)


def test_the_order_of_meta_does_not_matter():
    ways = [{"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}]
    assert len({identity_bytes(replace(RECORD, meta=way)) for way in ways}) == 1


@given(records())
def test_the_identity_survives_a_round_trip(record: JobRecord):
    assert identity_bytes(from_envelope(to_envelope(record)).job) == identity_bytes(record)


def documented_json(value: object) -> str:
    """Canonical JSON as docs/reference/envelope.md describes it: a second implementation, without msgspec."""
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda member: [ord(character) for character in member[0]])
        return "{" + ",".join(f"{documented_json(key)}:{documented_json(item)}" for key, item in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(documented_json, value)) + "]"
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False)


def number(value: float) -> str:
    [(sign, digits, exponent)] = re.findall(r"^(-?)([\d.]+?)(?:\.0)?(?:e([+-]\d+))?$", repr(value))
    if not exponent:
        return repr(value)
    if 1e-5 <= abs(value) < 1e16:
        return f"{sign}0.{'0' * (-int(exponent) - 1)}{digits.replace('.', '')}"
    return f"{sign}{digits}e{int(exponent)}"


def documented_identity(record: JobRecord, space: str, key_id: str) -> bytes:
    """The identity as docs/reference/envelope.md describes it: a second implementation."""
    fields = ["holdfast job", 1, key_id, space, record.type, record.name, record.queue, record.priority, record.domain]
    fields += [record.offset, record.created_at, record.requested_run_at, record.timeout, record.max_attempts - 1]
    fields += [record.webhook, documented_json(record.meta), record.id, record.idempotency_key, record.payload]
    fields += [] if record.limit_key is None else [record.limit_key]
    data = b""
    for field in fields:
        value = field if isinstance(field, bytes) else str(field).encode()
        data += b"\xff\xff\xff\xff" if field is None else len(value).to_bytes(4, "big") + value
    return data


@given(records())
def test_the_identity_is_the_documented_one(record: JobRecord):
    assert identity_bytes(record, space="acme", key_id="k1") == documented_identity(record, "acme", "k1")


def test_text_that_moves_to_the_next_field_changes_the_identity():
    ways = [("ab", "c"), ("a", "bc"), ("abc", ""), ("a\0b", "c"), ("", "abc"), (None, "abc"), ("None", "abc")]
    assert len({identity_bytes(replace(RECORD, domain=domain, name=name)) for domain, name in ways}) == len(ways)


def test_the_retry_policy_of_a_job_is_in_meta_and_is_signed():
    policy = Linear(timedelta(seconds=10), max_delay=timedelta(minutes=5))
    record = to_record(JobRequest(type="t", retry=policy), now=1)
    envelope = to_envelope(record)
    assert b'"meta":{"holdfast.retry":"linear(10s, max 5m, no jitter)"}' in envelope
    read = from_envelope(envelope).job
    assert read == record
    assert parse(str(read.meta[META_RETRY])) == policy
    assert identity_bytes(replace(record, meta={})) != identity_bytes(record)
