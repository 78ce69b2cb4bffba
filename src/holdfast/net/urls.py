"""URLs of guarded requests: parsed once, strictly, and matched against the patterns that are allowed.

No other parser sees the URL: the request line, the ``Host`` header, the name for TLS and the lookup are made of these
parts. So there is no second opinion about which host a URL names.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote

from holdfast.errors import InvalidInput
from holdfast.model import bounds

DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_HOST_CHARACTERS = 253
MAX_PORT = 65_535
MAX_DECODINGS = 4  # of a path, in search of dot segments: a server may decode more than once

_URL = re.compile(r"(?i)(https?)://([^/?#]*)(/[^?#]*)?(\?[^#]*)?(?:#.*)?")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\\]")  # control characters, spaces, and backslashes
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([0-9]{1,5}))?")
_HOST = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_QUOTED_SAFE = "".join(map(chr, range(0x21, 0x7F)))  # visible ASCII stays as it is
_WANTED = "an http or https URL such as https://api.example.org/hooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """A URL in its parts. The host is in lower case, in ASCII, without brackets and without a final dot."""

    scheme: str
    host: str
    port: int
    path: str  # begins with a slash, is percent-encoded, and has no dot segments
    query: str = ""  # begins with a question mark if there is one

    @property
    def target(self) -> str:
        """The target in the request line."""
        return self.path + self.query

    @property
    def authority(self) -> str:
        """The host, and the port unless it is that of the scheme: the value of the ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def parse_url(text: object, *, field: str = "url") -> Url:
    """Return the parts of an http or https URL. Raises ``InvalidInput`` for everything that could be read in two ways.

    Refused are credentials, control characters, spaces, backslashes, zone ids, percent signs in the host, and dot
    segments, also encoded ones. A fragment is left out. Non-ASCII characters of path and query are encoded.
    """
    if not isinstance(text, str) or len(text) > bounds.MAX_URL_CHARACTERS:
        got = f"{len(text)} characters" if isinstance(text, str) else text
        raise InvalidInput(field, wanted=f"{_WANTED}, of at most {bounds.MAX_URL_CHARACTERS} characters", got=got)
    match = _URL.fullmatch(text)
    if match is None or _FORBIDDEN.search(text):
        raise InvalidInput(field, wanted=f"{_WANTED}, without control characters, spaces and backslashes", got=text)
    scheme, authority = match[1].lower(), match[2]
    if "@" in authority:
        raise InvalidInput(field, wanted="a URL without user and password", got="a URL with an at sign before the host")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise InvalidInput(field, wanted=_WANTED, got=text)
    port = DEFAULT_PORTS[scheme] if parts[2] is None else int(parts[2])
    if not 1 <= port <= MAX_PORT:
        raise InvalidInput(field, wanted=f"a port from 1 to {MAX_PORT}", got=parts[2])
    path = match[3] or "/"
    _check_path(field, path)
    return Url(
        scheme=scheme,
        host=_host(field, parts[1]),
        port=port,
        path=quote(path, safe=_QUOTED_SAFE),
        query=quote(match[4] or "", safe=_QUOTED_SAFE),
    )


def _host(field: str, text: str) -> str:
    if text.startswith("["):
        try:
            address = ipaddress.IPv6Address(text[1:-1])
        except ValueError as error:
            raise InvalidInput(field, wanted="an IPv6 address in brackets", got=f"{text}: {error}") from None
        if address.scope_id is not None:
            raise InvalidInput(field, wanted="an IPv6 address without a zone", got=text)
        return str(address)
    try:
        name = text.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError as error:
        raise InvalidInput(field, wanted="a host name", got=f"{text}: {error}") from None
    if len(name) > MAX_HOST_CHARACTERS or not _HOST.fullmatch(name):
        raise InvalidInput(field, wanted="a host name of letters, digits, hyphens and dots", got=text)
    return name


def _check_path(field: str, path: str) -> None:
    """Refuse dot segments: with them a path leaves the prefix that allowed it, if the server resolves them."""
    decoded = path
    for _ in range(MAX_DECODINGS):
        segments = re.split(r"[/\\]", decoded)
        if any(segment.partition(";")[0] in {".", ".."} for segment in segments):  # some servers cut at the semicolon
            raise InvalidInput(field, wanted="a path without dot segments", got=path)
        before, decoded = decoded, unquote(decoded, errors="replace")
        if before == decoded:
            return
    raise InvalidInput(field, wanted="a path that is percent-encoded once", got=path)


# Patterns of allowed URLs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlPattern:
    """``scheme://host[:port]/prefix``. See ``parse_pattern``."""

    scheme: str
    host: str  # ``*`` is every host, ``*.example.org`` every host below example.org
    port: int
    prefix: str

    def matches(self, url: Url) -> bool:
        """Whether the pattern allows this URL."""
        return (
            url.scheme == self.scheme
            and url.port == self.port
            and self._matches_host(url.host)
            and (url.path.startswith(self.prefix) if self.prefix.endswith("/") else self._is_at_prefix(url.path))
        )

    def _matches_host(self, host: str) -> bool:
        if self.host == "*":
            return True
        return host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host

    def _is_at_prefix(self, path: str) -> bool:
        return path == self.prefix or path.startswith(f"{self.prefix}/")


def parse_pattern(field: str, text: str) -> UrlPattern:
    """Return the pattern in a text. Raises ``InvalidInput``.

    ``https://api.example.org/hooks`` allows this path and everything below it; without a port, only the port of the
    scheme. ``*.example.org`` as host is every host below example.org, without example.org itself; ``*`` is every host.
    """
    wildcard = re.match(r"(?i)(https?://)(\*\.?)", text)
    plain = text if wildcard is None else f"{wildcard[1]}{'' if wildcard[2] == '*.' else 'any'}{text[wildcard.end() :]}"
    url = parse_url(plain, field=field)
    host = url.host
    if wildcard is not None:
        if wildcard[2] == "*" and host != "any":
            raise InvalidInput(field, wanted="* as a whole host, or *. before one", got=text)
        host = "*" if wildcard[2] == "*" else f"*.{host}"
    if url.query or "#" in text:
        raise InvalidInput(field, wanted="scheme://host[:port]/path, without a query", got=text)
    return UrlPattern(scheme=url.scheme, host=host, port=url.port, prefix=url.path)


def is_allowed(url: Url, patterns: Iterable[UrlPattern]) -> bool:
    """Whether one of the patterns allows this URL. Without patterns nothing is allowed."""
    return any(pattern.matches(url) for pattern in patterns)
