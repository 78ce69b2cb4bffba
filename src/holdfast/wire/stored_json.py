"""Stored payloads and results as JSON values of an answer. JSON is sent as it is stored, byte by byte."""

from __future__ import annotations

from base64 import b64encode

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model.job import JobRecord
from holdfast.wire.codec import JSON, codec_named, is_json_text
from holdfast.wire.envelope import META_CODEC


def stored_value(data: bytes | None) -> object:
    """Return stored JSON for an answer; null for no data, and ``{"base64": ...}`` for bytes that are not JSON."""
    if data is None:
        return None
    return msgspec.Raw(data) if is_json_text(data) else {"base64": b64encode(data).decode("ascii")}


def payload_of(job: JobRecord) -> object:
    """Return the payload for an answer, whatever codec it was stored with."""
    name = job.meta.get(META_CODEC)
    if name is None:
        return stored_value(job.payload)
    return stored_value(_recode(job.payload, str(name)) or job.payload)


def known_payload_of(job: JobRecord) -> object:
    """Return the same of a job for which ``is_json`` is true, without reading its payload again."""
    return payload_of(job) if META_CODEC in job.meta else msgspec.Raw(job.payload)


def is_json(job: JobRecord) -> bool:
    """Whether the payload can be sent as the JSON value that its producer meant."""
    name = job.meta.get(META_CODEC)
    if name is not None:
        return _recode(job.payload, str(name)) is not None
    return is_json_text(job.payload)


def _recode(data: bytes, codec: str) -> bytes | None:
    """Return the payload as JSON; None if it cannot be: the codec is unknown here, or has other values than JSON."""
    try:
        return JSON.encode(codec_named(codec).decode(data))
    except (HoldfastError, ValueError, TypeError):
        return None
