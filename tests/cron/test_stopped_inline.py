"""A signal during an inline run stops the walk: the schedules after it stay due."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import wait_until

PROGRAM = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from holdfast import Holdfast
from holdfast.cron.runner import CronRunner

app = Holdfast(f"sqlite:///{sys.argv[1]}/jobs.db")

@app.handler("slow")
def slow(_payload):
    Path(sys.argv[1], "started").touch()
    while not Path(sys.argv[1], "release").exists():
        time.sleep(0.01)

app.cron("first").every_minute().run(slow, None)
app.cron("second").every_minute().depends_on("first").run(slow, None)
for fired in CronRunner(app).run(now=datetime(2026, 5, 4, 6, tzinfo=UTC)):
    print(fired.schedule, fired.status)
print("due", app.schedules.get("second").next_fire.isoformat())
"""


def test_a_signal_stops_the_walk_after_the_running_job(tmp_path):
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE
    )
    try:
        wait_until(Path(tmp_path, "started").exists)
        os.kill(program.pid, signal.SIGTERM)
        Path(tmp_path, "release").touch()
        output, errors = program.communicate(timeout=60)
    finally:
        program.kill()
    assert program.returncode == 0, errors
    assert output.splitlines() == ["first done", "due 2026-05-04T06:00:00+00:00"]
