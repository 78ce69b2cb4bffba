"""docs/reference/settings.md says what the settings are: their defaults, their variables, and the file."""

from __future__ import annotations

import re

import pytest

from docs.build import DOCS
from holdfast import settings
from holdfast.model.queue_settings import LIMIT_FIELDS
from holdfast.settings import NAMES, Settings

PAGE = (DOCS / "reference" / "settings.md").read_text(encoding="utf-8")
NO_DEFAULT = "(no default)"  # `none` in code is a value


def rows_after(heading: str) -> list[list[str]]:
    """Return the cells of the first table after a text, without its head; NO_DEFAULT for a default of none."""
    table = re.search(r"(?:^\|.*\n)+", PAGE[PAGE.index(heading) :], re.MULTILINE)
    assert table is not None
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[0].splitlines()[2:]]
    return [[NO_DEFAULT if cell == "none" else cell.strip("`") for cell in row] for row in rows]


def test_the_page_has_every_setting_in_the_order_of_the_code():
    assert [row[0] for row in rows_after("<!-- generated: settings -->")] == list(NAMES)


@pytest.mark.parametrize("row", rows_after("<!-- generated: settings -->"), ids=lambda row: row[0])
def test_the_variable_sets_the_setting_and_its_default_is_the_default(row, tmp_path):
    name, _, default, variable, _, meaning = row
    assert meaning
    assert settings.unknown_variables({variable: "x"}) == []
    if default != NO_DEFAULT:
        read = settings.read(environ={variable: default}, folder=tmp_path)
        assert (read.value_of(name), read.origin(name)) == (Settings().value_of(name), variable)
    else:
        assert not Settings().value_of(name)


def test_the_file_of_the_page_is_accepted_and_has_every_key_of_a_queue(tmp_path):
    [text] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "holdfast.toml"
    file.write_text(text)
    mail = settings.read(file=file, environ={}).queues["mail"]
    assert (mail.handlers, list(mail.types)) == (("mail.send", "mail.bounce"), ["mail.send"])
    [keys] = [row[1] for row in rows_after("## Tables of the file") if row[0] == "[queues.NAME]"]
    assert set(re.findall(r"\w+", keys)) == set(LIMIT_FIELDS)
