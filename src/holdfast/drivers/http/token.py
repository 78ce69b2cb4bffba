"""The bearer token of the driver. No URL, no log, no error and no pickle has it."""

from __future__ import annotations

from pathlib import Path

from holdfast import settings
from holdfast.errors import InvalidInput
from holdfast.model.secret import Secret
from holdfast.secret_file import read_secret_file

MAX_TOKEN_CHARACTERS = 8_192


class TokenSource:
    """The token of a file, which is read again when the service has refused the token, or that of the settings."""

    def __init__(self, file: str | None) -> None:
        """``file`` is that of the URL; without one, the settings say. Raises ``InvalidInput``."""
        self._file = file
        self._token = settings.read().token if file is None else self._read(file)
        if self._token is not None:
            _check("token", self._token)

    def headers(self) -> dict[str, str]:
        """Return the header that a request needs; none without a token, for a service on this machine."""
        return {} if self._token is None else {"Authorization": f"Bearer {self._token.reveal()}"}

    def refresh(self) -> bool:
        """Read the file again; return whether it has another token now."""
        if self._file is None:
            return False
        try:
            found = self._read(self._file)
        except InvalidInput:  # the file is being replaced
            return False
        is_new, self._token = found != self._token, found
        return is_new

    @staticmethod
    def _read(file: str) -> Secret:
        data = read_secret_file("token_file", Path(file))
        try:
            return _check("token_file", Secret(data.decode("ascii").strip()))
        except ValueError:
            raise InvalidInput("token_file", wanted="a file with one token", got="something else") from None


def _check(name: str, token: Secret) -> Secret:
    """Check the characters: a line break would end the header."""
    text = token.reveal()
    if not (0 < len(text) <= MAX_TOKEN_CHARACTERS and text.isascii() and text.isprintable() and " " not in text):
        raise InvalidInput(name, wanted="a bearer token: ASCII without spaces", got="something else")
    return token
