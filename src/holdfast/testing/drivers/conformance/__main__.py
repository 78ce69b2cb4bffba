"""``python -m holdfast.testing.drivers.conformance URL``: run the suite on any store that ``connect`` opens."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence

from holdfast.testing.drivers.conformance import cases
from holdfast.testing.drivers.conformance.case import LAWS, Case
from holdfast.testing.drivers.conformance.runner import CaseResult, CaseStatus, format_result, run_cases
from holdfast.testing.drivers.harness import UrlHarness


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; return 0 if no case failed, 1 if one failed, 2 if no case was selected."""
    options = _parser().parse_args(arguments)
    selected = [case for case in cases() if _is_selected(case, options.law, options.k)]
    if not selected:
        sys.stderr.write("no case fits the options --law and -k\n")
        return 2
    harness = UrlHarness(options.url)
    results: list[CaseResult] = []
    try:
        for result in run_cases(harness, selected):
            results.append(result)
            if not options.json:
                sys.stdout.write(format_result(result) + "\n")
    finally:
        harness.close()
    counts = Counter(result.status for result in results)
    if options.json:
        sys.stdout.write(json.dumps([_as_json(result) for result in results], indent=2) + "\n")
    else:
        seconds = sum(result.seconds for result in results)
        summary = ", ".join(f"{counts[status]} {status.name.lower()}" for status in CaseStatus)
        sys.stdout.write(f"\n{len(results)} cases in {seconds:.1f} s: {summary}\n")
    return 1 if counts[CaseStatus.FAILED] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.testing.drivers.conformance",
        description="Check a store against the laws of the contract. Writes only to new spaces, named conform-...",
    )
    parser.add_argument("url", help="a store, for example memory:// or sqlite:///jobs.db")
    parser.add_argument("--law", action="append", choices=list(LAWS), help="only cases of this law; repeatable")
    parser.add_argument("-k", metavar="TEXT", default="", help="only cases whose topic or sentence contains this text")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser


def _is_selected(case: Case, laws: Sequence[str] | None, text: str) -> bool:
    title = f"{case.topic}: {case.name}"
    return (not laws or bool(set(laws) & set(case.laws))) and (text in title or text in title.replace(" ", "_"))


def _as_json(result: CaseResult) -> dict[str, object]:
    return {
        "laws": list(result.case.laws),
        "topic": result.case.topic,
        "case": result.case.name,
        "status": result.status.name.lower(),
        "reason": result.reason,
        "ms": round(result.seconds * 1000, 3),
    }


if __name__ == "__main__":  # child processes of the process cases import this module again
    sys.exit(main())
