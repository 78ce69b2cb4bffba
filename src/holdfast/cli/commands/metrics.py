"""``holdfast metrics``: the metrics of a whole store, from its counts and its ledger."""

from __future__ import annotations

import signal
import threading
import types
from datetime import timedelta

import click

from holdfast.cli.command import Command
from holdfast.cli.metrics_access import ADDRESS, load_prometheus, metrics_route
from holdfast.cli.parameters import DURATION
from holdfast.cli.session import Session, pass_session
from holdfast.clock import monotonic
from holdfast.errors import StoreError
from holdfast.observability import metric_table as table
from holdfast.observability.endpoint import Endpoint, verdict_route
from holdfast.observability.health import Verdict
from holdfast.observability.ledger_metrics import DEFAULT_NAME, LedgerMetrics
from holdfast.observability.metrics import InMemoryMetrics
from holdfast.observability.store_gauges import REST_FACTOR, StoreGauges

LATE_FACTOR = 3  # not ready once the store has not answered for this many intervals


@click.command(cls=Command)
@click.option(
    "--listen",
    "address",
    type=ADDRESS,
    metavar="HOST:PORT",
    help="Serve /metrics, /healthz and /readyz there until stopped; without a host on 127.0.0.1.",
)
@click.option(
    "--interval", type=DURATION, default="15s", show_default=True, help="Time between two reads of the store."
)
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="Under which the store keeps the totals.")
@pass_session
def metrics(session: Session, *, address: tuple[str, int] | None, interval: timedelta, name: str) -> None:
    """Export the metrics of a whole store: of all workers and of Spark.

    Endings, waits and run times come from the ledger, counted from the first start under this name; the store keeps
    the totals, so a restart loses nothing. Without --listen, the metrics are printed once, in the text format of
    Prometheus.
    """
    prometheus = load_prometheus().in_own_registry()
    exporter = _Exporter(session, prometheus, name=name, seconds=interval.total_seconds())
    if address is None:
        exporter.update()
        session.output.print_line(prometheus.exposition()[0].decode().rstrip("\n"))
        return
    routes = {
        "/metrics": metrics_route(prometheus),
        "/healthz": verdict_route(Verdict),
        "/readyz": verdict_route(exporter.judge_ready),
    }
    endpoint = Endpoint(address, routes)
    session.output.print_line(f"{endpoint.url}/metrics")
    endpoint.start()
    try:
        exporter.run()
    finally:
        endpoint.close()


class _Exporter:
    """Reads the store again and again. Counts are read more rarely if they take long."""

    def __init__(self, session: Session, metrics: InMemoryMetrics, *, name: str, seconds: float) -> None:
        store = session.store()
        self._metrics = metrics
        self._gauges = StoreGauges(store, metrics)
        self._ledger = LedgerMetrics(store, metrics, name=name)
        self._seconds = seconds
        self._gauges_due_at = 0.0
        self._answered_at = monotonic()
        self._failure = ""
        self._stop = threading.Event()

    def update(self) -> None:
        """Read the store once. Raises ``StoreError``."""
        began = monotonic()
        if began >= self._gauges_due_at:
            self._gauges.update()
            self._gauges_due_at = began + REST_FACTOR * (monotonic() - began)
        while self._ledger.update() and not self._stop.is_set():
            pass
        self._answered_at, self._failure = monotonic(), ""

    def run(self) -> None:
        """Read the store at the interval, until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        while not self._stop.is_set():
            try:
                self.update()
            except StoreError as error:  # the store may come back
                self._failure = type(error).__name__
                self._metrics.count(table.STORE_FAILURES.name, 1, {"task": "ledger"})
            self._stop.wait(self._seconds)

    def judge_ready(self) -> Verdict:
        """Red if the store has not answered lately."""
        silent = monotonic() - self._answered_at
        if silent > LATE_FACTOR * self._seconds and self._failure:
            return Verdict((f"the store was not read for {silent:.0f} s: {self._failure}",))
        return Verdict()

    def _on_signal(self, _number: int, _frame: types.FrameType | None) -> None:
        self._stop.set()
