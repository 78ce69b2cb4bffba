"""Cancelling a running job: the request reaches the worker long before its next heartbeat."""

import subprocess
import sys
import textwrap
import time
from datetime import timedelta

import pytest

from holdfast.app import Holdfast

LEASE = timedelta(seconds=60)  # a heartbeat every 20 seconds
MAX_SECONDS = 15  # on a busy machine; from the cancel to the end of the worker

CANCELLER = """
    import sys, time
    from pathlib import Path
    from holdfast import connect
    from holdfast.drivers.requests import Cancel

    url, folder, job_id = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    with connect(url) as store:
        deadline = time.monotonic() + 30
        while not (folder / "begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert store.do(Cancel(job_ids=[job_id])) == ["inflight"]
        (folder / "cancelled").write_text(str(time.monotonic()))
"""


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_cancel_by_another_process_does_not_wait_for_the_next_heartbeat(store, request, tmp_path):
    """All child processes are busy, so the worker waits for no job meanwhile."""
    url = f"sqlite:///{tmp_path}/jobs.db" if store == "sqlite" else request.getfixturevalue("postgres_database")()
    app = Holdfast(url)

    @app.handler("long")
    def long(_payload, ctx):
        (tmp_path / "begun").touch()
        try:
            time.sleep(60)
        finally:
            (tmp_path / "stopped").write_text(ctx.stop_reason)

    answer = long.enqueue()
    canceller = subprocess.Popen([sys.executable, "-c", textwrap.dedent(CANCELLER), url, str(tmp_path), answer.id])
    try:
        assert app.worker(processes=1, lease=LEASE).run(max_jobs=1) == {"cancelled": 1}
        seconds = time.monotonic() - float((tmp_path / "cancelled").read_text())
        assert (tmp_path / "stopped").read_text() == "cancel"
        assert app.client.get(answer.id).state == "cancelled"
        assert canceller.wait(30) == 0
    finally:
        canceller.kill()
        canceller.wait()
        app.close()
    print(f"{seconds:.3f} s from the cancel to the end of the worker")
    assert seconds < MAX_SECONDS
