"""Which store an app uses, by its arguments and its settings, and that store once it is open."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast import settings as settings_module
from holdfast.clock import Clock
from holdfast.drivers.contract import Store
from holdfast.drivers.optional import NamedSpace
from holdfast.errors import InvalidInput
from holdfast.settings import FILE_NAME, PREFIX, Settings, store_name_of
from holdfast.signing import open_signer
from holdfast.wire.signing import Signer

_opening_lock = threading.Lock()  # not of a connection: an app may be pickled with the functions that use it


class AppConnection:
    """The settings and the store of one app. Both are read and opened at their first use."""

    def __init__(
        self, url: str | None, *, driver: Store | None = None, space: str | None = None, clock: Clock | None = None
    ) -> None:
        self.clock = clock
        self._url = url
        self._space = space
        self._has_driver = driver is not None
        self._driver = driver
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """The settings, read at the first use."""
        if self._settings is None:
            self._settings = settings_module.read()
        return self._settings

    def use_settings(self, settings: Settings, *, url: str | None = None, space: str | None = None) -> None:
        """Use settings that the program has read; ``url`` and ``space`` replace those of the app."""
        self._settings = settings
        self._url = url or self._url
        self._space = space or self._space

    @property
    def url(self) -> str | None:
        """The URL of the store: the argument, else that of the settings; None with a driver, or without both."""
        return self._url if self._url is not None or self._has_driver else self.settings.store_url

    @property
    def space(self) -> str:
        """The space: the argument, else that of the named store, else that of the settings."""
        if self._space is not None:
            return self._space
        return self.settings.space if self.url is None else self.settings.space_of(self.url)

    @property
    def driver(self) -> Store:
        """The store. It is opened at the first use."""
        if self._driver is None:
            with _opening_lock:
                self._driver = self._driver or self._open()
        return self._driver

    def _open(self) -> Store:
        from holdfast.connect import connect  # noqa: PLC0415 - imports drivers, which a producer with a driver does not need

        url = self.url
        if url is None:
            ways = f"Holdfast(url), {PREFIX}URL, or url in {FILE_NAME}"
            raise InvalidInput("url", wanted=f"a store: {ways}, or the name of a store", got="none")
        address = url if store_name_of(url) is None else self.settings.resolve_url(url)
        return connect(address, space=self.space, clock=self.clock)

    def open_signer(self) -> Signer | None:
        """Return what signs and verifies the jobs of the space; None if the settings turn signing off."""
        return open_signer(self.settings, space=self.store_space)

    @property
    def store_space(self) -> str:
        """The space that the open store works in."""
        return self.driver.space_name if isinstance(self.driver, NamedSpace) else self.space

    @contextmanager
    def using(self, driver: Store, *, clock: Clock | None = None) -> Iterator[None]:
        """Use another store until the block ends. Both stores stay open."""
        before = self._driver, self.clock
        self._driver, self.clock = driver, clock
        try:
            yield
        finally:
            self._driver, self.clock = before

    def close(self) -> None:
        """Close the store if it is open."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None
