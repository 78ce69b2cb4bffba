"""The bounds of every value that users pass, and the checks of these bounds.

Each check returns the value, or raises ``InvalidInput`` with the wanted and the given value. Checks of whole columns
return nothing: they test all values together first, and one by one only if that fails.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import cast

from holdfast.clock import from_datetime, from_timedelta, to_timedelta
from holdfast.errors import InvalidInput, PayloadError, PayloadTooLarge
from holdfast.model import duration

MAX_BATCH_ITEMS = 10_000  # in one call of any verb
MAX_NAME_CHARACTERS = 128  # a type, queue, space, id or registry kind
MAX_TEXT_BYTES = 256  # a domain, idempotency key, limit key, job name, worker name or registry key
MAX_PAYLOAD_BYTES = 1 << 20  # an encoded payload; a client may be configured to allow more
MAX_STORED_PAYLOAD_BYTES = 64 << 20  # no configuration allows more
MAX_META_BYTES = 16 << 10  # the encoded meta mapping
MAX_NOTE_BYTES = 64 << 10  # a progress, a checkpoint or a registry value
MAX_ERROR_CHARACTERS = 16 << 10  # of an error or detail; a longer text is shortened
MAX_REASON_CHARACTERS = 1 << 10  # of a dead letter's reason; a longer text is shortened
MAX_URL_CHARACTERS = 2_048  # a webhook
MAX_DEPTH = 64  # levels of nesting in a payload or meta
MAX_COUNT = 2**31 - 1  # attempts and other counters
MAX_OFFSET = 2**63 - 1  # of a job in its domain
MAX_INSTANT = 253_402_300_799_999_999  # microseconds: the end of the year 9999
MAX_DURATION = duration.MAX_DURATION  # microseconds
LAST_INSTANT = MAX_INSTANT + MAX_DURATION  # in a store: the end of the longest lease or delay that begins last
PRIORITIES = range(10)

_NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_NAMES = re.compile(r"[A-Za-z0-9._:-]+")  # several names, joined
_URL = re.compile(r"https?://[!-~]+")
_NAME_WANTED = "1 to 128 of the characters A-Z a-z 0-9 . _ : -"


match_name = _NAME.fullmatch
"""Return something true for a type, queue, space or id; for hot code, which passes texts only."""


@lru_cache(maxsize=4096)
def is_name(value: str) -> bool:
    """Whether a text is a type, queue or space; remembered."""
    return _NAME.fullmatch(value) is not None


def check_name(field: str, value: object) -> str:
    """Check a type, queue, space or id: safe in keys, URLs, file names and metrics."""
    if type(value) is str and is_name(value):
        return value
    raise InvalidInput(field, wanted=_NAME_WANTED, got=value)


def check_new_name(field: str, value: object) -> str:
    """Check a name that is new each time, such as an id: it is not cached."""
    if type(value) is str and _NAME.fullmatch(value) is not None:
        return value
    raise InvalidInput(field, wanted=_NAME_WANTED, got=value)


def check_new_names(field: str, values: Sequence[object]) -> None:
    """Check a column of new names."""
    if values and set(map(type, values)) == {str} and all(values):
        texts = cast("Sequence[str]", values)
        if max(map(len, texts)) <= MAX_NAME_CHARACTERS and _NAMES.fullmatch("".join(texts)):
            return
    for value in values:
        check_new_name(field, value)


def is_text(value: str) -> bool:
    """Whether a text is short: any script, no control characters, 1 to 256 bytes."""
    if 0 < len(value) <= MAX_TEXT_BYTES and value.isascii() and value.isprintable():
        return True  # the common case
    return not _has_control_characters(value) and 0 < len(value.encode()) <= MAX_TEXT_BYTES


def _has_control_characters(value: str) -> bool:
    return any(unicodedata.category(character) in {"Cc", "Cs"} for character in value)


def check_text(field: str, value: object, *, empty: bool = False) -> str:
    """Check a short text, or with ``empty`` an empty one: see ``is_text``."""
    if isinstance(value, str) and is_text(value):
        return value
    wanted = f"text of {'0' if empty else '1'} to {MAX_TEXT_BYTES} bytes without control characters"
    if not isinstance(value, str) or (not value and not empty):
        raise InvalidInput(field, wanted=wanted, got=value)
    if _has_control_characters(value):
        raise InvalidInput(field, wanted=wanted, got=repr(value))
    if len(value.encode()) > MAX_TEXT_BYTES:
        raise InvalidInput(field, wanted=wanted, got=f"{len(value.encode())} bytes")
    return value


def check_optional_text(field: str, value: object) -> str | None:
    """Check a short text, or None."""
    return None if value is None else check_text(field, value)


def check_optional_texts(field: str, values: Sequence[object]) -> None:
    """Check a column of short texts or None."""
    if values and set(map(type, values)) == {str} and all(values):
        texts = cast("Sequence[str]", values)
        joined = "".join(texts)
        if joined.isascii() and joined.isprintable() and max(map(len, texts)) <= MAX_TEXT_BYTES:
            return
    for value in values:
        check_optional_text(field, value)


def check_integer(field: str, value: object, *, least: int = 0, most: int = MAX_COUNT) -> int:
    """Check a whole number in a range; a bool is refused."""
    if type(value) is int and least <= value <= most:
        return value
    got = value if type(value) is int else repr(value)  # the text "1" would look like a whole number
    raise InvalidInput(field, wanted=f"a whole number from {least} to {most}", got=got)


def check_boolean(field: str, value: object) -> bool:
    """Check True or False: the text ``no`` would count as True."""
    if isinstance(value, bool):
        return value
    raise InvalidInput(field, wanted="true or false", got=value)


def check_optional_integer(field: str, value: object, *, least: int = 0, most: int = MAX_COUNT) -> int | None:
    """Check a whole number in a range, or None."""
    return None if value is None else check_integer(field, value, least=least, most=most)


def instant_from(field: str, value: object) -> int:
    """Return an aware datetime as microseconds since the epoch."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidInput(field, wanted="a datetime with a time zone", got=value)
    return check_integer(field, from_datetime(value), most=MAX_INSTANT)


def duration_from(field: str, value: object, *, least: int = 0) -> int:
    """Return a timedelta as microseconds."""
    if not isinstance(value, timedelta):
        raise InvalidInput(field, wanted="a timedelta", got=value)
    length = from_timedelta(value)
    if least <= length <= MAX_DURATION:
        return length
    shortest, longest = (duration.format_exact(to_timedelta(bound)) for bound in (least, MAX_DURATION))
    raise InvalidInput(field, wanted=f"a length from {shortest} to {longest}", got=duration.format_exact(value))


def is_webhook(value: str) -> bool:
    """Whether a text is an http or https URL. Whether Holdfast may call it is decided at the time of the call."""
    return len(value) <= MAX_URL_CHARACTERS and _URL.fullmatch(value) is not None


def check_webhook(field: str, value: object) -> str:
    """Check an http or https URL."""
    if isinstance(value, str) and is_webhook(value):
        return value
    raise InvalidInput(field, wanted=f"an http or https URL of at most {MAX_URL_CHARACTERS} characters", got=value)


def check_blob(field: str, value: object, *, most: int) -> bytes:
    """Check the type and the size of encoded bytes."""
    if not isinstance(value, bytes):
        raise PayloadError(field, wanted="bytes", got=type(value).__name__)
    if len(value) > most:
        raise PayloadTooLarge(field, wanted=f"at most {most} bytes", got=f"{len(value)} bytes")
    return value


def check_payload(value: object, *, most: int = MAX_PAYLOAD_BYTES) -> bytes:
    """Check the encoded payload of a new job."""
    if isinstance(value, bytes) and len(value) > most:
        wanted = f"at most {most} bytes (keep larger data in your own storage, or in an artifact, and pass its address)"
        raise PayloadTooLarge("payload", wanted=wanted, got=f"{len(value)} bytes")
    return check_blob("payload", value, most=most)


def check_blobs(field: str, values: Sequence[object], *, most: int) -> None:
    """Check a column of encoded bytes."""
    if values and set(map(type, values)) == {bytes} and max(map(len, cast("Sequence[bytes]", values))) <= most:
        return
    for value in values:
        check_blob(field, value, most=most)


def check_batch(field: str, count: int) -> None:
    """Check the number of items of one call, which is one transaction."""
    if count > MAX_BATCH_ITEMS:
        raise InvalidInput(field, wanted=f"at most {MAX_BATCH_ITEMS} items in one call", got=f"{count}")


def check_error(field: str, value: object) -> None:
    """Check an error text or a reason: one that ``truncate_text`` returns."""
    if not isinstance(value, str) or value != truncate_text(value):
        raise InvalidInput(field, wanted=f"text of at most {MAX_ERROR_CHARACTERS} characters", got=value)


def truncate_text(value: str, most: int = MAX_ERROR_CHARACTERS) -> str:
    """Return an error text that every store can hold, shortened to ``most`` characters.

    Tracebacks contain lone surrogates from file names and NUL from binary data: both are written as escapes. A long
    text loses its middle: the start names the failure, and the end of a traceback names the place.
    """
    if not value.isascii():
        value = value.encode("utf-8", "backslashreplace").decode()
    value = value.replace("\0", "\\x00")
    if len(value) <= most:
        return value
    half = most // 2 - 16
    return f"{value[:half]}\n… {len(value) - 2 * half} characters …\n{value[-half:]}"
