"""The test suite: its options --all and --random, and what it takes from the environment."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run_pytest(*arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def collect(*options: str) -> str:
    return run_pytest("--collect-only", "tests/simulation/test_simulation.py", *options)


@pytest.mark.parametrize("processes", ["0", "1"])
def test_long_tests_are_left_out_and_counted(processes):
    assert re.search(r"^\d+ long tests left out; --all runs them too$", collect("-n", processes), re.MULTILINE)


def test_all_is_a_superset():
    short, whole = (
        {line for line in collect("-n", "0", *options).splitlines() if "::" in line} for options in ((), ("--all",))
    )
    assert short < whole


def test_random_order_is_repeated_by_its_seed():
    first, second, other = (collect("-n", "0", f"--random={seed}").splitlines()[:10] for seed in (1, 1, 2))
    assert first == second
    assert set(first) != set(other)


def test_a_new_seed_is_printed_and_the_same_in_all_processes():
    printed = run_pytest("tests/unit/test_throttle.py", "-n", "2", "-v", "--random")
    assert re.search(r"^random order: --random=\d+ repeats it", printed, re.MULTILINE)


def test_settings_of_the_shell_are_no_settings_of_the_tests(monkeypatch):
    monkeypatch.setenv("HOLDFAST_SIGNING", "required")
    assert "passed" in run_pytest("tests/unit/test_task.py", "-n", "0", "-k", "as_the_handler_says")
