"""Run cases outside pytest, and format the results as a table."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from holdfast.clock import monotonic
from holdfast.testing.drivers.conformance.case import Case
from holdfast.testing.drivers.harness import CaseSkipped, Harness


class CaseStatus(StrEnum):
    """How a case ended."""

    PASSED = "pass"
    FAILED = "FAIL"
    SKIPPED = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """How one case ended; ``reason`` says why it was skipped or why it failed."""

    case: Case
    status: CaseStatus
    reason: str = ""
    seconds: float = 0.0


def run_cases(harness: Harness, cases: Iterable[Case]) -> Iterator[CaseResult]:
    """Run the cases one after the other; a failed case does not stop the others."""
    for case in cases:
        started = monotonic()
        status, reason = _run(case, harness)
        yield CaseResult(case=case, status=status, reason=reason, seconds=monotonic() - started)


def _run(case: Case, harness: Harness) -> tuple[CaseStatus, str]:
    try:
        case.run(harness)
    except CaseSkipped as skipped:
        return CaseStatus.SKIPPED, str(skipped)
    except AssertionError as failure:
        return CaseStatus.FAILED, str(failure) or traceback.format_exc(limit=-1)
    except Exception as failure:  # noqa: BLE001 - any error that a driver raises fails the case
        return CaseStatus.FAILED, f"{failure!r}\n{traceback.format_exc(limit=-3)}"
    return CaseStatus.PASSED, ""


def format_result(result: CaseResult) -> str:
    """Return one row of the table: laws, status, time and case. The reason of a failure follows on its own lines."""
    laws = ",".join(result.case.laws)
    row = f"{laws:<10} {result.status:<5} {result.seconds * 1000:8.1f} ms  {result.case.topic}: {result.case.name}"
    if not result.reason:
        return row
    if result.status is CaseStatus.SKIPPED:
        return f"{row}  ({result.reason})"
    return row + "".join(f"\n{'':12}{line}" for line in result.reason.splitlines())
