"""Faulty drivers: halted domains, gaps, and the list of domains."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from msgspec import structs

from holdfast.drivers import requests as r
from holdfast.drivers.answers import Page
from holdfast.drivers.memory.domains import Place, Wait
from holdfast.drivers.memory.rows import Row
from holdfast.model.domain import DomainInfo
from holdfast.model.job import State
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


class _HaltsOnCancelSpace(FaultySpace):
    def halts(self, row: Row) -> bool:
        is_cancelled = row.job.state is State.CANCELLED
        return super().halts(row) or (is_cancelled and self.settings_of(row.job.queue).on_exhausted == "halt")


class HaltsOnCancel(FaultyDriver):
    """A cancelled job halts its domain."""

    space_type = _HaltsOnCancelSpace


class _HaltForgottenSpace(FaultySpace):
    def halts(self, row: Row) -> bool:
        del row
        return False


class HaltForgotten(FaultyDriver):
    """A domain goes on although its queue halts domains."""

    space_type = _HaltForgottenSpace


class _HaltsOnlyByFailSpace(FaultySpace):
    def halts(self, row: Row) -> bool:
        return super().halts(row) and row.last_verb == "fail"


class HaltsOnlyByFail(FaultyDriver):
    """A job that dies without a fail does not halt its domain."""

    space_type = _HaltsOnlyByFailSpace


class _RetryGoesToTheEndSpace(FaultySpace):
    def _requeue(self, row: Row, now: int, *, at_old_place: bool) -> None:
        del at_old_place
        super()._requeue(row, now, at_old_place=False)


class RetryGoesToTheEnd(FaultyDriver):
    """A halting job that is retried runs after the other jobs of its domain."""

    space_type = _RetryGoesToTheEndSpace


class _ResumeRunsTwoSpace(FaultySpace):
    def resume(self, place: Place, *, retry: bool, position: int | None, now: int) -> bool:
        is_changed = super().resume(place, retry=retry, position=position, now=now)
        domain = self.domains.get(place)
        if retry and domain is not None and len(domain.jobs) > 1:
            turn, domain.turn = domain.turn, domain.jobs[1][2]
            self._enter_lane(self.rows[domain.jobs[1][2]])
            domain.turn = turn
        return is_changed


class ResumeRunsTwo(FaultyDriver):
    """A retry of the halting job gives the turn to the next job as well."""

    space_type = _ResumeRunsTwoSpace


class _RequeueEndsEveryHaltSpace(FaultySpace):
    def requeue(self, row: Row, now: int) -> bool:
        place = self.place_of(row.job)
        if place is not None and place in self.domains:
            self.domains[place].halt = None
        return super().requeue(row, now)


class RequeueEndsEveryHalt(FaultyDriver):
    """The requeue of any job ends the halt of its domain."""

    space_type = _RequeueEndsEveryHaltSpace


class _GapNeverPassedSpace(FaultySpace):
    def passes(self, queues: Collection[str]) -> list[tuple[Place, int]]:
        del queues
        return []


class GapNeverPassed(FaultyDriver):
    """A gap is never passed."""

    space_type = _GapNeverPassedSpace


class _GapsFromCreationSpace(FaultySpace):
    def update_waits(self, now: int) -> None:
        super().update_waits(now)
        for place, wait in self.waits.items():
            self.waits[place] = Wait(wait.offset, self.rows[self.domains[place].jobs[0][2]].job.created_at)


class GapPassedByCallersClock(FaultyDriver):
    """The age of a gap is counted from the creation of the job behind it, by the clock of its caller."""

    space_type = _GapsFromCreationSpace


class _PassedGapEndedSpace(FaultySpace):
    def find_gaps(self, queues: Collection[str], now: int) -> None:
        super().find_gaps(queues, now)
        for domain in self.domains.values():
            domain.ended.fill_below(domain.start)


class PassedGapCountsAsEnded(FaultyDriver):
    """The offsets of a gap that was passed count as ended."""

    space_type = _PassedGapEndedSpace


class _EveryArrivalRestartsSpace(FaultySpace):
    def update_waits(self, now: int) -> None:
        for place in self._changed:
            self.waits.pop(place, None)
        super().update_waits(now)


class GapBeginsAnewWithEveryJob(FaultyDriver):
    """A job that arrives behind a gap makes the gap begin anew."""

    space_type = _EveryArrivalRestartsSpace


class DomainListNeedsOffsets(FaultyDriver):
    """Domains without offsets are not listed."""

    def domains(self, request: r.Domains) -> Page[DomainInfo]:
        """Leave out domains that run in order of arrival."""
        page = super().domains(request)
        return Page([info for info in page if info.head_offset is not None or info.position], page.cursor)


class DomainListIgnoresTheClock(FaultyDriver):
    """No domain is overdue or in backoff."""

    def domains(self, request: r.Domains) -> Page[DomainInfo]:
        """Read the domains as they were at the beginning."""
        return super().domains(structs.replace(request, now=1 if request.now else None))


class DomainListSkipsOne(FaultyDriver):
    """Every page of domains begins one domain too late."""

    def domains(self, request: r.Domains) -> Page[DomainInfo]:
        """Leave out the first domain after a cursor."""
        page = super().domains(request)
        return Page(page.items[1:], page.cursor) if request.after else page


class _ForgetsOpenDomainsSpace(FaultySpace):
    def forget_domain(self, place: Place) -> bool:
        domain = self.domains.get(place)
        if domain is None or not domain.has_memory:
            return False
        self.domains[place] = replace(domain, ended=type(domain.ended)(), start=0, halt=None)
        return True


class ForgetsOpenDomains(FaultyDriver):
    """A domain with open jobs is forgotten."""

    space_type = _ForgetsOpenDomainsSpace


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    HaltsOnCancel,
    HaltForgotten,
    HaltsOnlyByFail,
    RetryGoesToTheEnd,
    ResumeRunsTwo,
    RequeueEndsEveryHalt,
    GapNeverPassed,
    GapPassedByCallersClock,
    PassedGapCountsAsEnded,
    GapBeginsAnewWithEveryJob,
    DomainListNeedsOffsets,
    DomainListIgnoresTheClock,
    DomainListSkipsOne,
    ForgetsOpenDomains,
)
