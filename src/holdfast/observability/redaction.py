"""What a log must not show: values whose names say that they are secret, payloads, and passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache

from holdfast.model.secret import MASK
from holdfast.settings import mask_secrets
from holdfast.worker.outcome import plain_text

# Parts of names, compared without case, underscores and hyphens: ``apikey`` is in ``X-Api-Key``.
SECRET_NAMES = (
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "authorization",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "credential",
    "cookie",
    "payload",
)
MAX_DEPTH = 8  # of values inside values; deeper ones are masked

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
_ASSIGNMENT = re.compile(r"(?P<name>[\w-]{2,64})(?P<sign>=|\"?:\s*\"|'?:\s*')(?P<value>[^\s,;&'\"]+)")


class Redaction:
    """Masks secrets in the fields and texts of log records."""

    def __init__(self, more_names: Collection[str] = ()) -> None:
        """``more_names`` are parts of names whose values are masked, too."""
        self._names = (*SECRET_NAMES, *map(_folded, more_names))
        self.is_secret = cache(self._is_secret)  # a program logs few different names

    def _is_secret(self, name: str) -> bool:
        folded = _folded(name)
        return any(part in folded for part in self._names)

    def value(self, name: str, value: object, *, depth: int = 0) -> object:
        """Return the value of a field as it may be shown: as JSON types, without secrets."""
        if value is None or isinstance(value, bool):
            return value
        if self.is_secret(name) or depth > MAX_DEPTH:
            return MASK
        if isinstance(value, str):
            return self.text(str.__str__(value))
        if isinstance(value, int | float):
            return value
        if isinstance(value, Mapping):
            return {str(key): self.value(str(key), one, depth=depth + 1) for key, one in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value("", one, depth=depth + 1) for one in value]
        return self.text(plain_text(value))

    def text(self, text: str) -> str:
        """Return a text without passwords in URLs, and without the values of ``password=...`` and the like."""
        if "://" in text:
            text = _URL.sub(lambda url: mask_secrets(url[0]), text)
        if "=" in text or ":" in text:
            text = _ASSIGNMENT.sub(self._without_value, text)
        return text

    def _without_value(self, assignment: re.Match[str]) -> str:
        name, sign = assignment["name"], assignment["sign"]
        return f"{name}{sign}{MASK}" if self.is_secret(name) else assignment[0]


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
