"""The payloads and results of the built-in handlers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """A program and its arguments. No shell reads them: a semicolon or a dollar sign is a character like others."""

    argv: list[str]  # the first is the absolute path of the program
    stdin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellResult:
    """How the program ended. A long output has lost its middle."""

    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlRequest:
    """An HTTP request."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlResult:
    """The answer to an HTTP request. The names of the headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: str  # bytes that are no UTF-8 are replaced
    truncated: bool = False  # only the beginning of the body is here


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has happened. Every listener of this name is called with the payload."""

    name: str
    payload: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A call of the function that the app has registered under this name."""

    name: str
    payload: object = None
