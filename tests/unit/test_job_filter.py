"""``JobFilter`` refuses what no job can have."""

import pytest

from holdfast.errors import InvalidInput
from holdfast.model.filters import JobFilter

TEXTS = ("queue", "type", "domain", "name", "idempotency_key", "reason")


@pytest.mark.parametrize("field", TEXTS)
@pytest.mark.parametrize("value", ["\ud800", "a\udcff", 5, b"mail"])
def test_a_condition_that_is_not_text_is_refused(field, value):
    with pytest.raises(InvalidInput, match=f"{field}: wanted text in UTF-8, got"):
        JobFilter(**{field: value})


@pytest.mark.parametrize("value", [None, "", "mail", "ü€😀", "a\0b"])
def test_any_text_is_a_condition(value):
    assert JobFilter(**dict.fromkeys(TEXTS, value)).reason == value
