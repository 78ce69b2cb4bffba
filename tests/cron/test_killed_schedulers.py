"""Real processes, real stores, real kills: each fire happens once. ``run soak schedulers`` does it in large numbers."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed_schedulers.py")


def run_killed_schedulers(url: str, *, kills: int, seed: int, seconds: int) -> str:
    """Return the summary of the program; fail with its output."""
    command = [sys.executable, str(PROGRAM), url, str(kills), str(seed), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("driver", ["sqlite", "postgres"])
def test_killed_schedulers_fire_each_fire_once(driver, tmp_path, request):
    url = f"sqlite:///{tmp_path}/jobs.db" if driver == "sqlite" else request.getfixturevalue("postgres_database")()
    assert run_killed_schedulers(url, kills=5, seed=1, seconds=20) == "30 fires, each once"
