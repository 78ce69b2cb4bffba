"""Payloads become bytes and bytes become payloads, by codecs that are known by name.

JSON is the default. Others are registered under a name that travels with the job, so that its reader finds
the same one. No codec of Holdfast pickles: bytes from a queue are untrusted input.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Protocol

import msgspec

from holdfast.errors import MAX_SHOWN_CHARACTERS, InvalidInput, PayloadError
from holdfast.model import bounds

LEAST_INT, MOST_INT = -(2**63), 2**64 - 1  # what readers in other languages can hold in 64 bits


class Codec(Protocol):
    """A way to write values as bytes. ``decode(encode(value))`` gives an equal value."""

    @property
    def name(self) -> str:
        """What the job carries, so that its reader picks the same codec."""
        ...

    def encode(self, value: object) -> bytes:
        """The value as bytes; a value that it cannot write raises ``ValueError`` or ``TypeError``."""
        ...

    def decode(self, data: bytes, /) -> object:
        """The value again; bytes that it cannot read raise ``ValueError`` or ``TypeError``."""
        ...


class JsonCodec:
    """Any JSON value, compact and strict, so that every reader sees what the writer meant.

    Refused: NaN and infinities, whole numbers beyond 64 bits, keys that are not text, text that UTF-8 cannot
    write, and more than ``bounds.MAX_DEPTH`` levels. Dataclasses, Structs, datetimes, UUIDs and whatever else
    msgspec knows are written as it writes them, and read back as plain JSON. Errors say where:
    ``payload.items[3].price``.
    """

    name = "json"

    def encode(self, value: object, *, field: str = "payload") -> bytes:
        """The value as compact JSON; ``field`` is the word by which errors call it."""
        if type(value) is str and value.isascii():  # nothing of what follows can be wrong with it
            return _encode(value)
        # msgspec writes NaN as null, the key 1 as "1", and numbers of any length. Reading back what it wrote
        # and comparing finds all of that at the speed of C; a walk in Python takes several times as long.
        try:
            data = _encode(value)
            if not _doubtful(data) and _decode(data) == value:
                return data
        except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
            pass  # the walk finds out where
        return _encode(_plain(value, field, 0))

    def decode(self, data: bytes, *, field: str = "payload") -> object:
        """The JSON value; ``field`` is the word by which errors call it."""
        try:
            value = _decode(data)
        except RecursionError as error:
            raise _too_deep(field) from error
        except (msgspec.MsgspecError, ValueError) as error:
            raise PayloadError(field, wanted="JSON in UTF-8", got=f"{len(data)} bytes: {error}") from error
        if _doubtful(data):
            _plain(value, field, 0)
        return value


JSON = JsonCodec()

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encoded(codec: Codec, value: object, *, most: int = bounds.MAX_PAYLOAD_BYTES) -> bytes:
    """A payload as bytes by any codec, its failures translated and its size held to ``most``."""
    try:
        data = codec.encode(value)
    except PayloadError:
        raise
    except (TypeError, ValueError) as error:
        wanted = f"a value that the codec {codec.name!r} can write"
        raise PayloadError("payload", wanted=wanted, got=f"{type(value).__name__}: {error}") from error
    return bounds.check_blob("payload", data, most=most)


def decoded(codec: Codec, data: bytes) -> object:
    """The payload that these bytes hold, by any codec, its failures translated."""
    try:
        return codec.decode(data)
    except PayloadError:
        raise
    except (TypeError, ValueError) as error:
        wanted = f"bytes that the codec {codec.name!r} can read"
        raise PayloadError("payload", wanted=wanted, got=f"{len(data)} bytes: {error}") from error


# Codecs by name --------------------------------------------------------------------------------------------

_registered: dict[str, Codec] = {JSON.name: JSON}


def register_codec(codec: Codec) -> None:
    """Make a codec known under its name, to writers and readers in this process."""
    name = bounds.check_name("codec", codec.name)
    if _registered.setdefault(name, codec) is not codec:
        raise InvalidInput("codec", wanted="a name that is not taken", got=f"a second codec called {name!r}")


def codec(name: str) -> Codec:
    """The codec registered under this name."""
    found = _registered.get(name)
    if found is None:
        known = ", ".join(sorted(_registered))
        raise InvalidInput("codec", wanted=f"one of {known} (others: call register_codec first)", got=repr(name))
    return found


# What JSON may hold ----------------------------------------------------------------------------------------

_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_LONG = b"0" * 19  # shorter numbers fit into 64 bits
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


def _doubtful(data: bytes) -> bool:
    """Whether JSON may be too deep or hold too long a number: if not, no walk over the value is needed."""
    shallow = len(data) <= 2 * bounds.MAX_DEPTH or data.count(b"[") + data.count(b"{") <= bounds.MAX_DEPTH
    if shallow and _LONG not in data.translate(_ZEROS):
        return False
    # Without escapes every second piece between quotes is outside of strings: only there brackets nest.
    outside = b"".join(data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    if _LONG in outside.translate(_ZEROS):
        return True
    shape = outside.translate(_SQUARE, _NO_BRACKET)
    for _ in range(bounds.MAX_DEPTH):  # each round takes off the innermost level everywhere
        if not shape:
            return False
        shape = shape.replace(b"[]", b"")
    return bool(shape)


def _plain(value: object, path: str, depth: int) -> object:
    """The value in builtins that JSON can hold, or a ``PayloadError`` that says where it cannot."""
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, path)
        case int():
            if not LEAST_INT <= value <= MOST_INT:
                raise PayloadError(path, wanted="a whole number that fits into 64 bits", got=_digits(value))
            return int(value)
        case float():
            if not isfinite(value):
                raise PayloadError(path, wanted="a finite number", got=value)
            return float(value)
        case dict() | Mapping():  # the first is the common one, the second the slow one
            level = _level(path, depth)
            return {_key(key, path): _plain(item, _member(path, key), level) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            level = _level(path, depth)
            return [_plain(item, f"{path}[{index}]", level) for index, item in enumerate(value)]
        case _:
            return _plain(_builtin(value, path), path, depth)


def _builtin(value: object, path: str) -> object:
    """What msgspec makes of a value that JSON does not know."""
    wanted = "a JSON value, or one that msgspec can write as JSON"
    try:
        built = msgspec.to_builtins(value)
    except RecursionError as error:
        raise _too_deep(path) from error
    except (TypeError, ValueError) as error:
        raise PayloadError(path, wanted=wanted, got=f"{type(value).__name__}: {error}") from error
    if type(built) is type(value):
        raise PayloadError(path, wanted=wanted, got=type(value).__name__)
    return built


def _level(path: str, depth: int) -> int:
    if depth >= bounds.MAX_DEPTH:
        raise _too_deep(path)
    return depth + 1


def _too_deep(path: str) -> PayloadError:
    shown = path if len(path) <= MAX_SHOWN_CHARACTERS else f"{path[:MAX_SHOWN_CHARACTERS]}…"
    return PayloadError(shown, wanted=f"at most {bounds.MAX_DEPTH} levels of nesting", got="more")


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise PayloadError(f"a key of {path}", wanted="text", got=f"{key!r} ({type(key).__name__})")
    return _text(key, f"a key of {path}")


def _member(path: str, key: object) -> str:
    return f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r}]"


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise PayloadError(path, wanted="text without lone surrogates", got=ascii(value)) from error
    return str(value)


def _digits(value: int) -> str:
    """A number that may be too long to be written out (Python refuses beyond 4300 digits)."""
    return str(value) if value.bit_length() <= 256 else f"a number of {value.bit_length()} bits"
