"""Presence: every running worker keeps one entry in the registry of its space.

``holdfast worker list`` and ``doctor`` read the entries.

A thread of the worker writes the entry every few seconds, in one call, whether or not there are jobs. A worker that
stops removes its entry. The entry of a killed worker expires.
"""

from __future__ import annotations

import os
import platform
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

import holdfast
from holdfast.clock import SECOND, SystemClock
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Read, Scan, Write
from holdfast.drivers.store import Store
from holdfast.errors import StoreError
from holdfast.log import events
from holdfast.log.records import log_failure
from holdfast.model.registry import Change, Entry
from holdfast.worker.observer import ObservedWorker, WorkerObserver

KIND = "worker.presence"  # of the registry; the key is the name of the worker
MAX_NAMES = 200  # of queues and of types in one entry: a value of the registry has at most 64 KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceTiming:
    """The time constants of the entry of a worker."""

    beat_seconds: float = 5.0
    ttl_seconds: float = 20.0  # four beats: a store that does not answer for some seconds makes no worker disappear
    stop_seconds: float = 2.0  # that a worker waits for the removal of its entry when it ends


class _Value(msgspec.Struct, kw_only=True, frozen=True):
    """The value of an entry, as JSON. A later version may add fields; each field but ``ttl`` has a default."""

    ttl: int  # microseconds: the store's clock at the last beat is the end of the entry minus this
    host: str = ""
    pid: int = 0
    queues: list[str] = []
    omitted_queues: int = 0
    types: list[str] = []
    omitted_types: int = 0
    version: str = ""
    python: str = ""
    started_at: int = 0
    processes: int = 0
    concurrency: int = 0
    held: int = 0
    running: int = 0
    draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPresence:
    """A worker as it was at its last beat.

    Instants are microseconds: ``started_at`` by the clock of its host, ``beat_at`` by the clock of the store.
    ``queues`` and ``types`` have at most ``MAX_NAMES`` names; the fields after them count those that are left out.
    """

    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    omitted_queues: int
    types: tuple[str, ...]
    omitted_types: int
    version: str  # of Holdfast
    python: str
    started_at: int
    beat_at: int
    processes: int
    concurrency: int  # jobs at a time in each process
    held: int
    running: int
    draining: bool

    @property
    def state(self) -> str:
        """``working``, or ``draining`` for a worker that reserves no more jobs and waits for those that run."""
        return "draining" if self.draining else "working"

    def works(self, queue: str) -> bool:
        """Whether the worker reserves from this queue, or may: its entry leaves names out."""
        return queue in self.queues or self.omitted_queues > 0

    def handles(self, type_: str) -> bool:
        """Whether the worker has a handler for this type, or may have one that its entry leaves out."""
        return type_ in self.types or self.omitted_types > 0


def read_presences(store: Store) -> list[WorkerPresence]:
    """Return the workers of a space that run now, ordered by name; none for a store without a registry."""
    if not store.capabilities.has(Feature.REGISTRY):
        return []
    found: list[WorkerPresence] = []
    while page := store.do(Scan(kind=KIND, after=found[-1].name if found else "")):
        found += map(_read, page)
    return found


def read_presence(store: Store, name: str) -> WorkerPresence | None:
    """Return one worker; None if it does not run."""
    if not store.capabilities.has(Feature.REGISTRY):
        return None
    [entry] = store.do(Read(kind=KIND, keys=[name]))
    return None if entry is None else _read(entry)


def _read(entry: Entry) -> WorkerPresence:
    value = msgspec.json.decode(entry.value or b"", type=_Value)
    return WorkerPresence(
        name=entry.key,
        host=value.host,
        pid=value.pid,
        queues=tuple(value.queues),
        omitted_queues=value.omitted_queues,
        types=tuple(value.types),
        omitted_types=value.omitted_types,
        version=value.version,
        python=value.python,
        started_at=value.started_at,
        beat_at=(entry.expires_at or 0) - value.ttl,
        processes=value.processes,
        concurrency=value.concurrency,
        held=value.held,
        running=value.running,
        draining=value.draining,
    )


class PresenceObserver(WorkerObserver):
    """Keeps the entry of one worker, in a thread of its own. A store without a registry gets none."""

    def __init__(self, timing: PresenceTiming = PresenceTiming()) -> None:
        self._timing = timing
        self._worker: ObservedWorker | None = None
        self._started_at = 0
        self._is_draining = False
        self._has_stopped = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def attached(self, worker: ObservedWorker) -> None:
        """Remember the worker, whose presence the thread writes."""
        self._worker = worker

    def started(self, worker: str, queues: Sequence[str]) -> None:
        """Start the thread."""
        del worker, queues
        if self._worker is None or not self._worker.driver.capabilities.has(Feature.REGISTRY):
            return
        self._started_at = SystemClock().now()
        self._is_draining = self._has_stopped = False
        self._thread = threading.Thread(
            target=self._beat_until_stopped, args=(self._worker,), name="holdfast-presence", daemon=True
        )
        self._thread.start()

    def stopping(self) -> None:
        """Write the entry now, as draining."""
        self._is_draining = True
        self._wake.set()

    def stopped(self, worker: str, statuses: Mapping[str, int]) -> None:
        """Remove the entry. If the store does not answer, the thread is left behind and the entry expires."""
        del worker, statuses
        if self._thread is None:
            return
        self._has_stopped = True
        self._wake.set()
        self._thread.join(self._timing.stop_seconds)

    def _beat_until_stopped(self, worker: ObservedWorker) -> None:
        while not self._has_stopped:
            self._wake.clear()
            if not self._has_stopped:
                self._write(worker, self._value(worker), ttl=int(self._timing.ttl_seconds * SECOND))
                self._wake.wait(self._timing.beat_seconds)
        self._write(worker, None)

    def _write(self, worker: ObservedWorker, value: bytes | None, *, ttl: int | None = None) -> None:
        try:
            worker.driver.do(Write(changes=[Change(kind=KIND, key=worker.name, value=value, ttl=ttl)]))
        except StoreError:  # the worker reports an outage itself
            pass
        except Exception as error:  # noqa: BLE001 - a bug here must end no worker
            log_failure(events.PRESENCE_FAILED, error, worker=worker.name)

    def _value(self, worker: ObservedWorker) -> bytes:
        types = sorted(worker.catalogue.types)
        return msgspec.json.encode(
            _Value(
                ttl=int(self._timing.ttl_seconds * SECOND),
                host=socket.gethostname(),
                pid=os.getpid(),
                queues=worker.queues[:MAX_NAMES],
                omitted_queues=max(0, len(worker.queues) - MAX_NAMES),
                types=types[:MAX_NAMES],
                omitted_types=max(0, len(types) - MAX_NAMES),
                version=holdfast.__version__,
                python=platform.python_version(),
                started_at=self._started_at,
                processes=worker.options.processes,
                concurrency=worker.options.concurrency,
                held=worker.held,
                running=worker.running,
                draining=self._is_draining,
            )
        )
