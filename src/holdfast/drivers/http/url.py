"""Reading ``https://host:port/path?...``: where the service is, and how the driver calls it."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass, field
from urllib.parse import SplitResult

from holdfast.drivers.url_options import read_options
from holdfast.errors import ConnectError, InvalidInput

DEFAULT_PATIENCE_SECONDS = 15.0
DEFAULT_TIMEOUT_SECONDS = 30.0
MAX_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAddress:
    """The content of a URL; every default is the safe one."""

    host: str
    port: int
    path: str  # of the service on its host; empty without a prefix
    tls: ssl.SSLContext | None = field(repr=False)  # None: without TLS
    timeout: float = DEFAULT_TIMEOUT_SECONDS  # seconds that the service may be silent before it counts as lost
    patience: float = DEFAULT_PATIENCE_SECONDS  # seconds that a call may wait for a service that is not there, or busy
    token_file: str | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether the service is on this machine."""
        return _is_loopback(self.host)

    @property
    def shown(self) -> str:
        """The service, for people."""
        scheme = "http" if self.tls is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}{self.path}"


def read_address(url: SplitResult) -> ServiceAddress:
    """Return the address of a service. Raises ``ConnectError`` or ``InvalidInput``; neither repeats a secret."""
    if "@" in url.netloc:
        raise ConnectError("wanted a URL without a user or a token: set HOLDFAST_TOKEN or ?token_file=FILE instead")
    try:
        host, port = url.hostname, url.port
    except ValueError:
        host = port = None
    if not host or url.fragment:
        raise ConnectError("wanted a URL such as https://queue.example.com, with a host and without a fragment")
    options = read_options(
        url,
        {
            "timeout": _read_seconds,
            "patience": _read_seconds,
            "ca": str,
            "token_file": str,
            "allow_plaintext": _read_boolean,
        },
    )
    is_tls = url.scheme == "https"
    if not is_tls and not (options.get("allow_plaintext") or _is_loopback(host)):
        raise ConnectError(
            f"wanted https:// for {host}: the token and every payload would be readable on the network; "
            "with ?allow_plaintext=true they are sent anyway"
        )
    ca = options.get("ca")
    if ca is not None and not is_tls:
        raise InvalidInput("ca", wanted="https://, whose certificates it checks", got=f"{url.scheme}://")
    return ServiceAddress(
        host=host,
        port=port or (443 if is_tls else 80),
        path=url.path.rstrip("/"),
        tls=_open_tls(None if ca is None else str(ca)) if is_tls else None,
        **{name: options[name] for name in ("timeout", "patience", "token_file") if name in options},  # type: ignore[arg-type]
    )


def _open_tls(ca: str | None) -> ssl.SSLContext:
    """Return a context that checks the certificate and the name of the host; ``ca`` is a file of certificates."""
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput("ca", wanted="a file of certificates in PEM", got=f"{ca}: {error}") from error


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_seconds(value: str) -> float:
    seconds = float(value)
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError("out of bounds")
    return seconds


def _read_boolean(value: str) -> bool:
    if value not in {"true", "false"}:
        raise ValueError("not a boolean")
    return value == "true"
