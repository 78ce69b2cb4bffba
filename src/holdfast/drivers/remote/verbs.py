"""The verbs that travel: their arguments, their answers, who may call them, and what a lost answer means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.drivers.contract import (
    DomainInfo,
    Entry,
    Inspection,
    Page,
    QueueCounts,
    QueueSettings,
    Trimmed,
)
from holdfast.drivers.optional import LedgerDelay, SpaceRemoval
from holdfast.drivers.remote import arguments as messages
from holdfast.drivers.remote.arguments import Arguments
from holdfast.drivers.remote.settlements import (
    ExtendAnswer,
    RefusalMessage,
    pack_extended,
    pack_refusals,
    read_extended,
    read_refusals,
)
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.ledger import LedgerRow

PROTOCOL_VERSION = 2  # of all messages; a changed field makes another one
CONTENT_TYPE = f"application/vnd.holdfast.driver.v{PROTOCOL_VERSION}+msgpack"
MAX_CALL_BYTES = 80 << 20  # of the arguments: one payload of the largest size, and the rest of its job
MAX_ANSWER_BYTES = 160 << 20
MAX_RESERVED_BYTES = 64 << 20  # of the payloads of one reserve: more jobs come with the next one
MAX_WAIT_SECONDS = 20.0  # of one request that waits; a longer wait is several requests

_encode = msgspec.msgpack.Encoder().encode


class Group(StrEnum):
    """A path of the service. The groups differ in the token that they need, and in when they are refused."""

    CALLS = "calls"  # producers and workers
    LEASES = "leases"  # extends and ends leases: refused last when the service is busy
    ADMIN = "admin"  # changes by operators only


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb. ``pack`` and ``read`` convert answers that have another form on the wire."""

    name: str
    arguments: type[Arguments]
    answer: Any  # the type of the answer on the wire
    group: Group = Group.CALLS
    is_repeatable: bool = True  # a second call answers as the first one, or changes nothing
    pack: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None
    _argument_decoder: msgspec.msgpack.Decoder[Any] = field(init=False, repr=False, compare=False)
    _answer_decoder: msgspec.msgpack.Decoder[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the decoders, which check the type of every value."""
        object.__setattr__(self, "_argument_decoder", msgspec.msgpack.Decoder(self.arguments))
        object.__setattr__(self, "_answer_decoder", msgspec.msgpack.Decoder(self.answer))

    @property
    def path(self) -> str:
        """The path below that of the driver."""
        return f"/{self.group}/{self.name}"

    def decode_arguments(self, data: bytes) -> Arguments:
        """Return the arguments. Raises ``msgspec.MsgspecError``."""
        arguments: Arguments = self._argument_decoder.decode(data)
        return arguments

    def encode_answer(self, answer: Any) -> bytes:
        """Return the answer of a store as bytes."""
        return _encode(answer if self.pack is None else self.pack(answer))

    def decode_answer(self, data: bytes) -> Any:
        """Return the answer as the store gave it. Raises ``msgspec.MsgspecError``."""
        answer = self._answer_decoder.decode(data)
        return answer if self.read is None else self.read(answer)


def encode_arguments(arguments: Arguments) -> bytes:
    """Return arguments as bytes. Raises ``ValueError`` for text that UTF-8 cannot encode."""
    return _encode(arguments)


_VERBS = (
    # Driver
    Verb(name="enqueue", arguments=messages.EnqueueArguments, answer=list[Enqueued]),
    Verb(
        name="enqueue_leased",
        arguments=messages.EnqueueLeasedArguments,
        answer=tuple[list[Enqueued], list[Reservation]],
    ),
    Verb(name="reserve", arguments=messages.ReserveArguments, answer=list[Reservation]),
    Verb(
        name="extend",
        arguments=messages.ExtendArguments,
        answer=list[ExtendAnswer],
        group=Group.LEASES,
        pack=pack_extended,
        read=read_extended,
    ),
    Verb(
        name="settle",
        arguments=messages.SettleArguments,
        answer=list[RefusalMessage | None],
        group=Group.LEASES,
        pack=pack_refusals,
        read=read_refusals,
    ),
    Verb(name="reap", arguments=messages.ReapArguments, answer=int),
    Verb(
        name="report_outage",
        arguments=messages.LeasesArguments,
        answer=list[bool],
        group=Group.LEASES,
        is_repeatable=False,
    ),
    Verb(name="wait", arguments=messages.WaitArguments, answer=bool),
    Verb(name="wait_for_cancel", arguments=messages.WaitForCancelArguments, answer=bool),
    # Admin
    Verb(name="get", arguments=messages.JobArguments, answer=JobRecord | None),
    Verb(name="inspect", arguments=messages.InspectArguments, answer=dict[str, Inspection]),
    Verb(name="find", arguments=messages.FindArguments, answer=Page[JobRecord]),
    Verb(name="any_open", arguments=messages.AnyOpenArguments, answer=bool),
    Verb(name="counts", arguments=messages.CountsArguments, answer=list[QueueCounts]),
    Verb(name="estimate_counts", arguments=messages.CountsArguments, answer=list[QueueCounts]),
    Verb(name="cancel", arguments=messages.TimedJobsArguments, answer=list[State | None]),
    Verb(
        name="requeue",
        arguments=messages.TimedJobsArguments,
        answer=list[bool],
        group=Group.ADMIN,
        is_repeatable=False,
    ),
    Verb(
        name="purge",
        arguments=messages.TimedJobsArguments,
        answer=list[bool],
        group=Group.ADMIN,
        is_repeatable=False,
    ),
    Verb(name="configure", arguments=messages.ConfigureArguments, answer=None),
    Verb(name="settings", arguments=messages.SettingsArguments, answer=QueueSettings),
    Verb(name="domains", arguments=messages.DomainsArguments, answer=Page[DomainInfo]),
    Verb(
        name="resume",
        arguments=messages.ResumeArguments,
        answer=bool,
        group=Group.ADMIN,
        is_repeatable=False,
    ),
    Verb(
        name="forget_domain",
        arguments=messages.ForgetDomainArguments,
        answer=bool,
        group=Group.ADMIN,
        is_repeatable=False,
    ),
    Verb(name="ledger", arguments=messages.LedgerArguments, answer=Page[LedgerRow]),
    Verb(name="ledger_end", arguments=Arguments, answer=str),
    Verb(name="ledger_tail", arguments=messages.LedgerTailArguments, answer=Page[LedgerRow]),
    Verb(name="ledger_tuples", arguments=messages.LedgerArguments, answer=tuple[list[list[Any]], str]),
    Verb(name="ledger_marks", arguments=messages.LedgerMarksArguments, answer=list[tuple[str, int]]),
    Verb(name="trimmed_rows", arguments=Arguments, answer=int | None),
    Verb(name="ledger_delay", arguments=Arguments, answer=LedgerDelay | None),
    Verb(name="arrivals", arguments=messages.JobsArguments, answer=dict[str, int]),
    Verb(name="webhooks", arguments=messages.JobsArguments, answer=dict[str, str]),
    Verb(name="trim", arguments=messages.TrimArguments, answer=Trimmed),
    Verb(name="count_expired_leases", arguments=messages.CountExpiredArguments, answer=int),
    Verb(name="table_sizes", arguments=Arguments, answer=dict[str, int]),
    Verb(name="spaces", arguments=messages.SpacesArguments, answer=Page[str]),
    Verb(name="remove_space", arguments=messages.RemoveSpaceArguments, answer=SpaceRemoval, group=Group.ADMIN),
    # Registry
    Verb(name="read", arguments=messages.ReadArguments, answer=list[Entry | None]),
    Verb(name="write", arguments=messages.WriteArguments, answer=list[Entry | None], is_repeatable=False),
    Verb(name="scan", arguments=messages.ScanArguments, answer=list[Entry]),
)

VERBS: dict[str, Verb] = {verb.name: verb for verb in _VERBS}
