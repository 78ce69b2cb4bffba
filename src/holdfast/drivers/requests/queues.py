"""The requests about queues: their settings, and their domains."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from holdfast.drivers.answers import Page
from holdfast.drivers.capabilities import Capabilities, Feature, Needs
from holdfast.drivers.cursors import read_domain_cursor
from holdfast.drivers.requests.request import Paged, Request, check_list
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.domain import DomainInfo, DomainStatus, ResumeAction
from holdfast.model.queue_settings import SETTINGS_FIELDS, OnExhausted, QueueSettings

OF_LIMITS = (Feature.LIMITS,)
OF_DOMAINS = (Feature.DOMAINS,)

SETTINGS_NEEDS: Needs = {
    "on_exhausted": (Feature.DOMAIN, Feature.DOMAINS),
    "gaps": (Feature.OFFSET, Feature.DOMAINS),
    "gap_report_after": (Feature.OFFSET, Feature.DOMAINS),
    "gap_pass_after": (Feature.OFFSET, Feature.DOMAINS),
    "key_max_inflight": (Feature.LIMIT_KEY,),
    "key_rate": (Feature.LIMIT_KEY,),
    "key_burst": (Feature.LIMIT_KEY,),
    "dedupe_window": (Feature.KEY,),
}


class Configure(Request[None], frozen=True, kw_only=True):
    """Replace the settings of a queue, or of one type in it. The next reserve applies them.

    With ``only``, these fields are replaced and the others stay as they are, in one step: two callers that change
    different fields undo nothing of each other. ``rate`` and ``burst`` are replaced together, and so are ``key_rate``
    and ``key_burst``; ``limits_from`` is replaced with any limit. Replacing limits by key ends the holds of all keys of
    the queue, see ``Retry.hold_key``. A halted domain stays halted, whatever ``on_exhausted`` becomes.

    A call with ``only`` whose ``limits_from`` is a handler or the settings proposes its limits: it changes nothing
    where limits of a higher origin are in force. Limits without an origin count as an operator's.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_LIMITS
    queue: str
    settings: QueueSettings
    type: str | None = None
    only: Collection[str] | None = None

    def check(self, can: Capabilities) -> None:
        """Check the names, and that the store supports the settings."""
        Request.check(self, can)
        bounds.check_name("queue", self.queue)
        if self.type is not None:
            bounds.check_name("type", self.type)
        if can.lost:
            can.require_for(self.settings, SETTINGS_NEEDS)
        if self.type is not None:
            self._refuse_settings_of_a_queue(self.type)
        if self.only is not None:
            self._check_only(self.only)

    def _refuse_settings_of_a_queue(self, type_: str) -> None:
        settings, got = self.settings, f"the type {type_}"
        if settings.on_exhausted is OnExhausted.HALT or settings.has_gap_settings:
            raise InvalidInput("on_exhausted and gaps", wanted="settings of a queue", got=got)
        if settings.has_key_limits:
            raise InvalidInput("key_max_inflight and key_rate", wanted="limits of a queue", got=got)

    @staticmethod
    def _check_only(only: Collection[str]) -> None:
        check_list("only", only)
        unknown = sorted(set(only) - set(SETTINGS_FIELDS))
        if unknown:
            raise InvalidInput("only", wanted=f"some of {', '.join(SETTINGS_FIELDS)}", got=", ".join(unknown))
        for rate, burst in (("rate", "burst"), ("key_rate", "key_burst")):
            if (rate in only) != (burst in only):  # a burst without its rate is no setting
                raise InvalidInput("only", wanted=f"{rate} and {burst} together", got=", ".join(sorted(only)))


class Settings(Request[QueueSettings], frozen=True, kw_only=True):
    """The settings of a queue, or of one type in it; the defaults if none were configured."""

    needs: ClassVar[tuple[Feature, ...]] = OF_LIMITS
    queue: str
    type: str | None = None

    def check(self, can: Capabilities) -> None:
        """Check the names."""
        Request.check(self, can)
        bounds.check_name("queue", self.queue)
        if self.type is not None:
            bounds.check_name("type", self.type)


class Domains(Paged[Page[DomainInfo]], frozen=True, kw_only=True):
    """A page of the domains that have an open job or are halted, ordered by queue and name.

    ``status`` and ``name`` leave the others out; the name is exact. If both ``queue`` and ``name`` are given, a domain
    is listed also if it has only offsets that have ended, or a start that was moved.

    One call reads a bounded number of rows (``FIND_LIMIT``), as ``Find`` does: only a cursor of None says that no more
    domains match.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_DOMAINS
    queue: str | None = None
    status: DomainStatus | None = None
    name: str | None = None
    limit: int = 100
    after: str | None = None

    def check(self, can: Capabilities) -> None:
        """Check the conditions and the page."""
        Paged.check(self, can)
        if self.queue is not None:
            bounds.check_name("queue", self.queue)
        if self.status is not None and not isinstance(self.status, DomainStatus):
            raise InvalidInput("status", wanted=f"one of {', '.join(DomainStatus)}", got=self.status)
        bounds.check_optional_text("name", self.name)
        if self.after is not None:
            read_domain_cursor(self.after)

    @property
    def start(self) -> tuple[str, str] | None:
        """The queue and the name of the last domain before the page."""
        return None if self.after is None else read_domain_cursor(self.after)


class Resume(Request[bool], frozen=True, kw_only=True):
    """Let a halted domain go on, as ``action`` says. Whether this call changed the domain.

    With ``position``, the domain waits for no offset below it any more: this is the first offset of a domain that does
    not begin at 0, or the end of a gap that nothing will fill. A smaller offset that arrives later runs next.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_DOMAINS
    field_needs: ClassVar[Needs] = {"position": (Feature.OFFSET,)}
    queue: str
    domain: str
    action: ResumeAction = ResumeAction.RESUME
    position: int | None = None

    def check(self, can: Capabilities) -> None:
        """Check how the domain goes on."""
        Request.check(self, can)
        _check_domain(self.queue, self.domain)
        if not isinstance(self.action, ResumeAction):
            raise InvalidInput("action", wanted=f"one of {', '.join(ResumeAction)}", got=self.action)
        bounds.check_optional_integer("position", self.position, most=bounds.MAX_OFFSET)


class ForgetDomain(Request[bool], frozen=True, kw_only=True):
    """Remove what a domain without open jobs remembers: its ended offsets, its start and its halt.

    Its offsets are new again. False if the domain has an open job, or nothing to remove. For queues with ever new
    domains; nothing else removes ended offsets.
    """

    needs: ClassVar[tuple[Feature, ...]] = OF_DOMAINS
    queue: str
    domain: str

    def check(self, can: Capabilities) -> None:
        """Check the name of the domain."""
        Request.check(self, can)
        _check_domain(self.queue, self.domain)


def _check_domain(queue: str, domain: str) -> None:
    bounds.check_name("queue", queue)
    bounds.check_text("domain", domain)
