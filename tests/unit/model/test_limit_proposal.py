"""Who may set the limits of a queue: an operator, else the settings, else the handler."""

import pytest

from holdfast.errors import InvalidInput
from holdfast.model.limit_proposal import LimitProposal, QueueLimits, parse_rate
from holdfast.model.queue_settings import TYPE_LIMIT_FIELDS, LimitOrigin, QueueSettings

HANDLER, SETTINGS, OPERATOR = LimitOrigin


@pytest.mark.parametrize(
    ("origin", "current", "applies"),
    [
        (HANDLER, QueueSettings(), True),
        (HANDLER, QueueSettings(paused_until=7), True),
        (HANDLER, QueueSettings(rate=1), False),  # an operator's, through ``configure``
        (HANDLER, QueueSettings(rate=1, limits_from=HANDLER), True),
        (HANDLER, QueueSettings(rate=1, limits_from=SETTINGS), False),
        (SETTINGS, QueueSettings(rate=1, limits_from=HANDLER), True),
        (SETTINGS, QueueSettings(rate=1, limits_from=SETTINGS), True),
        (SETTINGS, QueueSettings(limits_from=OPERATOR), False),  # no limit, as an operator wants it
        (SETTINGS, QueueSettings(rate=1, limits_from=OPERATOR), False),
        (OPERATOR, QueueSettings(rate=1, limits_from=OPERATOR), True),
    ],
)
def test_a_proposal_replaces_only_proposals_of_no_higher_origin(origin, current, applies):
    proposal = LimitProposal(queue="q", limits=QueueLimits(rate=2), origin=origin)
    assert current.accepts(proposal.as_settings(), TYPE_LIMIT_FIELDS) is applies


def test_a_call_that_names_no_limit_is_no_proposal():
    current = QueueSettings(rate=1, limits_from=OPERATOR)
    held = QueueSettings(held_until=5, limits_from=HANDLER)
    assert current.accepts(held, ("held_until",))
    assert current.merge(held, ("held_until",)) == QueueSettings(rate=1, limits_from=OPERATOR, held_until=5)


def test_a_rate_is_a_text_or_a_number_per_second():
    assert (parse_rate("rate", "600/m"), parse_rate("rate", 5), parse_rate("rate", None)) == (10.0, 5, None)
    with pytest.raises(InvalidInput, match="rate: wanted a rate such as"):
        parse_rate("rate", "fast")
