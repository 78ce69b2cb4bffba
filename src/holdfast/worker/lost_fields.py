"""What a worker does without where its store lacks fields (L14): such a settlement would be refused."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.drivers.capabilities import Capabilities, Feature
from holdfast.model.settlement import Ack, Release, Retry, Settlement
from holdfast.worker.decide import UNKNOWN_TYPE_DELAY
from holdfast.worker.outcome import Outcome, Snoozed, UnknownType


def without_lost_fields(settlement: Settlement, can: Capabilities) -> Settlement:
    """Return the settlement without a result, a delay or a hold of the key, where the store keeps none.

    A retry without its delay is due at once; a release comes when its delay is over, see ``delay_of``.
    """
    match settlement:
        case Ack() if settlement.result is not None and not can.has(Feature.RESULT):
            return replace(settlement, result=None)
        case Retry():
            if settlement.hold_key and not can.has(Feature.LIMIT_KEY):
                settlement = replace(settlement, hold_key=False)
            return settlement if can.has(Feature.SCHEDULE) else replace(settlement, delay=0, run_at=None)
        case Release() if not can.has(Feature.SCHEDULE):
            return replace(settlement, delay=0)
        case _:
            return settlement


def delay_of(outcome: Outcome) -> int:
    """Return for how long a store without delays must not get the job back: the worker keeps its lease meanwhile.

    Given back at once, the job would be the first of its queue again, and keep all workers busy.
    """
    match outcome:
        case Snoozed():
            return outcome.delay
        case UnknownType():
            return UNKNOWN_TYPE_DELAY
        case _:
            return 0
