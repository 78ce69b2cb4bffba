"""The public API for authors of drivers, and for programs that call a store directly.

A driver is an ``Engine``: a method for each of the ``requests``. ``Store`` stands in front of it. The store
checks requests, and refuses what the engine does not offer. An engine takes decisions from the pure functions below, so
that every driver decides the same way. ``holdfast.testing.drivers`` checks a driver against the contract.

Instants and durations are integer microseconds. ``Retry`` here is the settlement; ``holdfast.Retry`` is what a handler
raises or returns.
"""

from holdfast.clock import DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND, Clock, ManualClock, SystemClock
from holdfast.drivers import requests
from holdfast.drivers.answers import (
    Diagnosis,
    Inspection,
    JobColumns,
    LedgerDelay,
    LedgerTuples,
    Page,
    QueueCounts,
    Reaped,
    Reserved,
    SpaceRemoval,
    Stored,
    TableHealth,
    Trimmed,
)
from holdfast.drivers.capabilities import FACTS, FIELDS, GROUPS, Capabilities, Durability, Feature
from holdfast.drivers.engine import Engine
from holdfast.drivers.settle_one import ack, fail, release, retry
from holdfast.drivers.store import Store
from holdfast.drivers.url_options import read_options
from holdfast.ledger_reader import LedgerReader, find_webhooks
from holdfast.model.columns import JOB_COLUMNS, LEDGER_COLUMNS, Column, Kind
from holdfast.model.domain import DomainInfo, DomainStatus, ResumeAction
from holdfast.model.filters import JobFilter
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, State
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued, Lease, Note, Reservation, is_expired, make_tokens, token_bytes
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.ledger_reader import Reader, forget_reader, parse_reader, register_reader
from holdfast.model.order import Capacity, Lane, Limit, pick
from holdfast.model.queue_settings import Bucket, Gaps, LimitOrigin, OnExhausted, QueueSettings
from holdfast.model.registry import Change, Entry
from holdfast.model.retention import Retention, store_retention
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.model.transition import (
    HeldJob,
    Transition,
    after_expiry,
    after_settlement,
    expiry_verb,
    has_counted_crash,
    is_repeat,
    refusal,
)
from holdfast.wire.envelope import from_envelope, to_envelope
from holdfast.wire.identity import identity_bytes

__all__ = [
    "DAY",
    "FACTS",
    "FIELDS",
    "GROUPS",
    "HOUR",
    "JOB_COLUMNS",
    "LEDGER_COLUMNS",
    "MICROSECOND",
    "MILLISECOND",
    "MINUTE",
    "SECOND",
    "Ack",
    "Bucket",
    "Capabilities",
    "Capacity",
    "Change",
    "Clock",
    "Column",
    "Diagnosis",
    "DomainInfo",
    "DomainStatus",
    "Durability",
    "Ending",
    "Engine",
    "Enqueued",
    "Entry",
    "Fail",
    "Feature",
    "Gaps",
    "HeldJob",
    "Inspection",
    "Isolation",
    "JobBatch",
    "JobColumns",
    "JobFilter",
    "JobRecord",
    "Kind",
    "Lane",
    "Lease",
    "LedgerDelay",
    "LedgerReader",
    "LedgerRow",
    "LedgerTuples",
    "Limit",
    "LimitOrigin",
    "ManualClock",
    "Note",
    "OnExhausted",
    "Page",
    "QueueCounts",
    "QueueSettings",
    "Reader",
    "Reaped",
    "Release",
    "Reservation",
    "Reserved",
    "ResumeAction",
    "Retention",
    "Retry",
    "Settlement",
    "SpaceRemoval",
    "State",
    "Store",
    "Stored",
    "SystemClock",
    "TableHealth",
    "Transition",
    "Trimmed",
    "ack",
    "after_expiry",
    "after_settlement",
    "expiry_verb",
    "fail",
    "find_webhooks",
    "forget_reader",
    "from_envelope",
    "has_counted_crash",
    "identity_bytes",
    "is_expired",
    "is_repeat",
    "make_tokens",
    "parse_reader",
    "pick",
    "read_options",
    "refusal",
    "register_reader",
    "release",
    "requests",
    "retry",
    "store_retention",
    "to_envelope",
    "token_bytes",
]
