"""The HTTP engine: it sends each request to a service, and returns the answer."""

from __future__ import annotations

from typing import TypeVar, cast
from urllib.parse import SplitResult

import msgspec

from holdfast.clock import Clock, monotonic
from holdfast.drivers import requests as r
from holdfast.drivers.answers import Stored, to_columns
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.engine import Door
from holdfast.drivers.http.description import DriverDescription
from holdfast.drivers.http.protocol import MAX_WAIT_SECONDS
from holdfast.drivers.http.service_calls import ServiceCalls
from holdfast.drivers.http.token import TokenSource
from holdfast.drivers.http.url import read_address
from holdfast.drivers.store import Store
from holdfast.errors import ConnectError, InvalidInput
from holdfast.model import bounds

A = TypeVar("A")

DEFAULT_SPACE = "main"
STOPPING_SECONDS = 0.2  # an answer before this is that of a service that stops


class HttpEngine(Door):
    """One space of the store behind a service."""

    def __init__(
        self, service: ServiceCalls, description: DriverDescription, *, space: str, caller_clock: bool = False
    ) -> None:
        self._service = service
        self._description = description
        self._asked_space = None if space == description.space else space
        self.space_name = space
        self.can = description.capabilities(is_loopback=service.connections.address.is_loopback)
        self.caller_clock = caller_clock and self.can.has(Feature.CALLER_CLOCK)
        self.has_serial_arrivals = description.has_serial_arrivals
        self.has_numbered_ledger = description.has_numbered_ledger

    def execute(self, request: r.Request[A]) -> A:
        """Send a request. What the service would answer without its store is answered here."""
        self._service.connections.check_open()
        answer: object
        if isinstance(request, r.Enqueue) and not request.jobs:
            answer = Stored([])
        elif isinstance(request, r.ReadColumns):
            page = self._send(r.Find(where=request.where, limit=request.limit, after=request.after))
            answer = to_columns(page, request.names)
        elif isinstance(request, r.Wait):
            self._wait(request)
            answer = None
        elif isinstance(request, r.WaitForCancel):
            answer = self._wait_for_cancel(request)
        else:
            return self._send(request)
        return cast("A", answer)

    def open_space(self, name: str) -> HttpEngine:
        """Return another space of the same store, on the same connections. It needs the role admin."""
        return HttpEngine(self._service, self._description, space=name, caller_clock=self.caller_clock)

    def close(self) -> None:
        """Close the connections, also those of the spaces."""
        self._service.connections.close()

    def _send(self, request: r.Request[A], *, waits: float = 0.0) -> A:
        return self._service.call(request, space=self._asked_space, waits=waits)

    def _wait(self, request: r.Wait) -> None:
        """Ask for one part of the time after the other. A part that ends early says that a job may be due."""
        deadline = monotonic() + request.timeout
        while (left := deadline - monotonic()) > 0:
            part, began = min(left, MAX_WAIT_SECONDS), monotonic()
            self._send(msgspec.structs.replace(request, timeout=part), waits=part)
            if monotonic() - began < part:
                return

    def _wait_for_cancel(self, request: r.WaitForCancel) -> bool:
        """Ask for one part of the time after the other.

        A service that is about to stop answers at once: a pause keeps the next call from being sent at once, too.
        """
        deadline = monotonic() + request.timeout
        while True:
            began = monotonic()
            part = max(0.0, min(deadline - began, MAX_WAIT_SECONDS))
            if self._send(msgspec.structs.replace(request, timeout=part), waits=part):
                return True
            if monotonic() >= deadline:
                return False
            if monotonic() - began < STOPPING_SECONDS:
                self._service.connections.pause(STOPPING_SECONDS)


def open_url(url: SplitResult, *, space: str, caller_clock: bool, clock: Clock | None) -> Store:
    """Open the space of the token. An operator, with the role admin, may name another one.

    Raises ``ConnectError`` if there is no service, if it refuses the token, or if the token is not for the space.
    """
    if clock is not None:
        raise InvalidInput("clock", wanted="none: the service has the clock of its store", got="a clock")
    bounds.check_name("space", space)
    address = read_address(url)
    service = ServiceCalls(address, TokenSource(address.token_file))
    try:
        description = service.describe()
        name = _choose_space(description, space)
        return Store(HttpEngine(service, description, space=name, caller_clock=caller_clock))
    except BaseException:
        service.connections.close()
        raise


def _choose_space(description: DriverDescription, wanted: str) -> str:
    """Return the space to open. Without the role admin it is that of the token; ``main`` is what nobody has chosen."""
    if description.all_spaces:
        return wanted
    if wanted not in {description.space, DEFAULT_SPACE}:
        token = f"the space of the token, {description.space}"
        raise ConnectError(f"wanted {token}, got {wanted}: other spaces need the role admin")
    return description.space
