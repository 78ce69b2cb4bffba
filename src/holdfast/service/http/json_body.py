"""Strict JSON: UTF-8, no duplicate keys, no NaN, numbers of 64 bits, at most 64 levels, nothing after the value."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from holdfast.errors import InvalidInput
from holdfast.service.problems import Code, Problem
from holdfast.wire.codec import JSON, loses_key

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


def decode_strict(data: bytes) -> object:
    """Return the value of a JSON text. Raises ``InvalidInput``."""
    return _decode(data)[0]


def _decode(data: bytes) -> tuple[object, bytes]:
    """Return the value of a JSON text, and the value as a store keeps it."""
    value = JSON.decode(data, field="body")
    encoded = _encode(value)
    if loses_key(data, encoded):
        raise InvalidInput("body", wanted="each key of an object once", got="one key twice")
    return value, encoded


def read_body(data: bytes, kind: type[T]) -> T:
    """Return the message in a body; values of the type ``JsonValue`` as a store keeps them. Raises ``Problem``."""
    try:
        encoded = _decode(data)[1]
    except InvalidInput as error:
        raise Problem(Code.INVALID_JSON, f"wanted {error.wanted}", field=error.field) from error
    return read_message(encoded, kind)


def read_large_body(data: bytes, kind: type[T]) -> T:
    """Do the same without garbage collection: JSON has no cycles, and many small lists take a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return read_body(data, kind)
    finally:
        if was_enabled:  # else another thread enables it
            gc.enable()


def read_message(encoded: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Return the message in JSON that ``read_body`` has checked. Raises ``Problem`` that names the field."""
    try:
        return msgspec.json.decode(encoded, type=kind)
    except msgspec.ValidationError as error:
        raise _invalid(error) from error


def read_query(parameters: list[tuple[str, str]], kind: type[T]) -> T:
    """Return the message in the parameters of a URL. Raises ``Problem`` for unknown and repeated ones."""
    values: Mapping[str, str] = dict(parameters)
    if len(values) < len(parameters):
        raise Problem(Code.INVALID_REQUEST, "wanted each parameter once")
    try:
        message = msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error) from error
    for field in msgspec.structs.fields(kind):  # type: ignore[arg-type] # a Struct
        if field.encode_name in values and getattr(message, field.name) is None:  # "null": msgspec takes it for None
            raise Problem(Code.INVALID_REQUEST, "wanted a value, or no such parameter", field=field.encode_name)
    return message


def read_headers(headers: list[tuple[bytes, bytes]], kind: type[T]) -> T:
    """Return the message in the headers of a request; other headers are ignored. Raises ``Problem``."""
    known = {field.encode_name for field in msgspec.structs.fields(kind)}  # type: ignore[arg-type] # a Struct
    decoded = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    return read_query([(name, value) for name, value in decoded if name in known], kind)


def _invalid(error: msgspec.ValidationError) -> Problem:
    """Return the problem; msgspec names the place as ``... - at `$.leaseSeconds```."""
    text, _, place = str(error).partition(" - at `$")
    return Problem(Code.INVALID_REQUEST, text, field=place.strip(".`") or None)
