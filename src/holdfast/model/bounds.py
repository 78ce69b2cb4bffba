"""How large and of which shape everything may be, and the checks that say so.

Each check gives back the value it was given, or raises ``InvalidInput`` with what was wanted and what was got.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import cast

from holdfast.clock import DAY, from_datetime, from_timedelta
from holdfast.errors import InvalidInput, PayloadError

MAX_BATCH = 10_000  # items in one call of any verb
MAX_NAME = 128  # characters of a type, queue, space, id or registry kind
MAX_TEXT = 256  # bytes of a domain, idempotency key, job name, worker name or registry key
MAX_PAYLOAD = 1 << 20  # bytes of an encoded payload; a client may be configured otherwise
MAX_STORED_PAYLOAD = 64 << 20  # bytes that no configuration can exceed
MAX_META = 16 << 10  # bytes of the encoded meta mapping
MAX_NOTE = 64 << 10  # bytes of a progress, a checkpoint or a registry value
MAX_ERROR = 16 << 10  # characters of an error or detail that are kept
MAX_REASON = 1 << 10  # characters of a dead letter's reason
MAX_URL = 2_048  # characters of a webhook
MAX_DEPTH = 64  # levels of nesting in a payload or meta
MAX_COUNT = 2**31 - 1  # attempts and other counters
MAX_INSTANT = 253_402_300_799_999_999  # the last microsecond of the year 9999
MAX_LENGTH = 100 * 366 * DAY  # of a timeout, a delay, a lease
PRIORITIES = range(10)

_NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_NAMES = re.compile(r"[A-Za-z0-9._:-]+")  # one behind the other
_URL = re.compile(r"https?://[!-~]+")
_NAME_WANTED = "1 to 128 of the characters A-Z a-z 0-9 . _ : -"


@lru_cache(maxsize=4096)
def _is_name(value: str) -> bool:
    return _NAME.fullmatch(value) is not None


def name(field: str, value: object) -> str:
    """A type, queue, space or id: safe in keys, URLs, file names and metrics."""
    if type(value) is str and _is_name(value):
        return value
    raise InvalidInput(field, wanted=_NAME_WANTED, got=value)


def new_name(field: str, value: object) -> str:
    """A name that was never seen before, and is not worth remembering."""
    if type(value) is str and _NAME.fullmatch(value) is not None:
        return value
    raise InvalidInput(field, wanted=_NAME_WANTED, got=value)


def new_names(field: str, values: Sequence[object]) -> None:
    """Each of them; nearly always all are names, and one look at all together is enough."""
    if values and set(map(type, values)) == {str} and all(values):
        texts = cast("Sequence[str]", values)
        if max(map(len, texts)) <= MAX_NAME and _NAMES.fullmatch("".join(texts)):
            return
    for value in values:
        new_name(field, value)


def text(field: str, value: object, *, empty: bool = False) -> str:
    """A short text that people chose: any script, no control characters, at most 256 bytes."""
    if isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isascii() and value.isprintable():
        return value  # nearly always
    wanted = f"text of {'0' if empty else '1'} to {MAX_TEXT} bytes without control characters"
    if not isinstance(value, str) or (not value and not empty):
        raise InvalidInput(field, wanted=wanted, got=value)
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in value):
        raise InvalidInput(field, wanted=wanted, got=repr(value))
    if len(value.encode()) > MAX_TEXT:
        raise InvalidInput(field, wanted=wanted, got=f"{len(value.encode())} bytes")
    return value


def optional_text(field: str, value: object) -> str | None:
    """A short text, or None."""
    return None if value is None else text(field, value)


def optional_texts(field: str, values: Sequence[object]) -> None:
    """Each of them; nearly always they are plain, and one look at all together is enough."""
    if values and set(map(type, values)) == {str} and all(values):
        texts = cast("Sequence[str]", values)
        together = "".join(texts)
        if together.isascii() and together.isprintable() and max(map(len, texts)) <= MAX_TEXT:
            return
    for value in values:
        optional_text(field, value)


def integer(field: str, value: object, *, least: int = 0, most: int = MAX_COUNT) -> int:
    """A whole number in a range; a bool is not one."""
    if type(value) is int and least <= value <= most:
        return value
    raise InvalidInput(field, wanted=f"a whole number from {least} to {most}", got=value)


def optional_integer(field: str, value: object, *, least: int = 0, most: int = MAX_COUNT) -> int | None:
    """A whole number in a range, or None."""
    return None if value is None else integer(field, value, least=least, most=most)


def instant(field: str, value: object) -> int:
    """An aware datetime, as microseconds since the epoch."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidInput(field, wanted="a datetime with a time zone", got=value)
    return integer(field, from_datetime(value), most=MAX_INSTANT)


def length(field: str, value: object, *, least: int = 0) -> int:
    """A timedelta, as microseconds."""
    if not isinstance(value, timedelta):
        raise InvalidInput(field, wanted="a timedelta", got=value)
    return integer(field, from_timedelta(value), least=least, most=MAX_LENGTH)


def webhook(field: str, value: object) -> str:
    """An http or https URL. Whether it may be called is decided when it is called, not here."""
    if isinstance(value, str) and len(value) <= MAX_URL and _URL.fullmatch(value):
        return value
    raise InvalidInput(field, wanted=f"an http or https URL of at most {MAX_URL} characters", got=value)


def blob(field: str, value: object, *, most: int) -> bytes:
    """Encoded bytes of a bounded size."""
    if not isinstance(value, bytes):
        raise PayloadError(field, wanted="bytes", got=type(value).__name__)
    if len(value) > most:
        raise PayloadError(field, wanted=f"at most {most} bytes", got=f"{len(value)} bytes")
    return value


def blobs(field: str, values: Sequence[object], *, most: int) -> None:
    """Each of them; nearly always they are, and one look at all together is enough."""
    if values and set(map(type, values)) == {bytes} and max(map(len, cast("Sequence[bytes]", values))) <= most:
        return
    for value in values:
        blob(field, value, most=most)


def batch(field: str, count: int) -> None:
    """Refuse a call with more items than one transaction should hold."""
    if count > MAX_BATCH:
        raise InvalidInput(field, wanted=f"at most {MAX_BATCH} items in one call", got=f"{count}")


def kept(value: str, most: int = MAX_ERROR) -> str:
    """An error text as a store keeps it: writable anywhere, and not too long.

    File names bring lone surrogates into tracebacks, and binary data brings NUL: both are written as escapes. Of a long
    text the head says what failed, and the tail of a traceback says where.
    """
    if not value.isascii():
        value = value.encode("utf-8", "backslashreplace").decode()
    value = value.replace("\0", "\\x00")
    if len(value) <= most:
        return value
    half = most // 2 - 16
    return f"{value[:half]}\n… {len(value) - 2 * half} characters …\n{value[-half:]}"
