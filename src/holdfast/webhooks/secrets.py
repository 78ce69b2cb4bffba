"""The secrets of each space: of the settings for their own space, and of a file for the others.

The file is TOML, and is read again when it has changed. While a secret is rotated, a space has the new one and the old
one: every delivery carries a signature of each.

acme = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
globex = ["whsec_...", "whsec_..."]
"""

from __future__ import annotations

import contextlib
import tomllib
from pathlib import Path

import msgspec

from holdfast.clock import monotonic
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.webhook_secret import parse_secrets
from holdfast.secret_file import read_secret_file
from holdfast.settings.webhooks import WebhookSettings

CHECK_INTERVAL_SECONDS = 2.0  # between two looks for a change


class WebhookSecrets:
    """Returns the secrets of a space. Safe to share between threads."""

    def __init__(self, settings: WebhookSettings, *, space: str) -> None:
        """Raise ``InvalidInput`` for a file that cannot be read; ``space`` is that of the settings."""
        self._own: dict[str, tuple[bytes, ...]] = {}
        if settings.secret:
            self._own[space] = parse_secrets("webhooks_secret", settings.secret.reveal().split(","))
        self._path = None if settings.secrets_file is None else Path(settings.secrets_file)
        self._stamp: tuple[int, int, int] | None = None
        self._of_file: dict[str, tuple[bytes, ...]] = {}
        self._checked_at = monotonic()
        if self._path is not None:
            self._read(self._path)

    @property
    def exist(self) -> bool:
        """Whether any space can have a secret."""
        return bool(self._own) or self._path is not None

    def spaces(self) -> list[str]:
        """Return the spaces that have secrets."""
        self._refresh()
        return sorted({*self._own, *self._of_file})

    def of(self, space: str) -> tuple[bytes, ...]:
        """Return the secrets of a space, the newest first; none if its deliveries cannot be signed."""
        self._refresh()
        return self._of_file.get(space) or self._own.get(space, ())

    def _refresh(self) -> None:
        if self._path is not None and monotonic() - self._checked_at > CHECK_INTERVAL_SECONDS:
            self._checked_at = monotonic()
            with contextlib.suppress(InvalidInput):  # a file that cannot be read now changes nothing
                self._read(self._path)

    def _read(self, path: Path) -> None:
        try:
            found = path.stat()
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
            if stamp == self._stamp:
                return
        except OSError as error:
            raise InvalidInput(str(path), wanted="a file with secrets", got=error.strerror or error) from error
        data = read_secret_file(str(path), path)
        try:
            tables = msgspec.convert(tomllib.loads(data.decode()), dict[str, list[str]])
        except (ValueError, msgspec.ValidationError):  # no message: it may have a secret
            raise InvalidInput(str(path), wanted='lines such as acme = ["whsec_..."]', got="another text") from None
        self._of_file = {
            bounds.check_name("space", space): parse_secrets(f"{space} in {path}", texts)
            for space, texts in tables.items()
        }
        self._stamp = stamp
