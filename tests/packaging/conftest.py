"""The wheel of this project in a virtual environment with nothing else, and the packages of its extras beside it.

Nothing is downloaded. The packages of an extra are those that its requirements name, and theirs in turn, as installed
in the environment of the tests; links make them visible to the virtual environment, one folder per extra.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from zipfile import Path as ZipPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 240


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def metadata(wheel) -> Distribution:
    """The metadata in the wheel."""
    [folder] = [entry for entry in ZipPath(wheel).iterdir() if entry.name.endswith(".dist-info")]
    return PathDistribution(folder)


class Environment:
    """A virtual environment with the wheel, whose commands see the packages of some extras."""

    def __init__(self, folder: Path, metadata: Distribution) -> None:
        self._folder = folder
        self._metadata = metadata

    def run(self, *command: str, extras: tuple[str, ...] = (), cwd: Path, code: int | None = 0) -> Result:
        """Run a program of the environment, such as ``python`` or ``holdfast``."""
        program = self._folder / "bin" / command[0]
        paths = [self._links(extra) for extra in ("", *extras)]
        environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": os.pathsep.join(map(str, paths))}
        done = subprocess.run(
            [program, *command[1:]],
            env=environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert code in {None, done.returncode}, (done.returncode, done.stdout, done.stderr)
        return Result(done.returncode, done.stdout, done.stderr)

    def python(self, code: str, *, extras: tuple[str, ...] = (), cwd: Path) -> Result:
        """Run some lines of Python."""
        return self.run("python", "-W", "error", "-c", code, extras=extras, cwd=cwd)

    def _links(self, extra: str) -> Path:
        """A folder with the packages that an extra requires; without an extra, those that Holdfast itself requires."""
        folder = self._folder / "packages" / (extra or "none")
        if not folder.exists():
            folder.mkdir(parents=True)
            for one in required_distributions(self._metadata, extra):
                link_files(one, folder)
        return folder


def required_distributions(metadata: Distribution, extra: str) -> list[Distribution]:
    """The installed distributions that the extra requires, directly or through others."""
    found: dict[str, Distribution] = {}
    todo = [(metadata, extra)]
    seen: set[tuple[str, str]] = set()
    while todo:
        one, extra_of_one = todo.pop()
        for name, wanted_extra in _requirements(one, extra_of_one, only_extra=bool(extra) and one is metadata):
            if (name, wanted_extra) not in seen:
                seen.add((name, wanted_extra))
                found[name] = distribution(name)
                todo.append((found[name], wanted_extra))
    return list(found.values())


def _requirements(one: Distribution, extra: str, *, only_extra: bool) -> Iterator[tuple[str, str]]:
    for line in one.requires or ():
        requirement = Requirement(line)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        is_of_extra = requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})
        if applies and (is_of_extra or not only_extra):
            for wanted in {"", *requirement.extras}:
                yield canonicalize_name(requirement.name), wanted


def link_files(one: Distribution, folder: Path) -> None:
    """Link the packages of a distribution; of a package that several distributions share, only its own files."""
    for file in one.files or ():
        top, path = file.parts[0], Path(str(one.locate_file(file)))
        if top in {"..", "__pycache__"} or not path.exists():
            continue
        source = Path(str(one.locate_file(top)))
        is_shared = (
            source.is_dir() and not top.endswith((".dist-info", ".libs")) and not (source / "__init__.py").exists()
        )
        target = folder / (file if is_shared else top)
        if not target.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path if is_shared else source)


@pytest.fixture(scope="session")
def environment(wheel, metadata, tmp_path_factory) -> Environment:
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False, symlinks=True)
    install = ["install", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", str(wheel)]
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), *install]
    subprocess.run(pip, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
    return Environment(folder, metadata)
