"""Instants as text."""

from datetime import UTC, datetime

import pytest

from holdfast.errors import InvalidInput
from holdfast.model import instant


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-11-15", datetime(2026, 11, 15, tzinfo=UTC)),
        ("2026-11-15T01:00:00+01:00", datetime(2026, 11, 15, tzinfo=UTC)),
        ("2026-11-15 00:00Z", datetime(2026, 11, 15, tzinfo=UTC)),
    ],
)
def test_an_instant_has_a_time_zone_and_a_date_is_its_start_in_utc(text, wanted):
    assert instant.parse("until", text) == wanted


@pytest.mark.parametrize("text", ["", "2026-11-15T20:30:00", "2026-13-01", "tomorrow", "1900-01-01T00:00:00Z"])
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidInput, match="until: wanted an instant such as 2026-11-15T20:30:00Z"):
        instant.parse("until", text)
