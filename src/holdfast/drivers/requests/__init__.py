"""The requests of the contract, by topic: what each verb promises, takes and answers.

- Instants and durations are integer microseconds.
- Every request carries a batch. One request is one transaction and one round trip. Only ``Settle`` may be several.
- ``Store.do`` raises ``InvalidInput`` for a value outside of its bounds, ``Unsupported`` for what the store does not
  offer and ``CallerClockRefused`` for a ``now`` that is not allowed, before anything changes; ``StoreClosed`` after
  ``close``; and another ``StoreError`` if the store cannot do its work.

docs/reference/guarantees.md has the laws L1 to L15. ``holdfast.testing.drivers.conformance`` checks an engine against
them.
"""

from collections.abc import Mapping

from holdfast.drivers.capabilities import Needs
from holdfast.drivers.requests.core import (
    JOB_NEEDS,
    REAP_LIMIT,
    SETTLEMENT_NEEDS,
    Enqueue,
    Extend,
    Inspect,
    LeaseTerms,
    Reap,
    Reserve,
    Settle,
    Wait,
    WaitForCancel,
)
from holdfast.drivers.requests.jobs import (
    FIND_BYTES,
    FIND_LIMIT,
    AnyOpen,
    Cancel,
    Counts,
    Diagnose,
    Find,
    Purge,
    ReadColumns,
    Requeue,
    Trim,
)
from holdfast.drivers.requests.ledger import Ledger, LedgerEnd, LedgerMarks, LedgerTail, ReadTuples
from holdfast.drivers.requests.queues import SETTINGS_NEEDS, Configure, Domains, ForgetDomain, Resume, Settings
from holdfast.drivers.requests.registry import Read, Scan, Write
from holdfast.drivers.requests.request import Request, distinct
from holdfast.drivers.requests.spaces import RemoveSpace, Spaces
from holdfast.model.job import JobRecord
from holdfast.model.queue_settings import QueueSettings

FIELD_NEEDS: Mapping[type, Needs] = {
    JobRecord: JOB_NEEDS,
    **SETTLEMENT_NEEDS,
    QueueSettings: SETTINGS_NEEDS,
    **{request: request.field_needs for request in (Enqueue, Reserve, Extend, Resume)},
}
"""By the type of a request, or of a value in one: the fields that an engine may lack, with what they need (L14)."""

__all__ = [
    "FIND_BYTES",
    "FIND_LIMIT",
    "REAP_LIMIT",
    "AnyOpen",
    "Cancel",
    "Configure",
    "Counts",
    "Diagnose",
    "Domains",
    "Enqueue",
    "Extend",
    "Find",
    "ForgetDomain",
    "Inspect",
    "LeaseTerms",
    "Ledger",
    "LedgerEnd",
    "LedgerMarks",
    "LedgerTail",
    "Purge",
    "Read",
    "ReadColumns",
    "ReadTuples",
    "Reap",
    "RemoveSpace",
    "Request",
    "Requeue",
    "Reserve",
    "Resume",
    "Scan",
    "Settings",
    "Settle",
    "Spaces",
    "Trim",
    "Wait",
    "WaitForCancel",
    "Write",
    "distinct",
]
