"""URLs without their passwords and keys, for logs, messages and commands."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from holdfast.model.secret import MASK
from holdfast.settings.names import STORE_SCHEME

_SECRET_NAME = re.compile(r"(?i)pass|pwd|secret|token|key|sig|credential")
_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]*://")
_PLAIN = re.compile(r"[\w./ -]*")  # a path, or a name
_PLAIN_USER = re.compile(r"[\w.%+-]*")


def mask_secrets(url: str) -> str:
    """Return the URL with ``***`` in place of everything that could be a password or a key.

    A URL in a settings file is often malformed: a password has a slash or a question mark that should be escaped. So
    everything before the last at sign counts as user and password, and a text that is no URL is shown only if it is
    plain.
    """
    scheme = _SCHEME.match(url)
    if scheme is None:
        return url if _PLAIN.fullmatch(url.removeprefix(f"{STORE_SCHEME}:")) else MASK
    user, at, rest = url[scheme.end() :].rpartition("@")
    name, colon, _ = user.partition(":")
    shown_user = f"{name if _PLAIN_USER.fullmatch(name) else ''}:{MASK}" if colon else user
    if not colon and not _PLAIN_USER.fullmatch(user):
        shown_user = MASK
    place, mark, query = rest.partition("?")
    place, hash_sign, _ = place.partition("#")
    if any("=" in part and _SECRET_NAME.search(unquote(unquote(part))) for part in (user, place)):
        return MASK  # where the secret of an option begins and ends is unknown
    try:
        urlsplit(url)
    except ValueError:
        return MASK
    if hash_sign:
        return f"{scheme[0]}{shown_user}{at}{place}#{MASK}"
    query, hash_sign, _ = query.partition("#")
    items = "".join(map(_mask_item, re.split("([&;])", query)))
    return f"{scheme[0]}{shown_user}{at}{place}{mark}{items}" + (f"#{MASK}" if hash_sign else "")


def _mask_item(item: str) -> str:
    """Return an item of a query without its value if that may be secret: a password, or a URL with a password."""
    name, equals, value = item.partition("=")
    decoded = unquote(unquote(value))
    may_be_secret = _SECRET_NAME.search(unquote(unquote(name))) or _SECRET_NAME.search(decoded) or "@" in decoded
    return f"{name}={MASK}" if equals and may_be_secret else item
