"""Which request begins when a sender is free: a host that does not answer delays neither other hosts nor other spaces.

Pure decisions; ``senders`` carries them out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from holdfast.model.fair_share import may_take_another


class Pace(IntEnum):
    """How long the last request to a host took. Of the requests of a space, those to quicker hosts begin first.

    Each space has its own experience with a host: one that makes a host hang does not slow down the others.
    """

    QUICK = 0
    UNKNOWN = 1  # nothing was sent to the host yet
    SLOW = 2
    SILENT = 3  # it did not answer, or only after so long that it may not answer the next time


class Place(NamedTuple):
    """Where a request belongs."""

    space: str
    host: str


def next_place(
    waiting: Iterable[Place], running: Sequence[Place], paces: Mapping[Place, Pace], *, senders: int
) -> Place | None:
    """Return the place whose oldest request begins now; None if none may begin.

    A quick or slow host holds a share of what is free, any other host one sender. Slow and silent hosts together hold
    half of the senders, and the hosts of one space that are not quick a share of what is free. Of the places that may
    begin a request, that of the space with the fewest requests is the next.
    """
    free = senders - len(running)
    of_place = Counter(running)
    of_space = Counter(place.space for place in running)
    not_quick = [place for place in running if _pace(paces, place) is not Pace.QUICK]
    not_quick_of_space = Counter(place.space for place in not_quick)
    slow = sum(_pace(paces, place) is not Pace.UNKNOWN for place in not_quick)
    free_for_slow = min(free, max(1, senders // 2) - slow)

    def may_begin(place: Place) -> bool:
        held = of_place[place]
        match _pace(paces, place):
            case Pace.QUICK:
                return may_take_another(held, free)
            case Pace.UNKNOWN:
                left = free if held == 0 else 0
            case Pace.SLOW:
                left = free_for_slow if may_take_another(held, free_for_slow) else 0
            case Pace.SILENT:
                left = free_for_slow if held == 0 else 0
        return may_take_another(not_quick_of_space[place.space], left)

    candidates = [place for place in waiting if may_begin(place)]
    return min(
        candidates,
        key=lambda place: (of_space[place.space], _pace(paces, place), of_place[place]),
        default=None,
    )


def _pace(paces: Mapping[Place, Pace], place: Place) -> Pace:
    return paces.get(place, Pace.UNKNOWN)
