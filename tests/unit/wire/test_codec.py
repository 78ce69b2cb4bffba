"""Codecs: strict JSON whose errors name the place, and other codecs by name."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import MappingProxyType
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput, PayloadError
from holdfast.model import bounds
from holdfast.wire import codec as codecs
from holdfast.wire.codec import (
    JSON,
    JsonCodec,
    decode_payload,
    encode_payload,
    has_repeated_key,
    is_flat_object,
    is_json_text,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=40,
)


@given(VALUES)
def test_decoding_an_encoded_json_value_returns_an_equal_value(value: object):
    assert JSON.decode(JSON.encode(value)) == value


@given(VALUES)
def test_the_fast_path_and_the_walk_encode_the_same_bytes(value: object):
    assert codecs._encode(codecs._checked_builtins(value, "payload", 0, codecs._checked_key)) == JSON.encode(value)


def test_json_is_compact_and_keeps_the_order_of_keys():
    assert JSON.encode({"b": [1, 2.5], "a": "é"}) == '{"b":[1,2.5],"a":"é"}'.encode()


@dataclass
class Point:
    x: object
    y: object


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


class Text(str):
    __slots__ = ()


class Row(msgspec.Struct):
    points: list[Point]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (Point(1, 2.5), b'{"x":1,"y":2.5}'),
        (Row([Point(1, 2)]), b'{"points":[{"x":1,"y":2}]}'),
        ((1, (2, 3)), b"[1,[2,3]]"),
        ({3}, b"[3]"),
        (datetime(2027, 1, 15, 8, tzinfo=UTC), b'"2027-01-15T08:00:00Z"'),
        ({"day": date(2027, 1, 15)}, b'{"day":"2027-01-15"}'),
        (UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
        (Decimal("1.50"), b'"1.50"'),
        (b"\x00\xff", b'"AP8="'),
        ({Colour.RED: [Colour.RED, Size.LARGE]}, b'{"red":["red",3]}'),
        (Text("a"), b'"a"'),
        (MappingProxyType({"a": MappingProxyType({})}), b'{"a":{}}'),
    ],
)
def test_values_that_msgspec_supports_are_encoded_as_json(value: object, encoded: bytes):
    assert JSON.encode(value) == encoded


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> object:
    value: list[object] = []
    value.append(value)
    return value


class Unknown:
    def __repr__(self) -> str:
        return "an unknown thing"


@pytest.mark.parametrize(
    ("value", "field", "wanted"),
    [
        (math.nan, "payload", "a finite number"),
        ({"items": [0, 1, 2, {"price": math.inf}]}, "payload.items[3].price", "a finite number"),
        ({"null": None, "a b": [-math.inf]}, "payload['a b'][0]", "a finite number"),
        (Point(1, math.nan), "payload.y", "a finite number"),
        ({"a": {1: 2}}, "a key of payload.a", "text"),
        ({1.5: 2}, "a key of payload", "text"),
        ({None: 2}, "a key of payload", "text"),
        ({"a": (2**64,)}, "payload.a[0]", "a whole number that fits into 64 bits"),
        ([-(2**63) - 1], "payload[0]", "a whole number that fits into 64 bits"),
        ([10**9000], "payload[0]", "a whole number that fits into 64 bits"),
        (["\ud800"], "payload[0]", "text without lone surrogates"),
        ({"\udfff": 1}, "a key of payload", "text without lone surrogates"),
        ({"f": Unknown()}, "payload.f", "a JSON value, or one that msgspec can write as JSON"),
        (Unknown, "payload", "a JSON value, or one that msgspec can write as JSON"),
        ([msgspec.Raw(b"not json")], "payload[0]", "a JSON value, or one that msgspec can write as JSON"),
    ],
)
def test_a_value_that_json_cannot_hold_is_refused_with_its_place(value: object, field: str, wanted: str):
    with pytest.raises(PayloadError) as refused:
        JSON.encode(value)
    assert (refused.value.field, refused.value.wanted) == (field, wanted)
    assert refused.value.got
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("deep", [nested(65), nested(5000), cyclic(), Point(1, nested(70))])
def test_a_value_with_too_many_levels_is_refused(deep: object):
    with pytest.raises(PayloadError, match="wanted at most 64 levels of nesting"):
        JSON.encode(deep)


def test_the_deepest_allowed_value_is_encoded_and_decoded():
    deepest = nested(bounds.MAX_DEPTH)
    assert JSON.decode(JSON.encode(deepest)) == deepest
    wide = [deepest_less_one := nested(bounds.MAX_DEPTH - 1)] * 50
    assert JSON.decode(JSON.encode(wide)) == [deepest_less_one] * 50


def test_brackets_inside_strings_are_not_levels():
    value = ["]" * 100, '"[' * 100, "\\[" * 100, {"{" * 100: '\\"{'}]
    assert JSON.decode(JSON.encode(value)) == value


def test_strings_cannot_hide_levels():
    """Closing brackets in strings beside the opening ones would mislead a count that looks inside strings."""
    value: object = 1
    for _ in range(bounds.MAX_DEPTH + 1):
        value = ["]", value, "["]
    with pytest.raises(PayloadError, match="levels of nesting"):
        JSON.encode(value)
    with pytest.raises(PayloadError, match="levels of nesting"):
        JSON.decode(msgspec.json.encode(value))


@pytest.mark.parametrize("digits", [2**64 - 1, -(2**63), 2**63, 10**18])
def test_the_largest_whole_numbers_are_encoded_and_decoded(digits: int):
    assert JSON.decode(JSON.encode([digits])) == [digits]


def test_a_string_of_many_digits_is_accepted():
    assert JSON.decode(JSON.encode("9" * 40)) == "9" * 40


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"NaN",
        b"Infinity",
        b"1e400",
        b"01",
        b"1 2",
        b"'a'",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\\ud800"',
        b'"\\ud800\\u0041"',
        b'"\x01"',
        b"\xef\xbb\xbf1",
        b"18446744073709551616",
        b"-9223372036854775809",
        b"9" * 5000,
        b"[" * 65 + b"]" * 65,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
    ],
    ids=lambda data: repr(data[:24]),
)
def test_bytes_that_are_not_acceptable_json_are_refused(data: bytes):
    with pytest.raises(PayloadError):
        JSON.decode(data)


@given(st.binary())
def test_decoding_any_bytes_returns_a_value_or_raises_payload_error(data: bytes):
    try:
        value = JSON.decode(data)
    except PayloadError:
        return
    assert JSON.decode(JSON.encode(value)) == value


def test_decoding_names_the_place_of_a_number_that_is_too_long():
    with pytest.raises(PayloadError) as refused:
        JSON.decode(b'{"a":[1,99999999999999999999]}', field="result")
    assert refused.value.field == "result.a[1]"


# Codecs by name ----------------------------------------------------------------------------------------------------


class Reversed:
    name = "reversed"

    def encode(self, value: object) -> bytes:
        return str(value).encode()[::-1]

    def decode(self, data: bytes) -> object:
        return data[::-1].decode()


class Broken(Reversed):
    name = "broken"

    def encode(self, value: object) -> bytes:
        raise TypeError(f"cannot write {value}")

    def decode(self, data: bytes) -> object:
        raise ValueError(f"cannot read {data!r}")


class Forgetful(Reversed):
    name = "forgetful"

    def encode(self, value: object) -> bytes:
        return str(value)  # type: ignore[return-value]


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(codecs, "_registered", dict(codecs._registered))


def test_json_is_registered():
    assert codecs.codec_named("json") is JSON


def test_a_registered_codec_is_found_by_its_name(registered):
    reverse = Reversed()
    codecs.register_codec(reverse)
    codecs.register_codec(reverse)  # the same codec twice is allowed: a module may be imported twice
    assert codecs.codec_named("reversed") is reverse


def test_a_name_cannot_be_registered_twice(registered):
    with pytest.raises(InvalidInput, match="wanted a name that is not taken, got a second codec called 'json'"):
        codecs.register_codec(JsonCodec())


def test_a_codec_needs_a_valid_name(registered):
    nameless = Reversed()
    nameless.name = "not a name"
    with pytest.raises(InvalidInput, match="codec: wanted 1 to 128 of"):
        codecs.register_codec(nameless)


def test_the_error_for_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InvalidInput, match=r"codec: wanted one of .*json.* \(others: .*\), got 'pickle'"):
        codecs.codec_named("pickle")


def test_the_exceptions_of_a_codec_become_payload_errors():
    with pytest.raises(PayloadError, match="wanted a value that the codec 'broken' can write, got int: cannot write"):
        encode_payload(Broken(), 1)
    with pytest.raises(PayloadError, match="wanted bytes that the codec 'broken' can read, got 2 bytes: cannot read"):
        decode_payload(Broken(), b"ab")
    with pytest.raises(PayloadError, match="wanted bytes, got str"):
        encode_payload(Forgetful(), 1)


def test_a_payload_error_of_a_codec_is_not_changed():
    with pytest.raises(PayloadError, match=r"payload\.a: wanted a finite number"):
        encode_payload(JSON, {"a": math.nan})
    with pytest.raises(PayloadError, match="payload: wanted JSON in UTF-8"):
        decode_payload(JSON, b"{")


def test_the_size_is_bounded_for_every_codec():
    assert encode_payload(Reversed(), "x" * 10, most=10) == b"x" * 10
    with pytest.raises(PayloadError, match=r"payload: wanted at most 10 bytes \(.*\), got 11 bytes"):
        encode_payload(Reversed(), "x" * 11, most=10)
    with pytest.raises(PayloadError, match=f"wanted at most {bounds.MAX_PAYLOAD_BYTES} bytes"):
        encode_payload(JSON, "x" * bounds.MAX_PAYLOAD_BYTES)


@pytest.mark.parametrize(
    ("text", "is_repeated"),
    [
        (rb'{"a":1,"a":1}', True),
        (b'{"a" :\n1, "a"\t:1}', True),
        (rb'{"a":1,"\u0061":2}', True),
        (rb'[{"x":{"b\\":1,"b\\" : 2}}]', True),
        (rb'{"":1,"":2}', True),
        (rb'{"a":"\":","b":1.50}', False),
        (rb'{"a\\":"\\\":\u0022:", "b" : "\/"}', False),
        (rb'[{"a":1}, {"a":1}, "a:a\":", [1e3]]', False),
        (rb'"\":\":"', False),
        (b'{"a":', False),
    ],
)
def test_a_repeated_key_is_found_without_a_walk(text: bytes, is_repeated: bool):
    assert has_repeated_key(text) is is_repeated


ODD_TEXT = st.text('"\\:[]{}e\n1 é', max_size=9)
ODD_VALUES = st.recursive(
    st.none() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | ODD_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ODD_TEXT, inner),
    max_leaves=20,
)


@given(value=ODD_VALUES, spaces=st.sampled_from([None, 1]), lost=st.integers(0, 2))
def test_text_is_json_exactly_if_it_can_be_decoded(value: object, spaces: int | None, lost: int):
    text = json.dumps(value, indent=spaces).encode()
    text = text[: len(text) - lost]
    try:
        JSON.decode(text)
    except PayloadError:
        assert not is_json_text(text)
    else:
        assert is_json_text(text)
        assert not has_repeated_key(text)


@pytest.mark.parametrize("levels", [63, 64, 65, 200])
@pytest.mark.parametrize("shape", ["[%s]", "[%s,[[],[[]]],{}]", "[[[]],[],%s]", '["]][[",{},%s]'])
def test_levels_are_counted_wherever_the_deepest_value_is(levels: int, shape: str):
    text = (shape % ("[" * (levels - 1) + "]" * (levels - 1))).encode()
    assert is_json_text(text) is (levels <= bounds.MAX_DEPTH)
    twice = b"[%b,%b]" % (text, text)
    assert is_json_text(twice) is (levels < bounds.MAX_DEPTH)


@pytest.mark.parametrize(("data", "is_text"), [(b'"\xff"', False), ('"é"'.encode(), True), (b"", False)])
def test_json_is_utf_8(data: bytes, is_text: bool):
    assert is_json_text(data) is is_text


# Flat objects -----------------------------------------------------------------------------------------------

plain = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.floats() | st.lists(st.integers(), max_size=1)
)


@given(st.dictionaries(st.text(max_size=9) | st.integers(), plain, max_size=4), st.integers(0, 300))
def test_a_flat_object_is_kept_by_json_within_its_bound(value, most):
    if is_flat_object(value, most=most):
        data = JSON.encode(value)
        assert len(data) <= most
        assert JSON.decode(data) == value


@pytest.mark.parametrize("value", [{}, {"tenant": "acme", "retries": 3, "dry": False, "note": None}, {"n": 2**64 - 1}])
def test_what_a_meta_nearly_always_is_is_a_flat_object(value):
    assert is_flat_object(value, most=500)


@pytest.mark.parametrize("value", [[], "a", {"a": 2**64}, {"a": 1.5}, {"a": []}, {"ü": 1}, {"a": "\ud800"}, {1: 1}])
def test_any_other_value_is_none(value):
    assert not is_flat_object(value, most=500)
