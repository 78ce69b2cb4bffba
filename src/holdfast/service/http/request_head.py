"""Checks of the head of a request, before anything else reads it: size, version, and one clear length of the body.

What the parser passes on may still have two meanings for a proxy in front and for the service (smuggling): two hosts,
chunks in HTTP/1.0, or another coding below the chunks.
"""

from __future__ import annotations

from starlette.types import Scope

from holdfast.service.limits import CLOSE
from holdfast.service.problems import Code, Problem

MAX_HEADER_BYTES = 16 << 10  # names and values together
MAX_HEADERS = 100
MAX_TARGET_BYTES = 8 << 10  # path and query
VERSIONS = ("1.0", "1.1")
# A name has no such character. Where a slash is encoded, a proxy may see another path than this service.
FORBIDDEN_IN_PATH = (b"%2f", b"%5c", b"%00", b"%25", b"\\")


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
    if names.count(b"host") != 1 and (scope["http_version"] != "1.0" or b"host" in names):
        raise Problem(Code.INVALID_HTTP, "wanted one header Host", headers=CLOSE)
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if names.count(b"content-length") + len(codings) > 1:
        raise Problem(Code.INVALID_HTTP, "wanted one header that says how long the body is", headers=CLOSE)
    if codings and (scope["http_version"] == "1.0" or codings[0].lower() != b"chunked"):
        raise Problem(Code.INVALID_HTTP, "wanted no Transfer-Encoding but chunked, in HTTP/1.1", headers=CLOSE)
    if b"%" in path and any(part in path.lower() for part in FORBIDDEN_IN_PATH):
        raise Problem(Code.NOT_FOUND)
