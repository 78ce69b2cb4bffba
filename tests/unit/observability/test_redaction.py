"""Secrets do not reach the log."""

from __future__ import annotations

import pytest

from holdfast.observability.redaction import Redaction


@pytest.mark.parametrize(
    "name",
    ["password", "DB_PASSWORD", "X-Api-Key", "authorization", "access_token", "clientSecret", "payload", "Cookie"],
)
def test_values_are_masked_by_their_names(name):
    assert Redaction().value(name, "hunter2") == "***"
    assert Redaction().value("request", {"headers": [{name: "hunter2", "n": 1}]}) == {
        "headers": [{name: "***", "n": 1}]
    }


def test_other_values_are_kept_as_json_types():
    values = {"n": 1, "f": 0.5, "flag": True, "none": None, "text": "a key", "list": (1, "a"), 3: {4}}
    expected = {**values, "list": [1, "a"], "3": [4]}
    del expected[3]
    assert Redaction().value("values", values) == expected
    assert Redaction().value("password", None) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot open postgresql://me:hunter2@h/db: refused", "cannot open postgresql://me:***@h/db: refused"),
        ("'redis://:hunter2@h:6379/0'", "'redis://:***@h:6379/0'"),
        ("host=h password=hunter2 user=me", "host=h password=*** user=me"),
        ('{"user": "me", "api_key": "hunter2"}', '{"user": "me", "api_key": "***"}'),
        ("{'token': 'hunter2'}", "{'token': '***'}"),
        ("see https://example.org/a?b=c", "see https://example.org/a?b=c"),
        ("ValueError: no such user", "ValueError: no such user"),
    ],
)
def test_secrets_inside_texts_are_masked(text, shown):
    assert Redaction().text(text) == shown


def test_more_names_can_be_added():
    redaction = Redaction(["iban", "tax-id"])
    assert redaction.value("customer_iban", "DE89") == redaction.value("TAX_ID", 5) == "***"
    assert Redaction().value("customer_iban", "DE89") == "DE89"


def test_a_value_without_a_text_and_one_inside_itself_do_no_harm():
    class Unprintable:
        def __str__(self):
            raise ValueError("no text")

    assert "Unprintable" in str(Redaction().value("x", Unprintable()))
    endless: dict[str, object] = {}
    endless["again"] = endless
    assert "***" in str(Redaction().value("x", endless))
