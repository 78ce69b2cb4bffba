"""The arguments of each verb as a message. The names of the fields are those of the contract."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from holdfast.drivers.contract import (
    REAP_LIMIT,
    Change,
    DomainStatus,
    JobFilter,
    QueueSettings,
    ResumeAction,
)
from holdfast.drivers.remote.rows import JobsMessage, read_jobs
from holdfast.model import bounds
from holdfast.model.isolation import Isolation
from holdfast.model.job import State
from holdfast.model.lease import Lease, Note
from holdfast.model.settlement import Settlement

_NOT_OF_THE_VERB = frozenset({"space", "call_id"})


class Arguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The arguments of a verb without any.

    ``space`` is another space than that of the token. With a ``call_id``, a repeated call gets the first answer.
    """

    space: str | None = None
    call_id: Annotated[str, msgspec.Meta(max_length=64)] | None = None

    def for_call(self) -> dict[str, Any]:
        """Return the arguments by name, as the verb takes them."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in _NOT_OF_THE_VERB}


class Timed(Arguments, kw_only=True):
    """The arguments of a verb that takes ``now``."""

    now: int | None = None


# Driver -----------------------------------------------------------------------------------------------------


class EnqueueArguments(Timed, kw_only=True):
    """The arguments of ``Driver.enqueue``."""

    jobs: JobsMessage
    writes: list[Change] = []
    replace_dead_before: int | None = None

    def for_call(self) -> dict[str, Any]:
        """Return the arguments by name."""
        return {**super().for_call(), "jobs": read_jobs(self.jobs)}


class EnqueueLeasedArguments(Timed, kw_only=True):
    """The arguments of ``LeasedEnqueue.enqueue_leased``."""

    jobs: JobsMessage
    lease_for: int
    worker: str = ""

    def for_call(self) -> dict[str, Any]:
        """Return the arguments by name."""
        return {**super().for_call(), "jobs": read_jobs(self.jobs)}


class ReserveArguments(Timed, kw_only=True):
    """The arguments of ``Driver.reserve``."""

    queues: list[str]
    limit: int
    lease_for: int
    worker: str = ""
    types: list[str] | None = None
    max_bytes: int | None = None
    isolation: Isolation = Isolation.SHARE
    prefetch: bool = False


class ExtendArguments(Timed, kw_only=True):
    """The arguments of ``Driver.extend``."""

    leases: list[Lease]
    lease_for: int
    notes: dict[str, Note] | None = None


class SettleArguments(Timed, kw_only=True):
    """The arguments of ``Driver.settle``."""

    settlements: list[Settlement]


class ReapArguments(Timed, kw_only=True):
    """The arguments of ``Driver.reap``."""

    queues: list[str] | None = None
    worker: str | None = None
    limit: int = REAP_LIMIT


class LeasesArguments(Timed, kw_only=True):
    """The arguments of ``Driver.report_outage``."""

    leases: list[Lease]


class WaitArguments(Arguments, kw_only=True):
    """The arguments of ``Driver.wait``.

    ``fruitless`` waits of this caller ended early, and its reserves found nothing since.
    """

    queues: list[str]
    timeout: float
    fruitless: int = 0


class WaitForCancelArguments(Arguments, kw_only=True):
    """The arguments of ``CancelWait.wait_for_cancel``."""

    job_ids: list[str]
    timeout: float


# Admin ------------------------------------------------------------------------------------------------------


class JobArguments(Arguments, kw_only=True):
    """One job."""

    job_id: str


class JobsArguments(Arguments, kw_only=True):
    """Several jobs."""

    job_ids: list[str]


class InspectArguments(JobsArguments, kw_only=True):
    """The arguments of ``Admin.inspect``."""

    payloads: bool = True


class TimedJobsArguments(Timed, kw_only=True):
    """Several jobs, of a verb that takes ``now``."""

    job_ids: list[str]


class FindArguments(Arguments, kw_only=True):
    """The arguments of ``Admin.find``."""

    where: JobFilter | None = None
    limit: int = 100
    after: str | None = None
    newest: bool = False


class AnyOpenArguments(Arguments, kw_only=True):
    """The arguments of ``Admin.any_open``."""

    queues: list[str]
    types: list[str]


class CountsArguments(Timed, kw_only=True):
    """The arguments of ``Admin.counts``."""

    queues: list[str] | None = None
    states: list[State] | None = None


class ConfigureArguments(Arguments, kw_only=True):
    """The arguments of ``Admin.configure``."""

    queue: str
    settings: QueueSettings
    type: str | None = None
    only: list[str] | None = None


class SettingsArguments(Arguments, kw_only=True):
    """The arguments of ``Admin.settings``."""

    queue: str
    type: str | None = None


class DomainsArguments(Timed, kw_only=True):
    """The arguments of ``Admin.domains``."""

    queue: str | None = None
    status: DomainStatus | None = None
    name: str | None = None
    limit: int = 100
    after: str | None = None


class ResumeArguments(Timed, kw_only=True):
    """The arguments of ``Admin.resume``."""

    queue: str
    domain: str
    action: ResumeAction = ResumeAction.RESUME
    position: int | None = None


class ForgetDomainArguments(Arguments, kw_only=True):
    """The arguments of ``Admin.forget_domain``."""

    queue: str
    domain: str


class LedgerArguments(Arguments, kw_only=True):
    """The arguments of ``Admin.ledger`` and ``LedgerScan.ledger_tuples``."""

    after: str | None = None
    limit: int = 1000


class LedgerTailArguments(Arguments, kw_only=True):
    """The arguments of ``Admin.ledger_tail``."""

    before: str | None = None
    limit: int = 1000


class LedgerMarksArguments(Arguments, kw_only=True):
    """The arguments of ``LedgerScan.ledger_marks``."""

    after: str | None
    every: int
    most: int


class TrimArguments(Timed, kw_only=True):
    """The arguments of ``Admin.trim``."""

    ended_for: int | None = None
    ledger_for: int | None = None
    limit: int = bounds.MAX_BATCH_ITEMS


class CountExpiredArguments(Timed, kw_only=True):
    """The arguments of ``Diagnosis.count_expired_leases``."""

    expired_for: int = 0


class SpacesArguments(Timed, kw_only=True):
    """The arguments of ``SpaceAdmin.spaces``."""

    after: str = ""
    limit: int = 100
    has_expired_leases: bool = False


class RemoveSpaceArguments(Timed, kw_only=True):
    """The arguments of ``SpaceAdmin.remove_space``."""

    name: str
    force: bool = False
    limit: int = bounds.MAX_BATCH_ITEMS


# Registry ---------------------------------------------------------------------------------------------------


class ReadArguments(Timed, kw_only=True):
    """The arguments of ``Registry.read``."""

    kind: str
    keys: list[str]


class WriteArguments(Timed, kw_only=True):
    """The arguments of ``Registry.write``."""

    changes: list[Change]


class ScanArguments(Timed, kw_only=True):
    """The arguments of ``Registry.scan``."""

    kind: str
    prefix: str = ""
    after: str = ""
    limit: int = 100
