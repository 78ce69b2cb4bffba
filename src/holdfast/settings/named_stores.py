"""Named stores: ``store:NAME`` is the URL of the store that the settings describe under this name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.settings.masking import mask_secrets
from holdfast.settings.names import STORE_SCHEME, STORES_PREFIX

_STORE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")  # in a variable it has capital letters
_STORE_VARIABLE = re.compile(rf"{STORES_PREFIX}([A-Z][A-Z0-9_]{{0,63}})_(URL|SPACE)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedStore:
    """A store that the settings describe."""

    url: str
    space: str | None = None  # None: the setting ``space``

    def __repr__(self) -> str:
        return f"NamedStore({mask_secrets(self.url)!r}, {self.space!r})"  # the URL may contain a password


def named_store_url(name: str) -> str:
    """Return the URL of a named store. The store need not be known here: another process may open it."""
    return f"{STORE_SCHEME}:{check_store_name('store', name)}"


def store_name_of(url: str) -> str | None:
    """Return the name in ``store:NAME``; None for every other URL."""
    scheme, colon, name = url.partition(":")
    return check_store_name("store", name) if colon and scheme == STORE_SCHEME else None


def check_store_name(field_name: str, name: str) -> str:
    """Check the name of a store, which is also a part of a variable."""
    if not isinstance(name, str) or not _STORE_NAME.fullmatch(name):
        raise InvalidInput(field_name, wanted="a name of small letters, digits and underscores", got=name)
    return name


def check_url(name: str, value: str) -> str:
    """Check the URL of a store, without opening it."""
    if not value.strip():
        raise InvalidInput(name, wanted="a store URL such as sqlite:///jobs.db", got=value)
    return value


def store_variables(environ: Mapping[str, str], *, empty: bool = False) -> dict[tuple[str, str], str]:
    """Return the variables that describe stores, by the name of the store and the key; empty ones only if asked."""
    found = {}
    for variable, text in environ.items():
        parts = _STORE_VARIABLE.fullmatch(variable)
        if parts is not None and (text or empty):
            found[parts[1].lower(), parts[2].lower()] = variable
    return found


def check_store_value(where: str, key: str, value: str) -> str:
    """Check ``url`` or ``space`` of a named store."""
    if key == "space":
        return bounds.check_name(where, value)
    if store_name_of(check_url(where, value)) is not None:
        raise InvalidInput(where, wanted="a store URL such as sqlite:///jobs.db", got=f"the name of a store, {value}")
    return value


def named_stores(stores: Mapping[str, Mapping[str, str]]) -> dict[str, NamedStore]:
    """Return the stores by name. Raises ``InvalidInput`` for a store without a URL."""
    for name, store in stores.items():
        if "url" not in store:
            raise InvalidInput(f"stores.{name}", wanted=f"a url, or {STORES_PREFIX}{name.upper()}_URL", got="none")
    return {name: NamedStore(**store) for name, store in stores.items()}
