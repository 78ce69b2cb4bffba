"""Strict JSON: UTF-8, no duplicate keys, no NaN, numbers of 64 bits, at most 64 levels, nothing after the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from holdfast.errors import InvalidInput
from holdfast.service.problems import Code, Problem
from holdfast.wire.codec import JSON, encode_decoded, has_repeated_key

T = TypeVar("T")


def decode_strict(data: bytes) -> object:
    """Return the value of a JSON text. Raises ``InvalidInput``."""
    value = JSON.decode(data, field="body")
    if encode_decoded(value) != data and has_repeated_key(data):
        raise InvalidInput("body", wanted="each key of an object once", got="one key twice")
    return value


def read_body(data: bytes, kind: type[T]) -> T:
    """Return the message in a body. Raises ``Problem``."""
    try:
        value = decode_strict(data)
    except InvalidInput as error:
        raise Problem(Code.INVALID_JSON, f"wanted {error.wanted}", field=error.field) from error
    return convert(value, kind)


def convert(value: object, kind: type[T]) -> T:
    """Return a decoded JSON value as a message. Raises ``Problem`` that names the field."""
    try:
        return msgspec.convert(value, kind)
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
