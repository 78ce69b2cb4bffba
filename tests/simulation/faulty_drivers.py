"""The faulty drivers that the simulation must catch, most of them also the state machine."""

from holdfast.testing.drivers.faulty.attempts import ReleaseCountsAttempt, RetriesWithoutLimit
from holdfast.testing.drivers.faulty.domains import DomainsIgnored, TurnNeverPassed
from holdfast.testing.drivers.faulty.enqueue import KeyForgottenAtEnding
from holdfast.testing.drivers.faulty.extend import ExtendNotStored
from holdfast.testing.drivers.faulty.halts import HaltForgotten, RetryGoesToTheEnd
from holdfast.testing.drivers.faulty.isolation import (
    HolderGetsIsolated,
    IsolatedSharesAnswer,
    NotBegunIsDead,
    OutageNeverTakesBack,
    PrefetchIgnored,
)
from holdfast.testing.drivers.faulty.leases import AckIgnoresToken, FencesReused, LeaseExpiresLate
from holdfast.testing.drivers.faulty.ledger import LedgerOmitsExpiry
from holdfast.testing.drivers.faulty.limits import LimitsIgnored
from holdfast.testing.drivers.faulty.offsets import (
    KeepsTheTurnOfALargerOffset,
    OffsetsByArrival,
    SwallowsLateOffsets,
    TakesTheTurnOfARunningJob,
    WatermarkInsteadOfIntervals,
)
from holdfast.testing.drivers.faulty.operators import CancelRequestNotStored
from holdfast.testing.drivers.faulty.order import RetriedJobLost
from holdfast.testing.drivers.faulty.settle import BatchRefusedAfterRefusal, RepeatAcceptsAnyToken

CAUGHT_BY_RANDOM_CALLS = (
    AckIgnoresToken,
    BatchRefusedAfterRefusal,
    CancelRequestNotStored,
    DomainsIgnored,
    ExtendNotStored,
    FencesReused,
    KeyForgottenAtEnding,
    LeaseExpiresLate,
    LedgerOmitsExpiry,
    LimitsIgnored,
    PrefetchIgnored,
    ReleaseCountsAttempt,
    RepeatAcceptsAnyToken,
    RetriedJobLost,
    RetriesWithoutLimit,
    TurnNeverPassed,
)

# The state machine needs many seconds to find these, or does not draw offsets and halts.
CAUGHT_BY_THE_SIMULATION = (
    *CAUGHT_BY_RANDOM_CALLS,
    HaltForgotten,
    HolderGetsIsolated,
    IsolatedSharesAnswer,
    KeepsTheTurnOfALargerOffset,
    NotBegunIsDead,
    OffsetsByArrival,
    OutageNeverTakesBack,
    RetryGoesToTheEnd,
    SwallowsLateOffsets,
    TakesTheTurnOfARunningJob,
    WatermarkInsteadOfIntervals,
)
