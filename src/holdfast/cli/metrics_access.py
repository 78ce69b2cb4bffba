"""Prometheus for the commands that export metrics, or one line that says how to install it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.app import Holdfast
from holdfast.cli.parameters import Address
from holdfast.cli.session import CommandFailed, ExitCode
from holdfast.observability.endpoint import Answer, Endpoint, EndpointObserver, Route, worker_routes
from holdfast.observability.health import Health
from holdfast.observability.metrics_group import MetricsGroup
from holdfast.worker.observer import WorkerObserver

if TYPE_CHECKING:
    from holdfast.observability.prometheus import PrometheusMetrics

ADDRESS = Address()


def load_prometheus() -> type[PrometheusMetrics]:
    """Return the collector for Prometheus, or fail with the command that installs it."""
    try:
        from holdfast.observability.prometheus import PrometheusMetrics  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from error
    return PrometheusMetrics


def metrics_route(metrics: PrometheusMetrics) -> Route:
    """Return the route that a scraper reads."""

    def answer(accept: str) -> Answer:
        return Answer(*metrics.exposition(accept))

    return answer


def worker_endpoint(app: Holdfast, address: tuple[str, int]) -> tuple[Endpoint, list[WorkerObserver]]:
    """Return the endpoint of a worker of this app, which listens already, and the observers that it needs.

    A collector that the app has gets everything, too.
    """
    prometheus_class, own = load_prometheus(), app.metrics
    if isinstance(own, prometheus_class):
        prometheus = own
    else:
        prometheus = prometheus_class()
        app.metrics = prometheus if own is None else MetricsGroup([own, prometheus])
    health = Health()
    endpoint = Endpoint(address, worker_routes(health, metrics_route(prometheus)))
    return endpoint, [health, EndpointObserver(endpoint)]
