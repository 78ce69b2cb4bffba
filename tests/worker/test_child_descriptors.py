"""A child process has its own connections and the standard streams, and no descriptor of the worker or of the store."""

import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

from holdfast import JobRequest
from holdfast.driver import Ending

PROGRAM = """
    import os, sys
    from holdfast.app import Holdfast

    app, other = Holdfast(sys.argv[1]), Holdfast(sys.argv[1])

    @app.handler("descriptors")
    def descriptors(payload):
        found = {}
        for number in map(int, os.listdir("/proc/self/fd")):
            try:
                found[number] = os.readlink(f"/proc/self/fd/{number}")
            except FileNotFoundError:
                pass  # of the listing itself
        if payload == "last":
            app.client.enqueue(descriptors.request("nested"))
        return sorted(target for number, target in found.items() if number > 2)

    for opened in (app, other):  # these open a connection that writes, one that reads, and one that watches
        opened.client.enqueue(descriptors.request())
        opened.driver.counts()
        opened.driver.wait(["default"], timeout=0.01)
    first, second = (app.worker(processes=2, until_drained=True, recycle_after=1) for _ in range(2))
    first.prepare()
    second.prepare()
    second.run()
    first.run()
    kept = open(sys.argv[2])  # of the program: it may be one that handlers need
    app.client.enqueue(descriptors.request("kept"))
    app.worker(processes=1, until_drained=True).run()
"""


def test_a_handler_sees_no_descriptor_of_the_worker_or_of_the_store(app, tmp_path):
    kept = tmp_path / "kept"
    kept.touch()
    answers = app.client.enqueue([JobRequest(type="descriptors", payload=n) for n in [*range(8), "last"]])
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), app.url, str(kept)]
    subprocess.run(program, check=True, timeout=60)
    jobs = [row.job_id for row in app.driver.ledger(limit=100) if row.ending is Ending.ACKED]
    assert len(jobs) == len(answers) + 4
    results = [app.client.result(job_id) for job_id in jobs]
    assert sum(str(kept) in found for found in results) == 1  # what the program itself opened stays open
    for found in results:
        own = [target.partition(":")[0] for target in found if target != str(kept)]
        assert own == ["pipe", "pipe", "socket", "socket"], found


WRITING_PROGRAM = """
    import contextlib, os, sys
    from datetime import timedelta
    from holdfast.app import Holdfast
    from holdfast.model.retry import Fixed

    app = Holdfast(sys.argv[1])
    app.handler("fine")(lambda payload: None)

    @app.handler("hostile")
    def hostile(payload):
        for number in range(3, 256):
            with contextlib.suppress(OSError):
                os.write(number, b"\\xff" * 512)

    app.driver.counts()
    app.worker(processes=2, until_drained=True, retry=Fixed(timedelta(milliseconds=1))).run()
"""


def test_a_handler_that_writes_to_every_descriptor_harms_only_itself(app):
    app.client.enqueue([JobRequest(type="fine") for _ in range(100)])
    hostile = app.client.enqueue(JobRequest(type="hostile"))
    app.client.enqueue([JobRequest(type="fine") for _ in range(100)])
    subprocess.run([sys.executable, "-c", textwrap.dedent(WRITING_PROGRAM), app.url], check=True, timeout=60)
    assert app.client.get(hostile.id).dead_reason == "poison"
    assert {count.type: count.done for count in app.driver.counts()} == {"fine": 200, "hostile": 0}
    with closing(sqlite3.connect(app.url.removeprefix("sqlite:///"))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
