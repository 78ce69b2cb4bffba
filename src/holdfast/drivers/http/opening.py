"""Opening a service as a store: the address, the token, and the space that the token is for."""

from __future__ import annotations

from urllib.parse import SplitResult

from holdfast.clock import Clock
from holdfast.drivers.http.driver import HttpDriver
from holdfast.drivers.http.optional import driver_class
from holdfast.drivers.http.service_calls import ServiceCalls
from holdfast.drivers.http.token import TokenSource
from holdfast.drivers.http.url import read_address
from holdfast.drivers.remote.description import DriverDescription
from holdfast.errors import ConnectError, InvalidInput

DEFAULT_SPACE = "main"


def open_url(url: SplitResult, *, space: str, caller_clock: bool, clock: Clock | None) -> HttpDriver:
    """Open the space of the token. An operator, with the role admin, may name another one.

    Raises ``ConnectError`` if there is no service, if it refuses the token, or if the token is not for the space.
    """
    if clock is not None:
        raise InvalidInput("clock", wanted="none: the service has the clock of its store", got="a clock")
    address = read_address(url)
    service = ServiceCalls(address, TokenSource(address.token_file))
    try:
        description = service.describe()
        name = _choose_space(description, space)
        return driver_class(description)(service, description, space=name, caller_clock=caller_clock)
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
