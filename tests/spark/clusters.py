"""What the tests on a cluster share: an environment that executors unpack, and programs that drive Spark.

Spark drivers are processes of their own here, because the process of the tests has a local session already.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

import holdfast

PROGRAMS = Path(__file__).with_name("programs")
PATIENCE = 240  # seconds for what takes twenty on a machine that does nothing else
LEAN = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}


def packed_environment(folder):
    """A Python with Holdfast in it, as an archive. What Holdfast needs is borrowed from the Python of the tests.

    The installation of the tests is an editable one, which a path to its folder does not bring along: so an executor
    has Holdfast from this archive or not at all.
    """
    place = folder / "environment"
    venv.create(place, symlinks=True, with_pip=False)
    [packages] = place.glob("lib/python*/site-packages")
    shutil.copytree(Path(holdfast.__file__).parent, packages / "holdfast")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return shutil.make_archive(str(place), "gztar", place)


def settings(**more):
    """The settings of a small application, as arguments of a command."""
    made = LEAN | more
    return [part for key, value in made.items() for part in ("--conf", f"{key}={value}")]


def environment(**more):
    """Without the settings of the machine; the Python of executors is a setting of each application."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return kept | {"PYTHONWARNINGS": "ignore"} | more


def start(*command, folder, **variables):
    """Python, doing something; its output is kept."""
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process, code=0):
    """What it said, once it has ended as it should."""
    try:
        said, complained = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        said, complained = process.communicate()
    assert process.returncode == code, complained[-6000:]
    return said


def until(what, process):
    """Wait for something to be so, while a process runs; gives what it was."""
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        assert process.poll() is None, process.communicate()[1][-6000:]
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.05)
    return found
