"""A case: one promise, named as a sentence, with the laws it proves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.drivers.contract import Capabilities, Feature
from holdfast.testing.drivers.harness import Harness, Skipped

LAWS = {
    "L1": "the store's clock judges leases",
    "L2": "expired means now >= expires_at, to the microsecond",
    "L3": "reserve reaps, picks, leases and counts in one transaction",
    "L4": "one unguessable token per reservation, fences only grow",
    "L5": "in flight, token equal, not expired: in this order, or nothing changes",
    "L6": "the exact same settlement again answers as the first time",
    "L7": "attempts count at reserve; exhaustion and poison make dead letters",
    "L8": "release refunds the attempt, within a budget",
    "L9": "nothing is ever dropped",
    "L10": "priority desc, available_at, seq",
    "L11": "one job of a domain at a time, in order",
    "L12": "one job per queue and idempotency key",
    "L13": "every ending has one ledger row, read without gaps",
    "L14": "what a driver cannot keep it declines",
    "L15": "durability is declared",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One promise of the contract. ``function`` returns, or raises what was wrong."""

    name: str  # the sentence
    verb: str  # the file it stands in
    laws: tuple[str, ...]
    needs: frozenset[Feature]
    function: Callable[[Harness], None]

    def gap(self, capabilities: Capabilities) -> str | None:
        """Why the driver need not sit this case, in its own words; None if it must."""
        reasons = [capabilities.gaps[feature] for feature in sorted(self.needs) if feature in capabilities.gaps]
        return reasons[0] if reasons else None

    def run(self, harness: Harness) -> None:
        """Sit the case in a fresh space. Raises ``Skipped`` on a declared gap, ``AssertionError`` on a broken law."""
        reason = self.gap(harness.capabilities)
        if reason is not None:
            raise Skipped(reason)
        with harness.fresh():
            self.function(harness)


def case(*laws: str, needs: Iterable[Feature] = ()) -> Callable[[Callable[[Harness], None]], Case]:
    """Make a case of a function whose name is its sentence."""
    unknown = [law for law in laws if law not in LAWS]
    assert laws, "a case cites at least one law"
    assert not unknown, f"wanted laws L1 to L15, got {unknown}"

    def made(function: Callable[[Harness], None]) -> Case:
        return Case(
            name=function.__name__.replace("_", " "),
            verb=function.__module__.rpartition(".")[2],
            laws=laws,
            needs=frozenset(needs),
            function=function,
        )

    return made
