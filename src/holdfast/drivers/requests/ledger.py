"""The requests of readers of the ledger (L13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from holdfast.drivers.answers import LedgerTuples, Page
from holdfast.drivers.capabilities import Capabilities, Feature
from holdfast.drivers.requests.request import Paged, Request
from holdfast.model import bounds
from holdfast.model.ledger import LedgerRow

OF_LEDGER = (Feature.LEDGER,)


class Ledger(Paged[Page[LedgerRow]], frozen=True, kw_only=True):
    """A page of the ledger, in an order that is fixed and has no gaps (L13).

    ``after=None`` begins at the oldest row. The page always has a cursor, also if it is empty, and one cursor per row.
    Raises ``LedgerTrimmed`` if rows after the cursor were removed.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_LEDGER
    after: str | None = None


class LedgerTail(Paged[Page[LedgerRow]], frozen=True, kw_only=True):
    """The last ``limit`` rows up to the cursor ``before``, in the order of the ledger; None is the end.

    ``Ledger`` after the same cursor has the rows that follow. ``before=page.cursor`` asks for the page before this one;
    a cursor of None says that there are no earlier rows. Rows that were trimmed are left out. Reads no other row.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_LEDGER
    before: str | None = None


class LedgerEnd(Request[str], frozen=True, kw_only=True):
    """The cursor of the end: ``Ledger`` after it has only rows that are written from now on."""

    needs: ClassVar[tuple[Feature, ...]] = OF_LEDGER


class ReadTuples(Paged[LedgerTuples], frozen=True, kw_only=True):
    """The rows of ``Ledger`` by the million: a page of tuples, and its cursor.

    A tuple has the fields of ``LedgerRow`` in order, then any others.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_LEDGER
    after: str | None = None


class LedgerMarks(Request[Sequence[tuple[str, int]]], frozen=True, kw_only=True):
    """Cursors that split the next ``most`` rows into ranges of ``every`` rows.

    Each cursor comes with the number of rows in its range; the last range may be shorter.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_LEDGER
    after: str | None = None
    every: int
    most: int

    def check(self, can: Capabilities) -> None:
        """Check the length of a range."""
        Request.check(self, can)
        bounds.check_integer("every", self.every, least=1, most=bounds.MAX_BATCH_ITEMS)
