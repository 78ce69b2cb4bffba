"""Who may set the limits of a queue: an operator, else the settings, else the handler."""

import pytest

from holdfast.errors import InvalidInput
from holdfast.model.limit_proposal import (
    NO_LIMITS,
    LimitOrigin,
    LimitProposal,
    Origin,
    QueueLimits,
    may_apply,
    origin_change,
    parse_rate,
    read_origin,
)
from holdfast.model.registry import Entry

OLD, NEW, OTHER = QueueLimits(rate=1), QueueLimits(rate=2), QueueLimits(rate=3)


def stored(origin: Origin) -> LimitOrigin:
    return LimitOrigin(origin=origin, limits=None if origin is Origin.OPERATOR else OLD)


@pytest.mark.parametrize(
    ("origin", "entry", "current", "applies"),
    [
        (Origin.HANDLER, None, NO_LIMITS, True),
        (Origin.HANDLER, None, OTHER, False),  # an operator's, through ``configure``
        (Origin.HANDLER, stored(Origin.HANDLER), OLD, True),
        (Origin.HANDLER, stored(Origin.SETTINGS), OLD, False),
        (Origin.SETTINGS, stored(Origin.HANDLER), OLD, True),
        (Origin.SETTINGS, stored(Origin.SETTINGS), OLD, True),
        (Origin.SETTINGS, stored(Origin.SETTINGS), NEW, False),  # nothing to change
        (Origin.SETTINGS, stored(Origin.SETTINGS), OTHER, False),  # an operator changed them since
        (Origin.SETTINGS, stored(Origin.SETTINGS), NO_LIMITS, True),  # its worker ended before it configured
        (Origin.SETTINGS, stored(Origin.OPERATOR), NO_LIMITS, False),
        (Origin.SETTINGS, stored(Origin.OPERATOR), OTHER, False),
    ],
)
def test_a_proposal_replaces_only_older_proposals_of_no_higher_origin(origin, entry, current, applies):
    assert may_apply(LimitProposal(queue="q", limits=NEW, origin=origin), entry, current) is applies


@pytest.mark.parametrize("origin", [stored(Origin.HANDLER), stored(Origin.OPERATOR)])
def test_the_entry_is_read_as_it_was_written(origin):
    change = origin_change("q" * 128, "t" * 128, origin)
    assert read_origin(Entry(key=change.key, value=change.value, version=1)) == origin


def test_an_entry_of_another_version_is_refused():
    with pytest.raises(InvalidInput, match="limits k: wanted an origin and limits"):
        read_origin(Entry(key="k", value=b'{"origin": "fate", "limits": null}', version=1))


def test_a_rate_is_a_text_or_a_number_per_second():
    assert (parse_rate("rate", "600/m"), parse_rate("rate", 5), parse_rate("rate", None)) == (10.0, 5, None)
    with pytest.raises(InvalidInput, match="rate: wanted a rate such as"):
        parse_rate("rate", "fast")
