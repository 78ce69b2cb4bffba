"""The requests for small entries that are not jobs, at most 64 KiB each, written by compare-and-set.

The registry is the only other storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from holdfast.drivers.capabilities import Capabilities, Feature
from holdfast.drivers.requests.request import Paged, Request, check_all, check_list
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.registry import Change, Entry

OF_REGISTRY = (Feature.REGISTRY,)


class Read(Request[list[Entry | None]], frozen=True, kw_only=True):
    """The entries of a kind under these keys, in order; None where there is none or it has expired.

    All of one instant: of changes that were made together, the answer shows all or none.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_REGISTRY
    kind: str
    keys: Sequence[str]

    def check(self, can: Capabilities) -> None:
        """Check a kind and a list of keys."""
        Request.check(self, can)
        bounds.check_name("kind", self.kind)
        check_list("keys", self.keys)
        for key in self.keys:
            bounds.check_text("key", key)


class Scan(Paged[list[Entry]], frozen=True, kw_only=True):
    """The entries of a kind whose keys begin with ``prefix``, ordered by key, after the key ``after``.

    A page is of one instant.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_REGISTRY
    kind: str
    prefix: str = ""
    after: str = ""
    limit: int = 100

    def check(self, can: Capabilities) -> None:
        """Check a kind and a page of its keys."""
        Paged.check(self, can)
        bounds.check_name("kind", self.kind)
        bounds.check_text("prefix", self.prefix, empty=True)
        bounds.check_text("after", self.after, empty=True)


class Write(Request[list[Entry | None]], frozen=True, kw_only=True):
    """Make the changes in order, each only if the entry has the expected version.

    The answer has the new entry of each change, None for a change that was not made. One transaction: a change sees the
    changes before it. A version is never used twice, not even after a removal.

    Without ``together``, None says that the version of this entry differed. With it, all changes are made or none is:
    if one version differs, the answer is None for every change. It does not say which version differed: read the
    entries again. Then each change must be of another entry.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_REGISTRY
    changes: Sequence[Change]
    together: bool = False

    def check(self, can: Capabilities) -> None:
        """Check the batch. Each ``Change`` checked its own values when it was created."""
        Request.check(self, can)
        bounds.check_batch("changes", len(self.changes))
        check_all("change", self.changes, Change)
        if self.together and len({(change.kind, change.key) for change in self.changes}) < len(self.changes):
            raise InvalidInput("changes", wanted="every key once, to make them together", got="two changes of one key")
