"""The requests of the contract, by topic: what each verb promises, takes and answers.

- Instants and durations are integer microseconds.
- Every request carries a batch. One request is one transaction and one round trip. Only ``Settle`` may be several.
- ``Store.do`` raises ``InvalidInput`` for a value outside of its bounds, ``Unsupported`` for what the store does not
  offer and ``CallerClockRefused`` for a ``now`` that is not allowed, before anything changes; ``StoreClosed`` after
  ``close``; and another ``StoreError`` if the store cannot do its work.

docs/reference/guarantees.md has the laws L1 to L15. ``holdfast.testing.drivers.conformance`` checks an engine against
them.
"""

from holdfast.drivers.requests.core import (
    REAP_LIMIT,
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
from holdfast.drivers.requests.queues import Configure, Domains, ForgetDomain, Resume, Settings
from holdfast.drivers.requests.registry import Read, Scan, Write
from holdfast.drivers.requests.request import Request, distinct
from holdfast.drivers.requests.spaces import RemoveSpace, Spaces

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
