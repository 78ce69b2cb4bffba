"""A conformance case: one guarantee of the contract, named as a sentence, with the laws that it checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.drivers.capabilities import Capabilities, Feature
from holdfast.testing.drivers.harness import CaseSkipped, Harness

LAWS = {
    "L1": "the store's clock decides about leases",
    "L2": "expired means now >= expires_at, to the microsecond",
    "L3": "reserve reaps, picks, leases and counts in one transaction",
    "L4": "one unguessable token per reservation, fences only grow",
    "L5": "a lease must be in flight, have the same token and not be expired, checked in this order",
    "L6": "repeating the same settlement returns the first answer and changes nothing",
    "L7": "attempts count at reserve; exhaustion and poison make dead letters",
    "L8": "release refunds the attempt, within a budget",
    "L9": "nothing is ever dropped",
    "L10": "jobs are reserved by priority (highest first), available_at, seq",
    "L11": "one job of a domain at a time, in order",
    "L12": "one job per queue and idempotency key",
    "L13": "every ending has one ledger row, read without gaps",
    "L14": "a driver declines what it cannot guarantee",
    "L15": "durability is declared",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One guarantee of the contract. ``function`` returns, or raises an error that says what is wrong."""

    name: str  # the sentence
    topic: str  # the file that contains the case
    laws: tuple[str, ...]
    needs: frozenset[Feature]
    function: Callable[[Harness], None]

    def gap(self, capabilities: Capabilities) -> str | None:
        """Return the driver's reason for not supporting this case, or None if the driver must pass it."""
        reasons = [capabilities.gaps[feature] for feature in sorted(self.needs) if feature in capabilities.gaps]
        return reasons[0] if reasons else None

    def run(self, harness: Harness) -> None:
        """Run the case in an empty space.

        Raises ``CaseSkipped`` for a declared gap and ``AssertionError`` for a broken law.
        """
        reason = self.gap(harness.capabilities)
        if reason is not None:
            raise CaseSkipped(reason)
        with harness.empty_space():
            self.function(harness)


def case(*laws: str, needs: Iterable[Feature] = ()) -> Callable[[Callable[[Harness], None]], Case]:
    """Turn a function into a case. The function's name becomes the sentence."""
    unknown = [law for law in laws if law not in LAWS]
    assert laws, "a case cites at least one law"
    assert not unknown, f"wanted laws L1 to L15, got {unknown}"

    def make_case(function: Callable[[Harness], None]) -> Case:
        return Case(
            name=function.__name__.replace("_", " "),
            topic=function.__module__.rpartition(".")[2],
            laws=laws,
            needs=frozenset(needs),
            function=function,
        )

    return make_case
