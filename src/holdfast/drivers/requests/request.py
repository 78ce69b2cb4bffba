"""A verb is a value: the base of all requests, and the checks that several of them share.

A request is a frozen struct. Its docstring is what the verb promises, its fields are the arguments, ``check`` is their
only validation, and the type parameter is the answer. The front checks a request and hands it to the engine, which has
one method for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar, Generic, TypeVar

import msgspec

from holdfast.drivers.capabilities import Capabilities, Feature, Needs
from holdfast.errors import InvalidInput
from holdfast.model import bounds

A_co = TypeVar("A_co", covariant=True)
MAX_WAIT_SECONDS = 86_400


class Request(msgspec.Struct, Generic[A_co], frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One call of a store, which answers with an ``A``. One call is one transaction; only ``Settle`` may be several.

    ``now`` replaces the clock of the store, and is allowed only for a store opened with ``caller_clock=True`` (L1).
    """

    verb: ClassVar[str]  # the name of the method of an engine
    needs: ClassVar[tuple[Feature, ...]] = ()  # the group: without it the store refuses the request (L14)
    field_needs: ClassVar[Needs] = {}  # a request that gives such a field is refused without its features

    now: int | None = None

    def __init_subclass__(cls) -> None:
        """Name the verb: ``LedgerTail`` is ``ledger_tail``."""
        super().__init_subclass__()
        cls.verb = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in cls.__name__)[1:]

    def check(self, can: Capabilities) -> None:
        """Raise ``InvalidInput`` for a value outside of its bounds, ``Unsupported`` for what the store lacks."""
        if can.lost:
            for feature in self.needs:
                can.require(feature)
            can.require_for(self, self.field_needs)

    def named_queues(self) -> Collection[str]:
        """Return the queues that the request names: a service looks whether its caller may."""
        queue, queues = getattr(self, "queue", None), getattr(self, "queues", None)
        return [*(queues or ()), *([] if queue is None else [queue])]


class OfJobs(Request[A_co], Generic[A_co], frozen=True, kw_only=True):
    """A request about jobs by their ids."""

    job_ids: Sequence[str]

    def check(self, can: Capabilities) -> None:
        """Check the ids."""
        Request.check(self, can)
        check_ids(self.job_ids)


class Paged(Request[A_co], Generic[A_co], frozen=True, kw_only=True):
    """A request for a part of a list."""

    limit: int = 1000

    def check(self, can: Capabilities) -> None:
        """Check the number of rows."""
        Request.check(self, can)
        bounds.check_integer("limit", self.limit, least=1, most=bounds.MAX_BATCH_ITEMS)


def check_ids(job_ids: Collection[str]) -> None:
    """Check a list of job ids."""
    check_list("job_ids", job_ids)
    for job_id in job_ids:
        bounds.check_name("id", job_id)


def check_list(field: str, values: Collection[object]) -> None:
    """Refuse a list that is too long, and a single text: it is a list of texts, but never the one that was meant."""
    if isinstance(values, str):
        raise InvalidInput(field, wanted="a list", got=values)
    bounds.check_batch(field, len(values))


def check_all(field: str, values: Sequence[object], wanted: type) -> None:
    """Refuse a value of another type."""
    for value in values:
        if not isinstance(value, wanted):
            raise InvalidInput(field, wanted=f"a {wanted.__name__}", got=value)


def check_names(field: str, names: Collection[str]) -> None:
    """Check a list of at least one queue or type."""
    if isinstance(names, str) or not names:
        raise InvalidInput(f"{field}s", wanted=f"a list with at least one {field}", got=names)
    bounds.check_batch(f"{field}s", len(names))
    for name in names:
        bounds.check_name(field, name)


def check_timeout(timeout: float) -> None:
    """Check for how long a call may wait."""
    if not isinstance(timeout, int | float) or not 0 <= timeout <= MAX_WAIT_SECONDS:
        raise InvalidInput("timeout", wanted=f"seconds from 0 to {MAX_WAIT_SECONDS}", got=timeout)


def distinct(names: Collection[str]) -> list[str]:
    """Return each name once, in the order of the request."""
    return list(dict.fromkeys(names))
