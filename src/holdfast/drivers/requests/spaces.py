"""The requests for all spaces of a store, made from any of them."""

from __future__ import annotations

from typing import ClassVar

from holdfast.drivers.answers import Page, SpaceRemoval
from holdfast.drivers.capabilities import Capabilities, Feature
from holdfast.drivers.requests.request import Paged
from holdfast.model import bounds

OF_SPACES = (Feature.SPACES,)


class Spaces(Paged[Page[str]], frozen=True, kw_only=True):
    """A page of the names of the spaces that have rows, in order. ``after=page.cursor`` asks for the next.

    With ``has_expired_leases``, only spaces in which ``Reap`` may find something to do. One call looks at a bounded
    number of spaces. So a page may have fewer names than ``limit``, even none, and still have a cursor; only a cursor
    of None says that there are no more.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_SPACES
    after: str = ""
    limit: int = 100
    has_expired_leases: bool = False

    def check(self, can: Capabilities) -> None:
        """Check the page."""
        Paged.check(self, can)
        if self.after:
            bounds.check_name("after", self.after)


class RemoveSpace(Paged[SpaceRemoval], frozen=True, kw_only=True):
    """Remove up to ``limit`` rows of a space: its jobs, ledger, keys, settings and registry. Repeat while ``more``.

    When the last call has returned, no row of the space is left, unless somebody has written to it meanwhile. A space
    of the same name can be used again: its fences and registry versions continue to grow (L4), and no cursor of the old
    ledger leads into the new one.

    Raises ``SpaceInUse`` while a job of the space is in flight. With ``force`` these jobs are removed, and the calls of
    their workers are refused with ``JobNotInflight``. Waits for no reader of the ledger.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_SPACES
    name: str
    force: bool = False
    limit: int = bounds.MAX_BATCH_ITEMS

    def check(self, can: Capabilities) -> None:
        """Check the name."""
        Paged.check(self, can)
        bounds.check_name("space", self.name)
