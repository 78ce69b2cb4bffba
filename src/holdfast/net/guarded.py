"""HTTP requests to addresses that users give: everything is denied that is not allowed.

This is the only code of Holdfast that makes such requests. A request goes through these steps, and the first one that
fails ends it before anything is sent:

1. The URL is parsed strictly, and must match an allowed pattern. Method and headers must be allowed.
2. The host is looked up once. Every address of the answer must be allowed: one denied address refuses the request.
3. The connection is made to an address that was checked, without a second lookup. The name of the host is used for
   TLS, whose certificate is verified, and for the ``Host`` header.
4. No redirect is followed and no proxy is used, whatever the environment says. Time and sizes are limited.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from holdfast.clock import monotonic
from holdfast.errors import InvalidInput, RequestFailed, RequestRefused
from holdfast.net.addresses import Network, denial_of
from holdfast.net.urls import Url, UrlPattern, is_allowed, parse_url

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
# Not among them are Host, Connection and the like, which belong to the connection; headers that name another client or
# another URL (X-Forwarded-For, X-Original-URL); and those that open a metadata service.
HEADERS = frozenset(
    {
        "accept",
        "accept-language",
        "authorization",
        "content-type",
        "idempotency-key",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "user-agent",
        "x-api-key",
        "x-request-id",
    }
)
# No option allows these: they would change where the request ends or who answers it.
FORBIDDEN_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
MAX_REQUEST_HEADERS = 50
MAX_HEADER_VALUE_CHARACTERS = 8_192
MAX_OVERHEAD_BYTES = 1 << 20  # of an answer besides its body: status, headers, frames of chunks
MAX_ADDRESSES = 16  # of one host that are tried
READ_BYTES = 16 << 10

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # no CR, no LF, no other control characters

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]  # host and port to addresses; raises ``OSError``


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request. ``url`` is not trusted, and neither is the rest."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer of any status. The names of the headers are in lower case, in the order of the answer."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    truncated: bool = False  # the body is longer: only its beginning was read

    def header(self, name: str) -> str | None:
        """Return the value of the first header of this name; None if there is none."""
        return next((value for each, value in self.headers if each == name.lower()), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is allowed, and how much. Without ``allowed_urls`` nothing is allowed."""

    allowed_urls: tuple[UrlPattern, ...] = ()
    allowed_networks: tuple[Network, ...] = ()  # besides the public ones
    methods: Collection[str] = METHODS
    headers: Collection[str] = HEADERS  # in lower case
    ca_file: str | None = None  # certificates of authorities, instead of those of the system
    connect_timeout: timedelta = timedelta(seconds=10)  # of the lookup, and of each address with its TLS handshake
    read_timeout: timedelta = timedelta(seconds=30)  # for each part of the answer
    total_timeout: timedelta = timedelta(seconds=60)
    max_body_bytes: int = 1 << 20  # of the answer

    def __post_init__(self) -> None:
        """Refuse headers that no rule may allow."""
        if forbidden := {name.lower() for name in self.headers} & FORBIDDEN_HEADERS:
            raise InvalidInput("headers", wanted="no header of the connection itself", got=min(forbidden))


def resolve_with_system(host: str, port: int) -> list[str]:
    """Look a host up as the system does. An IPv4 address in any notation (0x7f.1, 2130706433) becomes the usual one."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [_address_text(*answer[4]) for answer in found]


def _address_text(address: str | int, _port: int | bytes, _flow: int = 0, zone: int = 0) -> str:
    """Return the address of a socket address of IPv4 or IPv6, with its zone if it has one."""
    return f"{address}%{zone}" if zone else str(address)


def send(request: Request, rules: Rules, *, resolve: Resolve = resolve_with_system) -> Response:
    """Send the request and return the answer, also one with an error status.

    Raises ``RequestRefused`` if a rule does not allow the request: then nothing was sent, and a repetition is useless.
    Raises ``RequestFailed`` if there is no whole answer in time: another try may succeed.
    """
    url, headers = _check(request, rules)
    deadline = monotonic() + rules.total_timeout.total_seconds()
    addresses = _checked_addresses(url, rules, resolve, deadline)
    connection = _connect(url, addresses, rules, deadline)
    try:
        return _exchange(connection, url, request, headers, rules)
    except (OSError, ValueError, http.client.HTTPException) as error:  # ValueError: a chunk of a negative size
        raise RequestFailed(url.authority, _describe(error)) from error
    finally:
        connection.end()


def check_ca_file(field: str, path: str | None) -> None:
    """Raise ``InvalidInput`` for a path that is not that of a file with PEM certificates."""
    if path is None:
        return
    try:
        _tls_context(path)
    except OSError as error:  # also of TLS
        raise InvalidInput(field, wanted="a file with PEM certificates", got=f"{path}: {error}") from error


def check_url(text: str, rules: Rules) -> None:
    """Raise ``RequestRefused`` for a URL that no request may go to, without a lookup: ``send`` checks the addresses."""
    url, _ = _check(Request(url=text, method=next(iter(rules.methods))), rules)
    try:
        address = ipaddress.ip_address(url.host)
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(url.host))  # an IPv4 address in another notation
        except OSError:
            return
    if denial := denial_of(address, allowed=rules.allowed_networks):
        raise RequestRefused(f"the address {address} is denied: {denial}")


# Checks before anything is sent -----------------------------------------------------------------------------


def _check(request: Request, rules: Rules) -> tuple[Url, dict[str, str]]:
    try:
        url = parse_url(request.url)
    except InvalidInput as error:
        raise RequestRefused(str(error)) from error
    if not is_allowed(url, rules.allowed_urls):
        raise RequestRefused(f"no pattern of allowed_urls matches {url.scheme}://{url.authority}{url.path}")
    if request.method not in rules.methods:
        raise RequestRefused(f"the method {request.method!r} is not allowed")
    if len(request.headers) > MAX_REQUEST_HEADERS:
        raise RequestRefused(f"more than {MAX_REQUEST_HEADERS} headers")
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        lower = name.lower()
        if not _HEADER_NAME.fullmatch(name) or lower in FORBIDDEN_HEADERS or lower not in rules.headers:
            raise RequestRefused(f"the header {name!r} is not allowed")
        if lower in headers:
            raise RequestRefused(f"the header {name!r} is there twice")
        if len(value) > MAX_HEADER_VALUE_CHARACTERS or not _HEADER_VALUE.fullmatch(value):
            raise RequestRefused(f"the value of the header {name!r} has control characters or is too long")
        headers[lower] = value
    return url, headers


def _checked_addresses(url: Url, rules: Rules, resolve: Resolve, deadline: float) -> list[str]:
    """Return the addresses of the host. One that is denied refuses all: an answer that mixes them is an attack."""
    texts = _look_up(url, resolve, min(rules.connect_timeout.total_seconds(), deadline - monotonic()))
    addresses = list(dict.fromkeys(texts))
    if not addresses:
        raise RequestFailed(url.authority, "the host has no address")
    for text in addresses:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            raise RequestRefused(f"{url.host} has the unreadable address {text!r}") from None
        if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
            raise RequestRefused(f"{url.host} has the address {text}, which has a zone")
        if denial := denial_of(address, allowed=rules.allowed_networks):
            raise RequestRefused(f"{url.host} has the address {text}, which is denied: {denial}")
    return addresses[:MAX_ADDRESSES]


def _look_up(url: Url, resolve: Resolve, seconds: float) -> Sequence[str]:
    """Return the addresses of the host. The lookup of the system has no timeout, so it runs in a thread of its own."""
    answers: list[Sequence[str]] = []
    failures: list[Exception] = []

    def look_up() -> None:
        try:
            answers.append(resolve(url.host, url.port))
        except Exception as error:  # noqa: BLE001 - raised below, in the thread that waits
            failures.append(error)

    thread = threading.Thread(target=look_up, name="holdfast-lookup", daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    if failures:
        raise RequestFailed(url.authority, f"the lookup failed: {_describe(failures[0])}") from failures[0]
    if not answers:
        raise RequestFailed(url.authority, f"the lookup took longer than {seconds:.0f} s")
    return answers[0]


# The connection ---------------------------------------------------------------------------------------------


class _Connection:
    """A connected socket for ``http.client``. Every read ends at the deadline, and all reads together are limited."""

    def __init__(self, connected: socket.socket, *, read_seconds: float, deadline: float, max_bytes: int) -> None:
        self._socket = connected
        self._read_seconds = read_seconds
        self._deadline = deadline
        self._left_bytes = max_bytes

    def _remaining_seconds(self) -> float:
        remaining = self._deadline - monotonic()
        if remaining <= 0:
            raise TimeoutError("the whole request took too long")
        return remaining

    def sendall(self, data: bytes) -> None:
        self._socket.settimeout(self._remaining_seconds())
        self._socket.sendall(data)

    def receive(self, buffer: WriteableBuffer) -> int:
        self._socket.settimeout(min(self._read_seconds, self._remaining_seconds()))
        received = self._socket.recv_into(buffer)
        self._left_bytes -= received
        if self._left_bytes < 0:
            raise OSError("the answer is too large")
        return received

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self), READ_BYTES)

    def close(self) -> None:
        """Do nothing: ``http.client`` closes its socket before it reads the body of the last answer."""

    def end(self) -> None:
        self._socket.close()


class _Reader(io.RawIOBase):
    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self._connection.receive(buffer)


def _connect(url: Url, addresses: Sequence[str], rules: Rules, deadline: float) -> _Connection:
    """Connect to the first address that answers. These addresses were checked; nothing is looked up here."""
    failures: list[OSError] = []
    for address in addresses:
        seconds = min(rules.connect_timeout.total_seconds(), deadline - monotonic())
        if seconds <= 0:
            failures.append(TimeoutError("no time left"))
            break
        try:
            connected = _open_socket(url, address, rules, seconds)
        except OSError as error:  # also of TLS
            failures.append(error)
            continue
        return _Connection(
            connected,
            read_seconds=rules.read_timeout.total_seconds(),
            deadline=deadline,
            max_bytes=rules.max_body_bytes + MAX_OVERHEAD_BYTES,
        )
    reason = "; ".join(f"{address}: {_describe(error)}" for address, error in zip(addresses, failures, strict=False))
    raise RequestFailed(url.authority, reason) from failures[-1]


def _open_socket(url: Url, address: str, rules: Rules, seconds: float) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.settimeout(seconds)
        connecting.connect((address, url.port))
        if url.scheme == "http":
            return connecting
        return _tls_context(rules.ca_file).wrap_socket(connecting, server_hostname=url.host)
    except BaseException:
        connecting.close()
        raise


@lru_cache(maxsize=8)  # to read the certificates of all authorities takes longer than a request
def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)  # verifies the certificate and the name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


# The exchange -----------------------------------------------------------------------------------------------


def _exchange(
    connection: _Connection, url: Url, request: Request, headers: Mapping[str, str], rules: Rules
) -> Response:
    exchange = http.client.HTTPConnection(url.host, url.port)
    exchange.auto_open = 0  # it never connects by itself
    exchange.sock = connection  # it has the methods that the exchange uses
    exchange.putrequest(request.method, url.target, skip_host=True, skip_accept_encoding=True)
    exchange.putheader("Host", url.authority)
    for name, value in headers.items():
        exchange.putheader(name, value.encode("latin-1"))
    exchange.putheader("Accept-Encoding", "identity")  # a compressed body could be larger than it looks
    exchange.putheader("Connection", "close")
    if request.body or request.method in {"POST", "PUT", "PATCH"}:
        exchange.putheader("Content-Length", str(len(request.body)))
    exchange.endheaders(request.body or None)
    with exchange.getresponse() as answer:
        if answer.status < 200:
            raise http.client.HTTPException(f"status {answer.status}, which is not a final one")
        body, truncated = _read_body(answer, rules.max_body_bytes)
        names = tuple((name.lower(), value) for name, value in answer.getheaders())
        return Response(status=answer.status, headers=names, body=body, truncated=truncated)


def _read_body(answer: http.client.HTTPResponse, most: int) -> tuple[bytes, bool]:
    """Return the body and whether it is longer than ``most``. No more than that is read."""
    body = bytearray()
    while len(body) <= most:
        part = answer.read(min(READ_BYTES, most + 1 - len(body)))
        if not part:
            if answer.length:  # what the header has announced, and did not come
                raise http.client.IncompleteRead(bytes(body), answer.length)
            return bytes(body), False
        body += part
    return bytes(body[:most]), True


def _describe(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not valid: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return str(error) or "timed out"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
