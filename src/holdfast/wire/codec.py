"""Codecs encode payloads as bytes and decode them again. Each codec has a name.

JSON is the default. Other codecs are registered under a name, and the job carries that name, so that its reader
uses the same codec. No codec of Holdfast pickles: bytes from a queue are untrusted input.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from typing import Any, Protocol

import msgspec

from holdfast.errors import MAX_SHOWN_CHARACTERS, InvalidInput, PayloadError
from holdfast.model import bounds

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1  # the numbers that readers in other languages hold in 64 bits
_STARS = "**********"  # how pydantic writes a SecretStr


class Codec(Protocol):
    """Encodes values as bytes. ``decode(encode(value))`` returns an equal value."""

    @property
    def name(self) -> str:
        """The name that the job carries, so that its reader uses the same codec."""
        ...

    def encode(self, value: object) -> bytes:
        """Return the value as bytes. Raises ``ValueError`` or ``TypeError`` for a value that it cannot encode."""
        ...

    def decode(self, data: bytes, /) -> object:
        """Return the value. Raises ``ValueError`` or ``TypeError`` for bytes that it cannot decode."""
        ...


class JsonCodec:
    """Any JSON value, compact and strict, so that every reader sees the value that the writer meant.

    Refused: NaN and infinities, whole numbers beyond 64 bits, keys that are not text, text that UTF-8 cannot
    encode, and more than ``bounds.MAX_DEPTH`` levels. Dataclasses, Structs, datetimes, UUIDs and the other types
    of msgspec are encoded as msgspec does, models of pydantic as pydantic does, and decoded as plain JSON. An error
    names the place of the value: ``payload.items[3].price``.

    With ``text_keys``, keys that are numbers, booleans or None become text as ``json.dumps`` does, and two keys that
    become the same text are refused.
    """

    name = "json"

    def __init__(self, *, text_keys: bool = False) -> None:
        self._text_keys = text_keys

    def encode(self, value: object, *, field: str = "payload") -> bytes:
        """Return the value as compact JSON; ``field`` is the name of the value in errors."""
        if type(value) is str and value.isascii():  # always valid: none of the checks below can fail
            return _encode(value)
        # msgspec encodes NaN as null, the key 1 as "1", and numbers of any length. Decoding its output and
        # comparing finds all of these at the speed of C; a walk in Python takes several times as long.
        try:
            data = _encode(value)
            decoded = _decode(data)
            if decoded == value and not _needs_check(data, decoded):
                return data
        except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
            pass  # the walk below finds the place
        return _encode(_checked_builtins(value, field, 0, _text_key if self._text_keys else _checked_key))

    def decode(self, data: bytes, *, field: str = "payload") -> object:
        """Return the JSON value; ``field`` is the name of the value in errors."""
        try:
            value = _decode(data)
        except RecursionError as error:
            raise _too_deep(field) from error
        except (msgspec.MsgspecError, ValueError) as error:
            raise PayloadError(field, wanted="JSON in UTF-8", got=f"{len(data)} bytes: {error}") from error
        if _needs_check(data, value):
            _checked_builtins(value, field, 0, _checked_key)
        return value


class EncodedJson(JsonCodec):
    """JSON that a ``JsonCodec`` has encoded already: a ``msgspec.Raw`` is written as it is."""

    def encode(self, value: object, *, field: str = "payload") -> bytes:
        """Return the encoded value."""
        del field
        assert isinstance(value, msgspec.Raw)
        return bytes(value)


JSON = JsonCodec()
ENCODED_JSON = EncodedJson()
RESULT_JSON = JsonCodec(text_keys=True)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_skip = msgspec.json.Decoder(msgspec.Raw).decode


def is_json_text(data: bytes) -> bool:
    """Whether ``JSON`` can read these bytes, without the value: that takes a tenth of the time.

    A number that is too large for a float counts as JSON.
    """
    try:
        if not data.isascii():
            data.decode()
        _skip(data)
        if _LONG_NUMBER in data.translate(_DIGITS_TO_ZERO):
            JSON.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError, PayloadError):
        return False
    return not _is_deep(data)


def has_repeated_key(data: bytes) -> bool:
    """Whether a JSON text has an object with a key twice: its readers disagree about the value."""
    try:
        return loses_key(data, _encode(_decode(data)))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return False  # no JSON: nobody reads a value


def loses_key(data: bytes, encoded: bytes) -> bool:
    """Whether a JSON text has more keys than its value, which ``JsonCodec`` has ``encoded``.

    No decoder of msgspec reports repeated keys, and a walk in Python takes ten times as long as counting them.
    """
    if data == encoded:
        return False
    compact = msgspec.json.format(data, indent=-1)
    return compact != encoded and _count_keys(compact) != _count_keys(encoded)


def _count_keys(compact: bytes) -> int:
    """Return how many keys a JSON text without spaces has: a quote before a colon ends one, unless it is escaped."""
    if b"\\" not in compact:
        return compact.count(b'":')
    compact = compact.replace(b"\\\\", b"")
    return compact.count(b'":') - compact.count(b'\\":')


def encode_payload(codec: Codec, value: object, *, most: int = bounds.MAX_PAYLOAD_BYTES) -> bytes:
    """Return the payload as bytes. Raises ``PayloadError`` if the codec fails or the size exceeds ``most`` bytes."""
    try:
        data = codec.encode(value)
    except PayloadError:
        raise
    except (TypeError, ValueError) as error:
        wanted = f"a value that the codec {codec.name!r} can write"
        raise PayloadError("payload", wanted=wanted, got=f"{type(value).__name__}: {error}") from error
    return bounds.check_payload(data, most=most)


def decode_payload(codec: Codec, data: bytes) -> object:
    """Return the payload in these bytes. Raises ``PayloadError`` if the codec fails."""
    try:
        return codec.decode(data)
    except PayloadError:
        raise
    except (TypeError, ValueError) as error:
        wanted = f"bytes that the codec {codec.name!r} can read"
        raise PayloadError("payload", wanted=wanted, got=f"{len(data)} bytes: {error}") from error


def dump_model(value: object) -> object:
    """Return a pydantic model as builtins that it can be read back from; any other value unchanged.

    pydantic need not be installed. Raises ``PayloadError`` for a secret that pydantic would mask.
    """
    if not hasattr(type(value), "model_dump"):
        return value
    dump: Any = value.model_dump  # type: ignore[attr-defined]
    return check_unmasked(dump(mode="json", by_alias=True, round_trip=True), partial(dump, round_trip=True))


def check_unmasked(built: Any, dump: Callable[[], object]) -> object:
    """Return what pydantic has built. Raises ``PayloadError`` if a secret was masked: a handler would get stars.

    ``dump`` returns the same values as they are. It is called only if there are stars.
    """
    try:
        has_stars = f'"{_STARS}"'.encode() in msgspec.json.encode(built)
    except (TypeError, ValueError, RecursionError):  # the codec refuses it, and says where
        return built
    if has_stars and (secret := _find_masked(dump(), built)) is not None:
        wanted = "values that JSON keeps"
        got = f"a {secret}, which pydantic writes as stars: add a field_serializer, or send where the secret is kept"
        raise PayloadError("payload", wanted=wanted, got=got)
    return built


def _find_masked(value: object, built: Any) -> str | None:
    """Return the class of the first secret that is masked in what was built from the value."""
    match value:
        case dict() if isinstance(built, dict):
            pairs = zip(value.values(), built.values(), strict=False)
        case list() | tuple() | set() | frozenset() if isinstance(built, list):
            pairs = zip(value, built, strict=False)
        case _:
            return type(value).__name__ if hasattr(value, "get_secret_value") and built == _STARS else None
    return next((found for pair in pairs if (found := _find_masked(*pair)) is not None), None)


def dump_member(value: object) -> object:
    """Return a pydantic model that msgspec met within a dataclass or a Struct."""
    if not hasattr(type(value), "model_dump"):
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
    return dump_model(value)


# The registry of codecs ------------------------------------------------------------------------------------

_registered: dict[str, Codec] = {JSON.name: JSON}


def register_codec(codec: Codec) -> None:
    """Register a codec under its name, for writers and readers in this process."""
    name = bounds.check_name("codec", codec.name)
    if _registered.setdefault(name, codec) is not codec:
        raise InvalidInput("codec", wanted="a name that is not taken", got=f"a second codec called {name!r}")


def codec_named(name: str) -> Codec:
    """Return the codec that is registered under this name."""
    codec = _registered.get(name)
    if codec is None:
        known = ", ".join(sorted(_registered))
        raise InvalidInput("codec", wanted=f"one of {known} (others: call register_codec first)", got=repr(name))
    return codec


# Checks of JSON values -------------------------------------------------------------------------------------

_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_NUMBER = b"0" * 19  # shorter numbers fit into 64 bits
_BRACES_TO_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_MARK = bytes(set(range(256)) - set(b'[]{}"'))


def _needs_check(data: bytes, value: object) -> bool:
    """Whether a value is too deep or may hold too long a number. If not, no walk over it is needed.

    ``data`` is the JSON text of the value. A walk in Python takes ten times as long as everything here.
    """
    if _LONG_NUMBER in data.translate(_DIGITS_TO_ZERO) and not _fits_64_bits(value):
        return True
    return _is_deep(data)


def _fits_64_bits(value: object) -> bool:
    """Whether every number of a value fits into 64 bits: those are the numbers of MessagePack."""
    try:
        msgspec.msgpack.encode(value)
    except (OverflowError, RecursionError):
        return False
    return True


def _is_deep(data: bytes) -> bool:
    """Whether a JSON text has more than ``bounds.MAX_DEPTH`` levels."""
    if len(data) <= 2 * bounds.MAX_DEPTH or data.count(b"[") + data.count(b"{") <= bounds.MAX_DEPTH:
        return False
    # Once escapes are removed, every second part between quotes is outside of strings: only there brackets nest.
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = data.translate(_BRACES_TO_BRACKETS, _NO_MARK)
    shape = b"".join(marks.replace(b'""', b"").split(b'"')[::2])
    for levels in (32, 16, 8, 4, 2, 1):  # from one value to the next: the deepest place stays as deep
        shape = shape.replace(b"]" * levels + b"[" * levels, b"")
    for _ in range(bounds.MAX_DEPTH):  # each round removes the innermost level everywhere
        if not shape:
            return False
        shape = shape.replace(b"[]", b"")
    return bool(shape)


def is_flat_object(value: object, *, most: int) -> bool:
    """Whether a value is surely a JSON object of at most ``most`` bytes: ASCII texts, whole numbers, booleans, None.

    Nearly every ``meta`` is such a dict. Encoding it only to check it would take three times as long.
    """
    if type(value) is not dict:
        return False
    size = 2  # the braces
    for key, one in value.items():
        for text in (key, one) if type(one) is str else (key,):
            if type(text) is not str or not text.isascii():
                return False
            size += _ESCAPED_BYTES * len(text)
        if type(one) is int:
            if not MIN_INTEGER <= one <= MAX_INTEGER:
                return False
        elif not (type(one) is str or one is None or type(one) is bool):
            return False
        size += _MEMBER_BYTES
    return size <= most


_ESCAPED_BYTES = 6  # of one ASCII character, at most: backslash, u and four digits
_MEMBER_BYTES = 32  # of a number of 64 bits, quotes, colon and comma


class RepeatedKey(PayloadError):
    """Two keys of one mapping become the same text."""


ReadKey = Callable[[object, str], str]


def _checked_builtins(value: object, path: str, depth: int, read_key: ReadKey) -> object:
    """Return the value in builtins that JSON can hold. Raises ``PayloadError`` that names the place of a bad value."""
    match value:
        case None | bool():
            return value
        case str():
            return _checked_text(value, path)
        case int():
            if not MIN_INTEGER <= value <= MAX_INTEGER:
                raise PayloadError(path, wanted="a whole number that fits into 64 bits", got=_digits(value))
            return int(value)
        case float():
            if not isfinite(value):
                raise PayloadError(path, wanted="a finite number", got=value)
            return float(value)
        case dict() | Mapping():  # dict first: the check for Mapping is slow
            level = _next_level(path, depth)
            members = {
                read_key(key, path): _checked_builtins(item, _member_path(path, key), level, read_key)
                for key, item in value.items()
            }
            if len(members) != len(value):
                raise RepeatedKey(f"keys of {path}", wanted="each text once", got=", ".join(map(repr, value)))
            return members
        case list() | tuple() | set() | frozenset():
            level = _next_level(path, depth)
            return [_checked_builtins(item, f"{path}[{index}]", level, read_key) for index, item in enumerate(value)]
        case _:
            return _checked_builtins(_builtin(value, path), path, depth, read_key)


def _builtin(value: object, path: str) -> object:
    """Return the builtins that msgspec or pydantic converts a value to."""
    wanted = "a JSON value, or one that msgspec can write as JSON"
    try:
        built = msgspec.to_builtins(dump_model(value), enc_hook=dump_member)
    except RecursionError as error:
        raise _too_deep(path) from error
    except PayloadError as error:
        raise PayloadError(path, wanted=error.wanted, got=error.got) from error
    except (TypeError, ValueError) as error:
        raise PayloadError(path, wanted=wanted, got=f"{type(value).__name__}: {error}") from error
    if type(built) is type(value):
        raise PayloadError(path, wanted=wanted, got=type(value).__name__)
    return built


def _next_level(path: str, depth: int) -> int:
    if depth >= bounds.MAX_DEPTH:
        raise _too_deep(path)
    return depth + 1


def _too_deep(path: str) -> PayloadError:
    shown = path if len(path) <= MAX_SHOWN_CHARACTERS else f"{path[:MAX_SHOWN_CHARACTERS]}…"
    return PayloadError(shown, wanted=f"at most {bounds.MAX_DEPTH} levels of nesting", got="more")


def _checked_key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise PayloadError(f"a key of {path}", wanted="text", got=f"{key!r} ({type(key).__name__})")
    return _checked_text(key, f"a key of {path}")


def _text_key(key: object, path: str) -> str:
    """Return a key as ``json.dumps`` writes it."""
    match key:
        case None | bool() | float():
            return json.dumps(key)
        case int():
            return int.__repr__(key)  # an IntEnum has another repr
        case _:
            return _checked_key(key, path)


def _member_path(path: str, key: object) -> str:
    return f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r}]"


def _checked_text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise PayloadError(path, wanted="text without lone surrogates", got=ascii(value)) from error
    return str(value)


def _digits(value: int) -> str:
    """Return the number as text, or its size if it is long: Python refuses to print more than 4300 digits."""
    return str(value) if value.bit_length() <= 256 else f"a number of {value.bit_length()} bits"
