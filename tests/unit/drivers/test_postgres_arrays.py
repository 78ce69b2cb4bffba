"""Packed arrays, read back for a database driver that packs them itself."""

import pytest

from holdfast.drivers.postgres import arrays


@pytest.mark.parametrize(
    ("pack", "values"),
    [
        (arrays.pack_texts, []),
        (arrays.pack_texts, ["a", "", "grüße", "x" * 2000]),
        (arrays.pack_optional_texts, [None, "a", None]),
        (arrays.pack_blobs, [b"\0\xff", None, b""]),
        (arrays.pack_blobs, [b"12", b"34"]),
        (arrays.pack_bigints, [-(2**63), 0, 2**63 - 1]),
        (arrays.pack_bigints, [None, -5]),
        (arrays.pack_integers, [-(2**31), 1, 2**31 - 1]),
        (arrays.pack_booleans, [True, False]),
    ],
)
def test_a_packed_array_has_its_elements(pack, values):
    assert arrays.unpack(pack(values)) == values
