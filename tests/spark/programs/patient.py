"""An application whose jobs wait for a file, so that a test decides when a job ends."""

import os
import time
from pathlib import Path

from holdfast.app import Holdfast

MAX_WAIT_SECONDS = 600

app = Holdfast(os.environ.get("HOLDFAST_URL", "memory://"))


def wait_for(path):
    """Return when a file exists."""
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while not Path(path).exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@app.handler("wait", queue="waiting")
def wait(path):
    wait_for(path)
