"""Rolling restarts of examples/service under load: every accepted order is charged once and confirmed."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psycopg
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast.driver import Ending, State, Store
from holdfast.drivers.requests import Counts
from holdfast.testing.servers.postgres import PostgresServer
from tests.soak.ledger_checks import read_ledger
from tests.soak.worker_group import wait_until

SERVICE_FOLDER = Path(__file__).resolve().parents[2] / "examples" / "service"
ITEMS = ("teapot", "cup", "spoon")
CLIENTS = 4
START_SECONDS = 60.0
STOP_SECONDS = 60.0
ORDER_SECONDS = 60.0  # for one order to be accepted, with all repetitions
UVICORN_ADDRESS = re.compile(r"Uvicorn running on (http://[\d.:]+)")
METRICS_ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/metrics")


class Program:
    """One process of the service, in its own process group, with its output in a file."""

    def __init__(
        self, argv: list[str], output: Path, environment: dict[str, str], *, folder: Path = SERVICE_FOLDER
    ) -> None:
        self._path = output
        with output.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *argv],
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=os.environ | environment,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._path.read_text()

    def find_address(self, pattern: re.Pattern[str]) -> str:
        """Wait until the process has printed an address; it listens on a port of its own choice."""
        found: list[str] = []

        def has_printed() -> bool:
            assert self.process.poll() is None, self.output
            found[:] = pattern.findall(self.output)
            return bool(found)

        wait_until(has_printed, timeout=START_SECONDS, otherwise=lambda: f"no address: {self.output}")
        return found[0]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no exit within {STOP_SECONDS} s: {self.output}") from None

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Deployment:
    """The processes of the shop: web services and workers, started and replaced one at a time."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._environment = {"HOLDFAST_URL": url, "ORDERS_PAYMENT_SECONDS": "3600"}
        self._started: list[Program] = []
        self.services: list[tuple[Program, str]] = []  # with their addresses
        self.workers: list[tuple[Program, str]] = []
        self.exit_codes: Counter[tuple[str, int]] = Counter()

    def start(self, *argv: str) -> Program:
        output = self._folder / f"output.{len(self._started)}"
        self._started.append(Program([*argv], output, self._environment))
        return self._started[-1]

    def run(self, *argv: str) -> None:
        """Run a program to its end."""
        program = self.start(*argv)
        assert program.process.wait(START_SECONDS) == 0, program.output

    def start_sandbox(self) -> None:
        sandbox = self.start("uvicorn", "orders.sandbox:api", "--port", "0")
        self._environment["ORDERS_PAYMENTS_URL"] = sandbox.find_address(UVICORN_ADDRESS)

    def start_pair(self) -> tuple[Program, Program]:
        """Start a service and a worker; ``await_pair`` waits for them."""
        service = self.start("uvicorn", "orders.web:api", "--port", "0", "--timeout-graceful-shutdown", "20")
        worker = self.start("holdfast", "work", "orders.jobs:app", "--processes", "1", "--metrics", "127.0.0.1:0")
        return service, worker

    def await_pair(self, service: Program, worker: Program) -> None:
        """Add the service and the worker when both are ready."""
        self.services.append((service, await_ready(service, UVICORN_ADDRESS)))
        self.workers.append((worker, await_ready(worker, METRICS_ADDRESS)))

    def stop_oldest(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop the oldest service, to which clients still send orders, then the oldest worker."""
        for kind, programs in (("service", self.services), ("worker", self.workers)):
            program, _ = programs[0]
            self.exit_codes[kind, program.stop(number)] += 1
            programs.pop(0)

    def close(self) -> None:
        for program in self._started:
            program.close()


def await_ready(program: Program, pattern: re.Pattern[str]) -> str:
    """Wait until the process says that it is ready, and return its address."""
    address = program.find_address(pattern)

    def is_ready() -> bool:
        assert program.process.poll() is None, program.output
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{address}/readyz", timeout=10).status_code == 200
        return False

    wait_until(is_ready, timeout=START_SECONDS, otherwise=lambda: f"not ready: {program.output}")
    return address


class Load:
    """Clients that send orders. A refused or broken request is repeated with the same id until it is accepted."""

    def __init__(self, addresses: Callable[[], list[str]]) -> None:
        self._addresses = addresses
        self._waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()  # numbers of orders; None ends a client
        self._released = 0
        self.accepted: dict[str, tuple[str, int]] = {}  # the item and the quantity of each order
        self.repeated = 0
        self._failures: list[BaseException] = []
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._send_all) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def release(self, orders: int) -> None:
        """Let the clients send more orders, and wait until a quarter of them is accepted: the others are under way."""
        for _ in range(orders):
            self._waiting.put(self._released)
            self._released += 1
        self._wait_for(self._released - orders + orders // 4)

    def finish(self) -> None:
        """Wait until every order is accepted."""
        self._wait_for(self._released)

    def close(self) -> None:
        """End the clients after the order that each of them sends."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _wait_for(self, count: int) -> None:
        with self._changed:
            in_time = self._changed.wait_for(
                lambda: self._failures or len(self.accepted) >= count, timeout=ORDER_SECONDS + count / 5
            )
        if self._failures:
            raise self._failures[0]
        assert in_time, f"{len(self.accepted)} of {count} orders were accepted"

    def _send_all(self) -> None:
        try:
            with httpx.Client(timeout=30) as client:
                while (number := self._waiting.get()) is not None:
                    self._send(client, number)
        except BaseException as failure:
            with self._changed:
                self._failures.append(failure)
                self._changed.notify_all()

    def _send(self, client: httpx.Client, number: int) -> None:
        order = {
            "id": str(uuid.uuid4()),
            "item": ITEMS[number % len(ITEMS)],
            "quantity": 1 + number % 3,
            "email": f"{number}@example.org",
        }
        deadline = time.monotonic() + ORDER_SECONDS
        for attempt in itertools.count(number):
            addresses = self._addresses()
            with contextlib.suppress(httpx.TransportError):
                answer = client.post(f"{addresses[attempt % len(addresses)]}/orders", json=order)
                if answer.is_success:
                    break
                assert answer.status_code >= 500, answer.text
            assert time.monotonic() < deadline, f"order {number} was not accepted"
            with self._changed:
                self.repeated += 1
            time.sleep(0.05)
        with self._changed:
            self.accepted[str(order["id"])] = str(order["item"]), 1 + number % 3
            self._changed.notify_all()


def run_service_restarts(folder: Path, url: str, *, orders: int, restarts: int, kills: int = 0) -> str:
    """Replace every service and every worker ``restarts`` times while orders arrive, then check all rows and jobs.

    After that, ``kills`` times one service and one worker are killed and replaced.
    """
    with contextlib.ExitStack() as stack:
        deployment = stack.enter_context(contextlib.closing(Deployment(folder, url)))
        deployment.run("holdfast", "schema", "install")
        deployment.run("orders.tables")
        deployment.start_sandbox()
        for pair in [deployment.start_pair() for _ in range(2)]:
            deployment.await_pair(*pair)
        load = Load(lambda: [address for _, address in list(deployment.services)])
        stack.callback(load.close)
        steps = [signal.SIGTERM] * 2 * restarts + [signal.SIGKILL] * kills
        for step in steps:
            deployment.await_pair(*deployment.start_pair())
            load.release(orders // len(steps))
            deployment.stop_oldest(step)
        load.finish()
        with holdfast.connect(url) as store:
            wait_until(lambda: _count_due(store) == 0, timeout=120, otherwise=lambda: f"{store.counts()}")
            check_metrics(deployment)
            while deployment.services:
                deployment.stop_oldest()
            stopped = 2 * restarts + 2
            assert deployment.exit_codes == Counter(
                {
                    ("service", -signal.SIGTERM): stopped,  # uvicorn ends, then repeats the signal for its parent
                    ("worker", 0): stopped,
                    ("service", -signal.SIGKILL): kills,
                    ("worker", -signal.SIGKILL): kills,
                }
            )
            check_orders(url, load.accepted)
            check_jobs(store, load.accepted)
    return (
        f"{len(load.accepted):,} orders while 2 services and 2 workers were replaced {restarts} times each, "
        f"and {kills} killed: {load.repeated} requests repeated, every order charged once and confirmed"
    )


def run_service_soak(folder: Path, scale: float) -> str:
    """The same with its own server, many orders and many restarts."""
    with PostgresServer() as server:
        url = server.create_database("orders")
        restarts = max(1, int(10 * scale))
        return run_service_restarts(folder, url, orders=int(5000 * scale), restarts=restarts, kills=restarts)


def _count_due(store: Store) -> int:
    return sum(count.ready + count.inflight for count in store.do(Counts(states=(State.READY, State.INFLIGHT))))


def check_metrics(deployment: Deployment) -> None:
    """Wait until workers and services show their metrics, in the format of Prometheus."""
    for programs, wanted in (
        (deployment.workers, {"holdfast_jobs_settled", "holdfast_oldest_ready_age_seconds"}),
        (deployment.services, {"holdfast_jobs_enqueued"}),
    ):
        wait_until(
            lambda programs=programs, wanted=wanted: wanted <= _read_metrics(programs),  # type: ignore[misc]
            timeout=60,
            otherwise=lambda wanted=wanted: f"not all of {wanted}",  # type: ignore[misc]
        )


def _read_metrics(programs: list[tuple[Program, str]]) -> set[str]:
    names = set()
    for _, address in programs:
        answer = httpx.get(f"{address}/metrics", timeout=30).raise_for_status()
        names |= {family.name for family in text_string_to_metric_families(answer.text)}
    return names


def check_orders(url: str, accepted: dict[str, tuple[str, int]]) -> None:
    """Check that every accepted order has one row and one payment, and that there are no others."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT id, item, quantity, status FROM orders").fetchall()
        assert {row[0]: row[1:3] for row in rows} == accepted
        assert {row[3] for row in rows} == {"confirmed"}
        payments = connection.execute("SELECT order_id, receipt_id FROM payments").fetchall()
        assert len(payments) == len(accepted)
        assert set(payments) == {(order, f"ch_{order}") for order in accepted}
        sold: Counter[str] = Counter()
        for item, quantity in accepted.values():
            sold[item] += quantity
        assert dict(connection.execute("SELECT item, quantity FROM sold").fetchall()) == sold


def check_jobs(store: Store, accepted: dict[str, tuple[str, int]]) -> None:
    """Check that every order has its three jobs, that the due ones ended with one ack, and that none is dead."""
    states = Counter((job.type, job.state) for job in _find_all(store))
    count = len(accepted)
    counted = states.pop(("stock.count", State.DONE))
    assert counted >= len(ITEMS)
    assert states == {
        ("order.charge", State.DONE): count,
        ("order.confirm", State.DONE): count,
        ("order.cancel_unpaid", State.READY): count,  # scheduled in an hour
    }
    acked = Counter(row.job_id for row in read_ledger(store) if row.ending is Ending.ACKED)
    assert len(acked) == 2 * count + counted
    assert set(acked.values()) == {1}


def _find_all(store: Store) -> Iterator[holdfast.driver.JobRecord]:
    page = store.find(limit=1000)
    yield from page.items
    while page.cursor is not None:
        page = store.find(limit=1000, after=page.cursor)
        yield from page.items
