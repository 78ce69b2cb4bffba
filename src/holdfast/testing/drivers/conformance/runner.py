"""Running cases outside pytest: one verdict each, and the table that shows them."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from holdfast.clock import monotonic
from holdfast.testing.drivers.conformance.case import Case
from holdfast.testing.drivers.harness import Harness, Skipped


class Outcome(StrEnum):
    """How a case went."""

    PASSED = "pass"
    FAILED = "FAIL"
    SKIPPED = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A case and how it went; ``reason`` says why it was skipped or what was wrong."""

    case: Case
    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0


def examine(harness: Harness, cases: Iterable[Case]) -> Iterator[Verdict]:
    """Sit the cases one after the other; a failed one does not stop the rest."""
    for case in cases:
        began = monotonic()
        outcome, reason = _sit(case, harness)
        yield Verdict(case=case, outcome=outcome, reason=reason, seconds=monotonic() - began)


def _sit(case: Case, harness: Harness) -> tuple[Outcome, str]:
    try:
        case.run(harness)
    except Skipped as skipped:
        return Outcome.SKIPPED, str(skipped)
    except AssertionError as wrong:
        return Outcome.FAILED, str(wrong) or traceback.format_exc(limit=-1)
    except Exception as wrong:  # noqa: BLE001 - whatever a driver raises is a verdict on it
        return Outcome.FAILED, f"{wrong!r}\n{traceback.format_exc(limit=-3)}"
    return Outcome.PASSED, ""


def line(verdict: Verdict) -> str:
    """One row of the table: laws, outcome, time, case; what was wrong stands below it."""
    laws = ",".join(verdict.case.laws)
    head = f"{laws:<10} {verdict.outcome:<5} {verdict.seconds * 1000:8.1f} ms  {verdict.case.verb}: {verdict.case.name}"
    if not verdict.reason:
        return head
    if verdict.outcome is Outcome.SKIPPED:
        return f"{head}  ({verdict.reason})"
    return head + "".join(f"\n{'':12}{text}" for text in verdict.reason.splitlines())
