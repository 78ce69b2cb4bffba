"""A process is killed and awaited, with a process descriptor and without one."""

import os
import signal
import subprocess
import sys

import pytest

from holdfast.worker.processes.process_handle import ProcessHandle, open_process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a worker needs fork and signals")


@pytest.fixture(params=["descriptor", "id"])
def handle(request):
    """A process that ends only if it is killed."""
    process = subprocess.Popen(["sleep", "600"])
    made = ProcessHandle(process.pid, open_process(process.pid) if request.param == "descriptor" else None)
    yield made
    made.close()
    process.kill()
    process.wait()


def test_a_process_is_alive_until_it_is_killed(handle):
    assert not handle.wait(0)
    handle.kill()
    assert handle.wait(30)
    handle.kill()  # a second time: nothing happens


def test_a_stopped_process_is_killed(handle):
    os.kill(handle.pid, signal.SIGSTOP)
    handle.kill()
    assert handle.wait(30)
