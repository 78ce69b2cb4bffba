"""The requests of people and tools about jobs. Every list has a limit and a cursor."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from holdfast.drivers.answers import Diagnosis, JobColumns, Page, QueueCounts, Trimmed
from holdfast.drivers.capabilities import Capabilities, Feature
from holdfast.drivers.requests.request import OfJobs, Paged, Request, check_list, check_names
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.columns import JOB_COLUMNS, names_of
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State
from holdfast.model.retention import Retention

OF_JOBS = (Feature.JOBS,)

JOB_FIELDS = frozenset(names_of(JOB_COLUMNS))

FIND_BYTES = 8 << 20  # of payloads and results: a page of ``Find`` ends with the job that reaches so many
FIND_LIMIT = 10_000  # rows: about the most of each state that one ``Find`` reads to find matching ones


class Find(Paged[Page[JobRecord]], frozen=True, kw_only=True):
    """A page of the jobs that match, ordered by id. ``after=page.cursor`` asks for the next page.

    With ``newest`` the order is reversed: the largest id comes first. The ids that a client makes grow with time.

    One call reads a bounded number of rows (``FIND_LIMIT``), and a page ends when its payloads and results have
    ``FIND_BYTES``. So a page may have fewer jobs than ``limit``, even none, and still have a cursor. Only a cursor of
    None says that no more jobs match.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_JOBS
    where: JobFilter = JobFilter()
    limit: int = 100
    after: str | None = None
    newest: bool = False

    def named_queues(self) -> Collection[str]:
        """Return the queue of the filter."""
        return [] if self.where.queue is None else [self.where.queue]

    def check(self, can: Capabilities) -> None:
        """Check the page."""
        Paged.check(self, can)
        if self.after is not None:
            bounds.check_name("after", self.after)


class ReadColumns(Paged[JobColumns], frozen=True, kw_only=True):
    """The jobs of ``Find`` by the million: a page as columns, one per name of a ``JobRecord`` field."""

    needs: ClassVar[tuple[Feature, ...]] = OF_JOBS
    where: JobFilter
    names: Sequence[str]
    after: str | None = None

    def named_queues(self) -> Collection[str]:
        """Return the queue of the filter."""
        return [] if self.where.queue is None else [self.where.queue]

    def check(self, can: Capabilities) -> None:
        """Check the names and the page."""
        Paged.check(self, can)
        for name in self.names:
            if name not in JOB_FIELDS:
                raise InvalidInput("names", wanted="fields of a JobRecord", got=name)
        if self.after is not None:
            bounds.check_name("after", self.after)


class AnyOpen(Request[bool], frozen=True, kw_only=True):
    """Whether a job of these types is ready, scheduled or in flight in these queues. Does not count jobs."""

    needs: ClassVar[tuple[Feature, ...]] = OF_JOBS
    queues: Sequence[str]
    types: Collection[str]

    def check(self, can: Capabilities) -> None:
        """Check both lists."""
        Request.check(self, can)
        check_names("queue", self.queues)
        check_names("type", self.types)


class Counts(Request[list[QueueCounts]], frozen=True, kw_only=True):
    """One row per queue and type that has jobs, ordered by both.

    With ``states`` only jobs in these states are counted and read; the other numbers are 0. ``ready`` jobs include the
    scheduled ones. Done jobs are most of the jobs of a store: leave them out of a call that is repeated.

    With ``estimate``, reads a bounded number of rows, whatever the space contains. The numbers of a space with up to
    ``drivers.estimates.COUNT_LIMIT`` jobs are exact. In a larger space, a queue and type with few jobs is still
    counted, so that a small queue beside a long one is never reported as empty; the other numbers are estimated from a
    sample, and their rows say so. Jobs that wait for their turn in a domain are always estimated then.
    ``oldest_ready_age`` is exact for jobs that can be reserved.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_JOBS
    queues: Sequence[str] | None = None
    states: Collection[State] | None = None
    estimate: bool = False

    def check(self, can: Capabilities) -> None:
        """Check the queues and the states."""
        Request.check(self, can)
        if self.queues is not None:
            check_names("queue", self.queues)
        if self.states is not None:
            check_list("states", self.states)
            for state in self.states:
                if state not in frozenset(State):
                    raise InvalidInput("states", wanted=f"some of {', '.join(State)}", got=state)

    @property
    def counted(self) -> frozenset[State]:
        """The states to count; all without ``states``."""
        return frozenset(State) if self.states is None else frozenset(map(State, self.states))


class Requeue(OfJobs[list[bool]], frozen=True, kw_only=True):
    """Make dead or cancelled jobs ready again, attempts and crashes set to 0, as the last of their lanes (L9).

    One answer per id: True if this call requeued the job, which then has a ``requeued`` ledger row. If another job has
    taken the idempotency key meanwhile, the key stays with that job. A dead letter ``unreadable`` stays one until its
    row can be read again.

    A job with an offset runs at the place of its offset in its domain. A job that halted its domain is requeued as by
    ``Resume`` with ``RETRY``.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_JOBS


class Cancel(OfJobs[list[State | None]], frozen=True, kw_only=True):
    """Cancel ready jobs at once, and request cancellation of running jobs.

    One answer per id: the state of the job after the call; None if there is no such job. A running job stays in flight
    with ``cancel_requested``; any end of its lease except an ack makes it cancelled.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_JOBS


class Purge(OfJobs[list[bool]], frozen=True, kw_only=True):
    """Remove ended jobs, each with a ``purged`` ledger row. One answer per id: True where this call removed the job.

    An offset stays ended when its job is removed. If the job halted its domain, the domain goes on.

    A job stays, and its answer is False, while a registered reader has not read all ledger rows of the job (see
    ``model.ledger_reader``). If a reader is more than ``FIND_LIMIT`` rows behind, further jobs that ended late may
    stay, too.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_JOBS


class Trim(Paged[Trimmed], frozen=True, kw_only=True):
    """Remove old rows: done and cancelled jobs, ledger rows, idempotency keys and registry entries.

    Jobs stay for ``ended_for`` after their end, at least a day (L6), and ledger rows for ``ledger_for``. Without a
    value, the retention that the space stores decides (see ``model.retention``), and without one the defaults, 7 and 30
    days. Dead letters stay until ``Purge``. Ledger rows that a registered reader has not read stay, and so do their
    jobs, until it has read them, or until its registration expires or is removed (see ``model.ledger_reader``). Removes
    at most ``limit`` rows of each kind.

    A key is removed when its window has ended and its job is done or removed. If the job ends after the window, the key
    may stay for another hour, or for as long as the window had been over by then: it blocks no other job, and trim does
    not read the keys of all open and dead jobs again and again.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_JOBS
    ended_for: int | None = None
    ledger_for: int | None = None
    limit: int = bounds.MAX_BATCH_ITEMS

    def check(self, can: Capabilities) -> None:
        """Check the retention of the call."""
        Paged.check(self, can)
        Retention(**self.given)

    @property
    def given(self) -> dict[str, int]:
        """The retention that the call names."""
        values = {"ended_for": self.ended_for, "ledger_for": self.ledger_for}
        return {name: value for name, value in values.items() if value is not None}


class Diagnose(Request[Diagnosis], frozen=True, kw_only=True):
    """Facts for ``holdfast doctor`` and for audits. Reads a bounded number of rows, or statistics.

    Expired leases are counted if they expired at least ``expired_for`` microseconds ago and were not reaped; at most
    ``REAP_LIMIT`` of them. An engine without the group of jobs may know nothing.
    """

    expired_for: int = 0
