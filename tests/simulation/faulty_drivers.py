"""The faulty drivers that the simulation must catch, most of them also the state machine."""

from holdfast.testing.drivers.faulty.attempts import ReleaseCountsAttempt, RetriesWithoutLimit
from holdfast.testing.drivers.faulty.domains import DomainsIgnored, TurnNeverPassed
from holdfast.testing.drivers.faulty.enqueue import KeyForgottenAtEnding
from holdfast.testing.drivers.faulty.extend import ExtendNotStored
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

# The state machine needs many seconds to find these.
CAUGHT_BY_THE_SIMULATION = (
    *CAUGHT_BY_RANDOM_CALLS,
    HolderGetsIsolated,
    IsolatedSharesAnswer,
    NotBegunIsDead,
    OutageNeverTakesBack,
)
