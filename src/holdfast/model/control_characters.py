"""Text that is safe to show: characters that could move the cursor, hide text or forge a line become escapes."""

from __future__ import annotations

import codecs
import json
import re
import unicodedata

codecs.lookup("unicode_escape")  # imported now: a log line about missing files could not import it

_PLAIN_WORD = re.compile(r"[!#-<>-\[\]-~]+")  # visible ASCII without quotes, equals signs and backslashes


def escape_control_characters(text: str) -> str:
    """Return text on one line that cannot move the cursor or change colours: jobs contain unchecked text."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        " " if character in "\n\t" else _escape(character) if _is_control(character) else character
        for character in text
    )


def escape_json(text: str) -> str:
    """Return JSON in which every character that could control a terminal is an escape.

    ``text`` is JSON, so it has no control characters below a space except the line breaks of an indentation.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(
        json.dumps(character)[1:-1] if character > "\x7f" and _is_control(character) else character
        for character in text.replace("\x7f", "\\u007f")
    )


def quote(text: str) -> str:
    """Return text as one word of a line: unchanged if it is a plain word, else in double quotes, with escapes."""
    if _PLAIN_WORD.fullmatch(text):
        return text
    return '"' + escape_all(text).replace('"', '\\"') + '"'


def escape_all(text: str) -> str:
    """Return text in which backslashes, line breaks, tabs and all control characters are escapes."""
    if text.isascii() and text.isprintable():
        return text.replace("\\", "\\\\")
    return "".join(
        _escape(character) if character == "\\" or _is_control(character) else character for character in text
    )


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
