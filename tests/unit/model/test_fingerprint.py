"""The same failure has the same fingerprint, although details differ from job to job."""

from __future__ import annotations

from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import bounds
from holdfast.model.fingerprint import FINGERPRINT_CHARACTERS, fingerprint, normalise


@pytest.mark.parametrize(
    ("error", "normalised"),
    [
        ("550 no such user 'a@example.org'", "# no such user '…'"),
        ("timed out after 30.5 s", "timed out after # s"),
        ("job 01a1e10d-a1a2-7489-bf40-7d0e11118761 is gone", "job <id> is gone"),
        ("<Thing object at 0x7f3a5c>", "<Thing object at <address>>"),
        ("cannot reach 10.0.0.7:5432", "cannot reach <address>"),
        ("cannot reach fe80:0:0:1::7", "cannot reach <address>"),
        ("cannot reach https://example.org/a?b=1, giving up", "cannot reach <url>, giving up"),
        ("no mailbox for a.b@example.org", "no mailbox for <address>"),
        ('key "a \\" b" is missing', "key '…' is missing"),
        ("bytes b'\\x00' and `code` are refused", "bytes '…' and '…' are refused"),
        ("can't open, won't retry", "can't open, won't retry"),
        ("commit 0a1b2c3d4e5f is unknown", "commit <id> is unknown"),
        ("blob sha256-Zm9vYmFyYmF6MTIzNDU2Nzg5 is unknown", "blob <id> is unknown"),
        ("took 1,234.5e-7 of -5", "took # of #"),
        ("at 2026-11-15T20:58:25Z", "at #-#-#T#Z"),
        ("  several   spaces\n and lines", "several spaces"),
        ("", ""),
        ("\n\n", ""),
    ],
)
def test_parts_that_vary_are_replaced(error, normalised):
    assert normalise(error) == normalised


def test_a_traceback_is_reduced_to_its_exception():
    frames = 'Traceback (most recent call last):\n  File "x.py", line {line}, in f\n    g()\n'
    error = frames + "ValueError: bad value {line}\nmore of the message\n"
    assert normalise(error.format(line=7)) == "ValueError: bad value #"
    chained = "KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n" + error
    assert normalise(frames.format(line=1) + chained.format(line=2)) == "ValueError: bad value #"
    assert normalise(frames.format(line=1)) != ""


def test_failures_differ_by_type_reason_and_error():
    given_ = {"type": "t", "reason": "r", "error": "e 1"}
    same = fingerprint(**given_)
    assert same == fingerprint(**{**given_, "error": "e 2"}) == fingerprint(**{**given_, "error": "e 3\nmore"})
    others = [fingerprint(**{**given_, name: "other"}) for name in given_]
    assert len({same, *others}) == 4
    assert fingerprint(type="t", reason=None, error="") == fingerprint(type="t", reason="", error="")


def test_a_fingerprint_is_the_same_in_every_version():
    assert fingerprint(type="mail.send", reason="bad address", error="550 no such user 'a'") == "6da693ebe88e"


@given(st.text(), st.none() | st.text(), st.text())
def test_every_text_has_a_fingerprint(type_, reason, error):
    name = fingerprint(type=type_, reason=reason, error=error)
    assert len(name) == FINGERPRINT_CHARACTERS
    assert set(name) <= set("0123456789abcdef")


@pytest.mark.parametrize("piece", ["'", '"', "\\", "a@", "0:", "1.", "a-1", "x://", "`", "-", "\n", "1e", "b'\\"])
def test_no_text_takes_long(piece):
    began = thread_time()
    normalise(piece * (bounds.MAX_ERROR_CHARACTERS // len(piece)))
    assert thread_time() - began < 0.5
