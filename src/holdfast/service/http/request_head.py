"""Checks of the head of a request, before anything else reads it: size, version, and one clear length of the body.

h11 bounds a head that is incomplete, not one that arrives at once, and of a length and chunks it takes the chunks. A
proxy in front may take the length: then the two see different requests (smuggling). For the same reason, line feeds
without a carriage return, folded headers and repeated lengths are refused, which h11 accepts and does not show.
"""

from __future__ import annotations

import re

from starlette.types import Scope

from holdfast.service.limits import CLOSE
from holdfast.service.problems import Code, Problem

MAX_HEADER_BYTES = 16 << 10  # names and values together
MAX_HEADERS = 100
MAX_TARGET_BYTES = 8 << 10  # path and query
VERSIONS = ("1.0", "1.1")
# A name has no such character. Where a slash is encoded, a proxy may see another path than this service.
FORBIDDEN_IN_PATH = (b"%2f", b"%5c", b"%00", b"%25", b"\\")


_END_OF_HEAD = b"\r\n\r\n"
_ODD_LINE = re.compile(rb"(?<!\r)\n|\n[ \t]")  # a line feed by itself; a folded header
_LENGTH = re.compile(rb"\ncontent-length:([^\r\n]*)", re.IGNORECASE)


def is_odd(data: bytes) -> bool:
    """Whether what has arrived of a request, from its first byte on, has a head that could be read in two ways."""
    end = data.find(_END_OF_HEAD)
    head = data if end < 0 else data[: end + len(_END_OF_HEAD)]
    lengths = _LENGTH.findall(head)
    return _ODD_LINE.search(head) is not None or len(lengths) > 1 or any(b"," in length for length in lengths)


def check_head(scope: Scope) -> None:
    """Raise ``Problem`` if the head of a request is too large, or could be read in two ways."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if scope["http_version"] not in VERSIONS:
        raise Problem(Code.INVALID_HTTP, "wanted HTTP/1.1", headers=CLOSE)
    if len(headers) > MAX_HEADERS or sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
        limits = f"wanted at most {MAX_HEADERS} headers and {MAX_HEADER_BYTES} bytes"
        raise Problem(Code.HEADERS_TOO_LARGE, limits, headers=CLOSE)
    path: bytes = scope["raw_path"]
    if len(path) + len(scope["query_string"]) > MAX_TARGET_BYTES:
        raise Problem(Code.URI_TOO_LONG, f"wanted at most {MAX_TARGET_BYTES} bytes", headers=CLOSE)
    names = [name for name, _ in headers]
    if names.count(b"content-length") + names.count(b"transfer-encoding") > 1:
        raise Problem(Code.INVALID_HTTP, "wanted one header that says how long the body is", headers=CLOSE)
    if scope["http_version"] == "1.0" and b"transfer-encoding" in names:
        raise Problem(Code.INVALID_HTTP, "wanted Content-Length in HTTP/1.0, not Transfer-Encoding", headers=CLOSE)
    if b"%" in path and any(part in path.lower() for part in FORBIDDEN_IN_PATH):
        raise Problem(Code.NOT_FOUND)
