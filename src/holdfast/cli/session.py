"""The state of one command: its settings, its store, its output, and how it fails."""

from __future__ import annotations

import os
from enum import IntEnum
from functools import cached_property
from pathlib import Path

import click

from holdfast.cli import schema_access
from holdfast.cli.output import Output
from holdfast.connect import connect
from holdfast.drivers.store import Store
from holdfast.errors import StoreUnavailable
from holdfast.observability.log_format import JsonFormatter
from holdfast.observability.redaction import Redaction
from holdfast.settings import FILE_NAME, LogFormat, Settings, mask_secrets, read


class ExitCode(IntEnum):
    """How a command ended, for scripts."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    NOT_FOUND = 4
    TIMED_OUT = 5
    INTERRUPTED = 130


class CommandFailed(Exception):
    """Ends a command with an exit code and, unless the text is empty, one line on stderr."""

    def __init__(self, code: ExitCode, text: str = "") -> None:
        super().__init__(text)
        self.code = code


class Session:
    """One run of the command. A store is opened only when a command needs it."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}  # the settings that stand on the command line
        self.config: Path | None = None
        self.debug = False
        self.output = Output()
        self._stores: list[Store] = []

    @cached_property
    def settings(self) -> Settings:
        """The settings: file, then environment, then options."""
        return read(self.given, file=self.config)

    @property
    def url(self) -> str:
        """The URL that a driver opens. Without one, the command fails and prints how to set it."""
        url = self.settings.url
        if url is None:
            raise CommandFailed(
                ExitCode.USAGE,
                f"no store: give --url sqlite:///jobs.db, set HOLDFAST_URL, or write url into {FILE_NAME}",
            )
        return self.settings.resolve_url(url)

    def use_url(self, url: str) -> None:
        """Use the store of an argument of the command, instead of --url. Before the first use."""
        self.given["url"] = url

    def use_options(self, **options: str | None) -> None:
        """Add the options of a command that logs. Beside a JSON log, its notes and failures are JSON, too."""
        self.given |= {name: value for name, value in options.items() if value is not None}
        if self.settings.log is LogFormat.JSON:
            self.output.formatter = JsonFormatter(Redaction(self.settings.log_redact))

    @property
    def given_url(self) -> str | None:
        """The store of the command line: a URL, or ``store:NAME``; None without --url."""
        return self.given.get("url")

    @property
    def space(self) -> str:
        """The space: that of the command line, else that of the named store, else that of the settings."""
        return self.settings.space_of(self.settings.url or "")

    def store(self, *, create: bool = False, url: str | None = None) -> Store:
        """Open the store in the chosen space. A store without tables is an error unless ``create`` is true.

        ``url`` is that of the settings with other options.
        """
        if not create:
            version = schema_access.read_version(self.url)
            if version is not None and not version.applied:
                raise StoreUnavailable(
                    f"no store at {mask_secrets(self.url)} yet: enqueue a job, or run `holdfast schema install`"
                )
        store = connect(url or self.url, space=self.space)
        self._stores.append(store)
        return store

    def close(self) -> None:
        """Close every store that was opened."""
        while self._stores:
            self._stores.pop().close()

    def without_secrets(self, text: str) -> str:
        """Return a message in which the passwords of all stores' URLs are masked."""
        urls = {self.given.get("url", ""), os.environ.get("HOLDFAST_URL", "")}
        if "settings" in self.__dict__:
            urls |= {self.settings.url or "", *(store.url for store in self.settings.stores.values())}
        for url in sorted(urls - {""}, key=len, reverse=True):
            text = text.replace(url, mask_secrets(url))
        return text


pass_session = click.make_pass_decorator(Session)
