"""The option --all of the test suite."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ARGUMENTS = ("-q", "--collect-only", "-p", "no:cacheprovider", "tests/simulation/test_simulation.py")


def collect(*options: str) -> str:
    command = [sys.executable, "-m", "pytest", *ARGUMENTS, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("processes", ["0", "1"])
def test_long_tests_are_left_out_and_counted(processes):
    assert re.search(r"^\d+ long tests left out; --all runs them too$", collect("-n", processes), re.MULTILINE)


def test_all_is_a_superset():
    short, whole = (
        {line for line in collect("-n", "0", *options).splitlines() if "::" in line} for options in ((), ("--all",))
    )
    assert short < whole
