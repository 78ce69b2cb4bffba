"""Files with tokens and secrets: who else can use them, and what is no file."""

from __future__ import annotations

import os

import pytest

from holdfast.drivers.http.token import TokenSource
from holdfast.errors import InvalidInput
from holdfast.model.secret import Secret
from holdfast.secret_file import MAX_FILE_BYTES
from holdfast.service.auth.static import StaticTokens
from holdfast.settings.webhooks import WebhookSettings
from holdfast.webhooks.secrets import WebhookSecrets

TOKENS = '[[tokens]]\ntoken = "a-token-of-16-characters"\nsubject = "a"\n'
SECRETS = 'acme = ["whsec_c2VjcmV0IG9mIHR3ZW50eS1mb3VyIGJ5dGVzISE="]\n'


def read_webhook_secrets(file):
    settings = WebhookSettings(secret=Secret("whsec_c2VjcmV0IG9mIHR3ZW50eS1mb3VyIGJ5dGVzISE="), secrets_file=str(file))
    return WebhookSecrets(settings, space="main")


READERS = {
    "token": (lambda file: TokenSource(str(file)), "a-token"),
    "tokens": (lambda file: StaticTokens(str(file), space="main"), TOKENS),
    "secrets": (read_webhook_secrets, SECRETS),
}


@pytest.fixture(params=READERS)
def reader(request):
    return READERS[request.param]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_a_file_that_others_can_use_is_warned_about(tmp_path, reader, mode, caplog):
    read, content = reader
    file = tmp_path / "file"
    file.write_text(content)
    file.chmod(mode)
    read(file)
    [record] = caplog.records
    assert (record.levelname, record.event) == ("WARNING", "secrets.exposed")
    assert f"file={file} mode={mode:04o}" in record.getMessage()
    assert content not in caplog.text


def test_a_file_of_its_owner_is_not(tmp_path, reader, caplog):
    read, content = reader
    file = tmp_path / "file"
    file.write_text(content)
    file.chmod(0o400)
    read(file)
    assert caplog.records == []


def test_what_is_no_file_is_refused_at_once(tmp_path, reader):
    read, _ = reader
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b" " * (MAX_FILE_BYTES + 1))
    for name, wanted in (("pipe", "a regular file"), ("folder", "a regular file"), ("large", "at most"), ("none", "")):
        with pytest.raises(InvalidInput, match=f"wanted {wanted}"):
            read(tmp_path / name)
