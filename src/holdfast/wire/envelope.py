"""The canonical envelope: one JSON form of a job, the same in every store and every language.

``to_envelope`` writes the envelope, and ``from_envelope`` reads it without loss. docs/reference/envelope.md has the
fields and vectors. ``wire.identity`` has the bytes that a signature covers.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Literal, NamedTuple, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from holdfast.errors import MAX_SHOWN_CHARACTERS, InvalidInput, PayloadError
from holdfast.model import bounds
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_CRASHES, JobRecord, State, check_new
from holdfast.model.request import RESERVED_META
from holdfast.model.unique import Rule, from_rule, rule_of
from holdfast.wire.codec import JSON
from holdfast.wire.identity import split_signature

VERSION = 1
META_CODEC = f"{RESERVED_META}codec"  # the meta key that names the codec of a payload that is not JSON
MAX_ENVELOPE_BYTES = 3 * bounds.MAX_STORED_PAYLOAD_BYTES  # the largest payload and result in base64, and the rest

Encoding: TypeAlias = Literal["json", "base64"]


class _Identity(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The fields that never change in the life of a job. A signature covers them."""

    version: int
    space: str = "main"
    type: str = msgspec.field(name="job")
    id: str = msgspec.field(name="identifier")
    name: str | None = None
    queue: str
    priority: int = 0
    domain: str | None = None
    offset: int | None = None
    created_at: int
    requested_run_at: int | None = msgspec.field(name="schedule", default=None)
    timeout: int | None = None
    max_retries: int = DEFAULT_MAX_ATTEMPTS - 1
    idempotency_key: str | None = None
    limit_key: str | None = None
    meta: msgspec.Raw = msgspec.Raw(b"{}")
    webhook: str | None = None
    encoding: Encoding = "json"
    payload: msgspec.Raw
    key_id: str | None = None  # signed too, so that a signature cannot be presented as that of another key


class _Status(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The fields that change with every attempt. No signature covers them."""

    state: State = State.READY
    run_at: int | None = None
    crashes: int = 0
    max_crashes: int | None = DEFAULT_MAX_CRASHES
    last_error: str = ""
    failed_at: int | None = None
    dead_reason: str | None = None
    dead_at: int | None = None
    result: bytes | None = None  # in JSON: base64


class _Envelope(_Identity, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """All fields of a job."""

    attempts: int = 0
    unique_for: Rule | int | None = msgspec.field(name="unique", default=None)
    status: _Status | None = None
    sig: str | None = msgspec.field(name="_sig", default=None)


class EnvelopeContent(NamedTuple):
    """The job in an envelope, and the space that the job belongs to."""

    job: JobRecord
    space: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Envelope).decode

# Writing ----------------------------------------------------------------------------------------------------


def to_envelope(record: JobRecord, *, space: str = "main") -> bytes:
    """Return the job as one compact JSON object, with every field that another store needs to continue the job."""
    encoding, content = _payload_content(record)
    key_id, sig = split_signature(record.signature)
    envelope = _Envelope(
        version=VERSION,
        space=space,
        type=record.type,
        id=record.id,
        name=record.name,
        queue=record.queue,
        priority=record.priority,
        domain=record.domain,
        offset=record.offset,
        created_at=record.created_at,
        requested_run_at=record.requested_run_at,
        timeout=record.timeout,
        max_retries=record.max_attempts - 1,
        idempotency_key=record.idempotency_key,
        limit_key=record.limit_key,
        webhook=record.webhook,
        encoding=encoding,
        key_id=key_id,
        meta=msgspec.Raw(_encode_meta(record)),
        payload=msgspec.Raw(record.payload if encoding == "json" else _encode(content)),  # JSON stays byte for byte
        attempts=record.attempts,
        unique_for=rule_of(record.unique_for) or record.unique_for,
        status=_Status(
            state=record.state,
            run_at=record.run_at,
            crashes=record.crashes,
            max_crashes=record.max_crashes,
            last_error=record.last_error,
            failed_at=record.failed_at,
            dead_reason=record.dead_reason,
            dead_at=record.dead_at,
            result=record.result,
        ),
        sig=sig,
    )
    try:
        return _encode(envelope)
    except UnicodeEncodeError as error:
        wanted = "texts without lone surrogates"
        raise PayloadError("envelope", wanted=wanted, got=ascii(error.object)) from error


def _payload_content(record: JobRecord) -> tuple[Encoding, object]:
    """Return the payload as people and other languages see it: its JSON value, or its bytes in base64.

    Base64 is for other codecs, for bytes that are not JSON, and for JSON with white space around it, which a reader
    of the envelope would strip. So ``from_envelope`` always returns the same bytes.
    """
    if META_CODEC not in record.meta and record.payload.strip() == record.payload:
        try:
            return "json", JSON.decode(record.payload)
        except PayloadError:
            pass  # an unreadable payload is kept, so that the dead letter shows it
    return "base64", b64encode(record.payload).decode()


def _encode_meta(record: JobRecord) -> bytes:
    return bounds.check_blob("meta", JSON.encode(record.meta, field="meta"), most=bounds.MAX_META_BYTES)


# Reading ----------------------------------------------------------------------------------------------------


def from_envelope(data: bytes) -> EnvelopeContent:
    """Return the job in an envelope and its space. Raises ``PayloadError`` that names the field that does not fit.

    An envelope is untrusted input: every bound of a new job holds here. The signature is not verified: the reader of
    the job does that.
    """
    bounds.check_blob("envelope", data, most=MAX_ENVELOPE_BYTES)
    try:
        envelope = _decode(data)
    except RecursionError as error:
        raise PayloadError("envelope", wanted=f"at most {bounds.MAX_DEPTH} levels in a value", got="more") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise _decoding_error(data, error) from error
    if envelope.version != VERSION:
        raise _unknown_version(envelope.version)
    try:
        return EnvelopeContent(_record(envelope), bounds.check_name("space", envelope.space))
    except InvalidInput as error:
        raise _with_wire_name(error) from error


def _record(envelope: _Envelope) -> JobRecord:
    """Return the record. Checks it as a new job, then the fields that a new job does not have."""
    bounds.check_integer("max_retries", envelope.max_retries, most=bounds.MAX_COUNT - 1)
    record = JobRecord(
        id=envelope.id,
        type=envelope.type,
        queue=envelope.queue,
        payload=_read_payload(envelope),
        priority=envelope.priority,
        timeout=envelope.timeout,
        created_at=envelope.created_at,
        max_attempts=envelope.max_retries + 1,
        idempotency_key=envelope.idempotency_key,
        limit_key=envelope.limit_key,
        unique_for=_read_unique_for(envelope),
        domain=envelope.domain,
        offset=envelope.offset,
        name=envelope.name,
        meta=_read_meta(envelope),
        webhook=envelope.webhook,
        signature=_join_signature(envelope.key_id, envelope.sig),
        requested_run_at=envelope.requested_run_at,
    )
    check_new(record)
    bounds.check_integer("attempts", envelope.attempts, most=record.max_attempts)
    status = envelope.status or _Status(run_at=envelope.requested_run_at)
    _check_status(status)
    return replace(
        record,
        attempts=envelope.attempts,
        state=status.state,
        run_at=status.run_at,
        crashes=status.crashes,
        max_crashes=status.max_crashes,
        last_error=status.last_error,
        failed_at=status.failed_at,
        dead_reason=status.dead_reason,
        dead_at=status.dead_at,
        result=status.result,
    )


def _check_status(status: _Status) -> None:
    for field in ("run_at", "failed_at", "dead_at"):
        bounds.check_optional_integer(field, getattr(status, field), most=bounds.MAX_INSTANT)
    bounds.check_integer("crashes", status.crashes)
    bounds.check_optional_integer("max_crashes", status.max_crashes, least=1)
    for field, most in (("last_error", bounds.MAX_ERROR_CHARACTERS), ("dead_reason", bounds.MAX_REASON_CHARACTERS)):
        text = getattr(status, field) or ""
        if len(text) > most:
            raise InvalidInput(field, wanted=f"at most {most} characters", got=f"{len(text)}")
    if status.result is not None:
        bounds.check_blob("result", status.result, most=bounds.MAX_STORED_PAYLOAD_BYTES)


def _read_payload(envelope: _Envelope) -> bytes:
    data = bytes(envelope.payload)
    if envelope.encoding == "json":
        JSON.decode(data, field="envelope.payload")
        return data
    try:
        return msgspec.json.decode(data, type=bytes)
    except (msgspec.MsgspecError, ValueError) as error:
        raise PayloadError("payload", wanted="base64 in a string, as encoding says", got=str(error)) from error


def _read_meta(envelope: _Envelope) -> dict[str, object]:
    data = bounds.check_blob("meta", bytes(envelope.meta), most=bounds.MAX_META_BYTES)
    meta = JSON.decode(data, field="envelope.meta")
    if not isinstance(meta, dict):
        raise PayloadError("meta", wanted="an object", got=type(meta).__name__)
    for key in meta:
        bounds.check_text("a key of envelope.meta", key)
    if META_CODEC in meta and envelope.encoding == "json":
        raise PayloadError("encoding", wanted=f"base64, because meta names a codec in {META_CODEC}", got="json")
    return meta


def _read_unique_for(envelope: _Envelope) -> int | None:
    unique_for = envelope.unique_for
    return from_rule(unique_for) if isinstance(unique_for, str) else unique_for


def _join_signature(key_id: str | None, sig: str | None) -> str | None:
    if sig is None:
        if key_id is not None:
            raise PayloadError("key_id", wanted="a _sig beside it", got="a keyId alone")
        return None
    if ":" in bounds.check_text("sig", sig):
        raise PayloadError("sig", wanted="a signature without colons", got=sig)
    return sig if key_id is None else f"{bounds.check_name('key_id', key_id)}:{sig}"


# Errors -----------------------------------------------------------------------------------------------------

_WIRE_NAMES = {
    field: f"{place}.{name}"
    for place, struct in (("envelope.status", _Status), ("envelope", _Envelope))
    for field, name in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
}

_MSGSPEC_ERROR = re.compile(
    r"(?:Expected `(?P<wanted>.+?)`, got `(?P<got>.+?)`"
    r"|Object missing required field `(?P<missing>.+?)`"
    r"|Object contains unknown field `(?P<unknown>.*?)`"
    r"|(?P<other>.*?))"
    r"(?: - at `\$\.(?P<path>.+)`)?",
    re.DOTALL,
)


def _decoding_error(data: bytes, error: Exception) -> PayloadError:
    """Translate an error of msgspec into a ``PayloadError``."""
    if not isinstance(error, msgspec.ValidationError):
        return PayloadError("envelope", wanted="one JSON object in UTF-8", got=str(error))
    version = _read_version(data)
    if isinstance(version, int) and version != VERSION:  # other versions have other fields: the version is the error
        return _unknown_version(version)
    parts = cast("re.Match[str]", _MSGSPEC_ERROR.fullmatch(str(error)))  # the last alternative matches any text
    place = ".".join(part for part in ("envelope", parts["path"]) if part)
    if parts["missing"]:
        return PayloadError(f"{place}.{parts['missing']}", wanted="this field", got="an envelope without it")
    if parts["unknown"] is not None:
        unknown = f"{place}.{parts['unknown'][:MAX_SHOWN_CHARACTERS]}"
        return PayloadError(unknown, wanted=f"only fields that version {VERSION} has", got="one that it has not")
    return PayloadError(place, wanted=parts["wanted"] or "a value it may have", got=parts["got"] or parts["other"])


def _read_version(data: bytes) -> object:
    try:
        return msgspec.json.decode(data, type=dict[str, object]).get("version")
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _unknown_version(version: object) -> PayloadError:
    return PayloadError("envelope.version", wanted=f"{VERSION}, the one known here", got=version)


def _with_wire_name(error: InvalidInput) -> PayloadError:
    """Return the same error, with the name that the field has in the envelope."""
    got = (
        error.got if len(error.got) <= MAX_SHOWN_CHARACTERS else f"{error.got[: MAX_SHOWN_CHARACTERS - 1]}…"
    )  # cut before, and must stay cut
    return PayloadError(_WIRE_NAMES.get(error.field, error.field), wanted=error.wanted, got=got)
