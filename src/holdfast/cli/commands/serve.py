"""``holdfast serve``: the HTTP service."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import click

from holdfast.cli.command import Command
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.observability.endpoint import parse_address
from holdfast.observability.log_output import configure_logging
from holdfast.settings import LogFormat, LogLevel
from holdfast.settings.serve import DEFAULT_BIND, AuthMode
from holdfast.worker.interpreter import gc_frozen

if TYPE_CHECKING:
    from holdfast.observability.prometheus import PrometheusMetrics

LOCK_SECONDS = 8  # less than a call to the store may take: the client learns that nothing was changed
EXTRA_PACKAGES = {"starlette", "uvicorn", "jwt", "httptools", "cryptography"}


@click.command(cls=Command)
@click.option("--bind", "serve_bind", metavar="HOST:PORT", help=f"Where to listen; by default {DEFAULT_BIND}.")
@click.option("--auth", "serve_auth", metavar="MODES", help=f"Who checks tokens: {', '.join(AuthMode)}.")
@click.option("--log", type=click.Choice([*map(str, LogFormat)]), help="Format of the log on stderr; by default text.")
@click.option("--log-level", type=click.Choice([*map(str, LogLevel)]), help="Lowest level of the log; by default info.")
@pass_session
def serve(session: Session, /, **options: str | None) -> None:
    """Answer HTTP requests of producers and workers in any language.

    Without --auth, the service needs no token and listens on loopback only. SIGTERM or SIGINT stops it: requests under
    way are answered first.
    """
    session.use_options(**options)
    settings = session.settings
    address = parse_address(settings.serve.bind)
    try:
        from holdfast.service.http import server  # noqa: PLC0415 - needs an extra
        from holdfast.service.service import Service  # noqa: PLC0415 - the same
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA_PACKAGES:
            raise
        message = f"the service needs the package {error.name}: pip install 'holdfast[serve]'"
        raise CommandFailed(ExitCode.USAGE, message) from error
    configure_logging(settings)
    service = Service(
        session.store(create=True, url=with_lock_wait(session.url)),
        settings,
        space=session.space,
        prometheus=_prometheus(),
    )
    http = server.HttpServer(service, address)

    def on_listening() -> None:
        if settings.log is not LogFormat.JSON:
            note = " (no tokens: for this machine only)" if service.authenticator.is_open else ""
            session.output.print_line(f"{http.url}: answers{note}; {http.url}/openapi.json describes the calls")
        log_event(events.HTTP_STARTED, url=http.url, auth=", ".join(settings.serve.auth))

    with gc_frozen():  # else Python scans all modules again and again: 20 to 40 ms in which no request is answered
        http.run(on_listening)
    if service.calls_are_left:
        log_event(events.HTTP_UNANSWERED)
    log_event(events.HTTP_STOPPED)
    if service.calls_are_left:  # their threads would keep the process alive until the store answers
        logging.shutdown()
        os._exit(ExitCode.OK)


def with_lock_wait(url: str) -> str:
    """Return the URL of a store: that of SQLite waits less long than for others for a lock of another process."""
    if not url.startswith("sqlite:") or "busy_for=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}busy_for={LOCK_SECONDS}"


def _prometheus() -> PrometheusMetrics | None:
    """Return a collector; None if prometheus-client is not installed."""
    try:
        from holdfast.observability.prometheus import PrometheusMetrics  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError:
        return None
    return PrometheusMetrics()
