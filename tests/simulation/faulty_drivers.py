"""The faulty drivers that the simulation must catch, most of them also the state machine."""

from tests.drivers.faulty.attempts import ReleaseCountsAttempt, RetriesWithoutLimit
from tests.drivers.faulty.domains import DomainsIgnored, TurnNeverPassed
from tests.drivers.faulty.enqueue import KeyForgottenAtEnding
from tests.drivers.faulty.extend import ExtendNotStored
from tests.drivers.faulty.halts import HaltForgotten, RetryGoesToTheEnd
from tests.drivers.faulty.isolation import (
    HolderGetsIsolated,
    IsolatedSharesAnswer,
    NotBegunIsDead,
    OutageNeverTakesBack,
    PrefetchIgnored,
)
from tests.drivers.faulty.leases import AckIgnoresToken, FencesReused, LeaseExpiresLate
from tests.drivers.faulty.ledger import LedgerOmitsExpiry
from tests.drivers.faulty.limits import LimitsIgnored
from tests.drivers.faulty.offsets import (
    KeepsTheTurnOfALargerOffset,
    OffsetsByArrival,
    SwallowsLateOffsets,
    TakesTheTurnOfARunningJob,
    WatermarkInsteadOfIntervals,
)
from tests.drivers.faulty.operators import CancelRequestNotStored
from tests.drivers.faulty.order import RetriedJobLost
from tests.drivers.faulty.settle import BatchRefusedAfterRefusal, RepeatAcceptsAnyToken

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
