"""The checks of whole columns, which batches use."""

from functools import partial

import pytest

from holdfast.errors import InvalidInput
from holdfast.model import bounds

COLUMN_CHECKS = [
    (bounds.check_new_names, bounds.check_new_name, ["a", "b:1"], ["", "a b", "a\nb", "ü", "x" * 129, 7, None, b"a"]),
    (
        bounds.check_optional_texts,
        bounds.check_optional_text,
        ["a", "b c", "ü", None],
        ["", "a\nb", "\0", "é" * 129, 7, b"a"],
    ),
    (
        partial(bounds.check_blobs, most=3),
        partial(bounds.check_blob, most=3),
        [b"", b"abc"],
        [b"abcd", "abc", None, bytearray(b"a")],
    ),
]


@pytest.mark.parametrize(("all_of", "one", "good", "bad"), COLUMN_CHECKS)
def test_a_column_is_checked_like_each_of_its_values(all_of, one, good, bad):
    all_of("field", [])
    all_of("field", good)
    all_of("field", good[:2] * 1000)
    for value in bad:
        with pytest.raises(InvalidInput) as alone:
            one("field", value)
        for values in ([value], [*good[:2] * 500, value, *good]):
            with pytest.raises(InvalidInput) as together:
                all_of("field", values)
            assert str(together.value) == str(alone.value)
