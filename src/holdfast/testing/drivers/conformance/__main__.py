"""``python -m holdfast.testing.drivers.conformance URL``: any store that ``connect`` opens sits the exam."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence

from holdfast.testing.drivers.conformance import cases
from holdfast.testing.drivers.conformance.case import LAWS, Case
from holdfast.testing.drivers.conformance.runner import Outcome, Verdict, examine, line
from holdfast.testing.drivers.harness import UrlHarness


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; 0 if no case failed, 1 otherwise, 2 if there was nothing to run."""
    asked = _parser().parse_args(arguments)
    chosen = [case for case in cases() if _wanted(case, asked.law, asked.k)]
    if not chosen:
        sys.stderr.write("no case fits what was asked for\n")
        return 2
    harness = UrlHarness(asked.url)
    verdicts: list[Verdict] = []
    try:
        for verdict in examine(harness, chosen):
            verdicts.append(verdict)
            if not asked.json:
                sys.stdout.write(line(verdict) + "\n")
    finally:
        harness.close()
    counted = Counter(verdict.outcome for verdict in verdicts)
    if asked.json:
        sys.stdout.write(json.dumps([_plain(verdict) for verdict in verdicts], indent=2) + "\n")
    else:
        seconds = sum(verdict.seconds for verdict in verdicts)
        summary = ", ".join(f"{counted[outcome]} {outcome.name.lower()}" for outcome in Outcome)
        sys.stdout.write(f"\n{len(verdicts)} cases in {seconds:.1f} s: {summary}\n")
    return 1 if counted[Outcome.FAILED] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.testing.drivers.conformance",
        description="Examine a store by the laws of the contract. It writes to spaces of its own, named conform-...",
    )
    parser.add_argument("url", help="a store, for example memory:// or sqlite:///jobs.db")
    parser.add_argument("--law", action="append", choices=list(LAWS), help="only cases of this law; repeatable")
    parser.add_argument("-k", metavar="TEXT", default="", help="only cases whose file or sentence has this text")
    parser.add_argument("--json", action="store_true", help="verdicts as JSON")
    return parser


def _wanted(case: Case, laws: Sequence[str] | None, text: str) -> bool:
    spoken = f"{case.verb}: {case.name}"
    return (not laws or bool(set(laws) & set(case.laws))) and (text in spoken or text in spoken.replace(" ", "_"))


def _plain(verdict: Verdict) -> dict[str, object]:
    return {
        "laws": list(verdict.case.laws),
        "verb": verdict.case.verb,
        "case": verdict.case.name,
        "outcome": verdict.outcome.name.lower(),
        "reason": verdict.reason,
        "ms": round(verdict.seconds * 1000, 3),
    }


if __name__ == "__main__":  # child processes of the process cases import this module again
    sys.exit(main())
