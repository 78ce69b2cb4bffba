"""Names of artifacts: every name that is accepted is safe in a header, a URL and a folder of whoever saves it."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath, PureWindowsPath
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.artifacts.manifest import MAX_NAME_BYTES, check_artifact_name
from holdfast.errors import InvalidInput
from holdfast.service.routes.artifacts import _disposition


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../etc/passwd",
        "a/b",
        "a\\b",
        "a\0b",
        "a\nb",
        "a%2fb",
        'a"b',
        " a",
        "a ",
        "\u202efdp.exe",  # shown as exe.pdf
        "a\u200bb",
        "\ud800",
        "\ue000",
        "\u2028",
        "a\ufffd",
        "x" * 129,
        "ü" * 65,
    ],
)
def test_a_hostile_name_is_refused(name):
    with pytest.raises(InvalidInput):
        check_artifact_name(name)


@pytest.mark.parametrize("name", ["report.pdf", "a b.txt", "...", ".hidden", "Übersicht.csv", "報告.csv", "x" * 128])
def test_a_usual_name_is_accepted(name):
    assert check_artifact_name(name) == name


def test_two_spellings_of_a_name_are_one_name():
    assert check_artifact_name(unicodedata.normalize("NFD", "Übersicht")) == "Übersicht"


@given(st.text(min_size=1, max_size=140))
def test_an_accepted_name_is_only_a_name(text):
    try:
        name = check_artifact_name(text)
    except InvalidInput:
        return
    assert check_artifact_name(name) == name
    assert PurePosixPath("/folder", name).name == name
    assert PurePosixPath("/folder", name).parent == PurePosixPath("/folder")
    assert not PureWindowsPath(name).is_absolute()
    assert len(name.encode()) <= MAX_NAME_BYTES
    disposition = _disposition(name)
    assert disposition.isascii()
    assert disposition.isprintable()
    assert disposition.count('"') == 2
    assert unquote(disposition.rpartition("''")[2]) == name
    assert unquote(quote(name, safe="")) == name
