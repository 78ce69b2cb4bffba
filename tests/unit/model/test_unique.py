"""``unique`` of a request and ``unique_for`` of a record."""

from datetime import timedelta

import pytest

from holdfast.clock import DAY, MINUTE
from holdfast.errors import InvalidInput
from holdfast.model.unique import WHILE_OPEN, WHILE_QUEUED, rule_of, to_unique_for, window_of


@pytest.mark.parametrize(
    ("unique", "unique_for", "window"),
    [
        (None, None, DAY),
        ("while_open", WHILE_OPEN, 0),
        ("while_queued", WHILE_QUEUED, 0),
        (timedelta(minutes=1), MINUTE, MINUTE),
    ],
)
def test_a_rule_is_stored_as_one_number(unique, unique_for, window):
    assert to_unique_for(unique) == unique_for
    assert window_of(unique_for, DAY) == window
    assert rule_of(unique_for) == (unique if isinstance(unique, str) else None)


@pytest.mark.parametrize("unique", ["while_done", "", 60, True, timedelta(0), timedelta(-1), timedelta.max, []])
def test_any_other_value_is_refused(unique):
    with pytest.raises(InvalidInput, match="unique"):
        to_unique_for(unique)
