"""The kernel's limits of a child process."""

import subprocess
import sys

PROGRAM = """
import resource
from holdfast import Limits
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 256))
Limits(files={files}).apply()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def limits_after(files: int) -> str:
    command = [sys.executable, "-c", PROGRAM.format(files=files)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_limit_above_the_hard_limit_of_the_system_is_that_of_the_system():
    assert limits_after(1000) == "(256, 256)"


def test_a_limit_below_the_hard_limit_is_set():
    assert limits_after(64) == "(64, 256)"
