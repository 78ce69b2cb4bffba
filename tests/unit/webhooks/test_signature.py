"""Signatures of deliveries and their secrets."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidInput
from holdfast.model.secret import Secret
from holdfast.model.webhook_secret import parse_secret
from holdfast.settings import read
from holdfast.settings.webhooks import WebhookSettings
from holdfast.webhooks.attempt import signed_headers
from holdfast.webhooks.secrets import CHECK_INTERVAL_SECONDS, WebhookSecrets
from tests.webhook_receiver import OLD_SECRET, SECRET, Received


def test_a_signature_is_the_one_of_standard_webhooks():
    secret = parse_secret("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signed_headers(
        [secret], message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=1614265330, body=b'{"test": 2432232314}'
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_while_a_secret_is_rotated_each_of_both_verifies():
    secrets = [parse_secret("secret", text) for text in (SECRET, OLD_SECRET)]
    headers = signed_headers(secrets, message_id="msg_1", timestamp=1, body=b"{}")
    received = Received(path="/", headers=headers, raw=b"{}")
    assert received.is_signed_with(SECRET)
    assert received.is_signed_with(OLD_SECRET)
    assert not received.is_signed_with("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert not Received(path="/", headers=headers, raw=b"{} ").is_signed_with(SECRET)


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_c2hvcnQ=", SECRET.removeprefix("whsec_"), "whsec_" + "A" * 200])
def test_a_secret_that_is_too_short_too_long_or_no_base64_is_refused_and_not_shown(text):
    with pytest.raises(InvalidInput) as caught:
        parse_secret("webhooks_secret", text)
    assert "whsec_ and 24 to 64 random bytes in base64" in str(caught.value)
    assert not text[6:] or text[6:] not in str(caught.value)


def test_the_secret_of_the_settings_is_that_of_their_space_and_a_file_has_those_of_others(tmp_path, monkeypatch):
    file = tmp_path / "secrets.toml"
    file.write_text(f'acme = ["{SECRET}", "{OLD_SECRET}"]\n')
    secrets = WebhookSecrets(WebhookSettings(secret=Secret(OLD_SECRET), secrets_file=str(file)), space="main")
    both = (parse_secret("", SECRET), parse_secret("", OLD_SECRET))
    assert [secrets.of(space) for space in ("main", "acme", "globex")] == [both[1:], both, ()]

    file.write_text(f'globex = ["{SECRET}"]\n')
    now = [CHECK_INTERVAL_SECONDS * 1e6]
    monkeypatch.setattr("holdfast.webhooks.secrets.monotonic", lambda: now[0])
    assert [secrets.of(space) for space in ("acme", "globex")] == [(), both[:1]]
    file.write_text("not TOML")
    now[0] *= 2
    assert secrets.of("globex") == both[:1]


def test_a_file_of_secrets_that_cannot_be_read_is_refused_without_its_text(tmp_path):
    file = tmp_path / "secrets.toml"
    for text in (f"acme = '{SECRET}'", "acme = ['whsec_short']", "a b = 1"):
        file.write_text(text)
        with pytest.raises(InvalidInput) as caught:
            WebhookSecrets(WebhookSettings(secrets_file=str(file)), space="main")
        assert "whsec_short" not in str(caught.value)
        assert SECRET not in str(caught.value)


def test_the_settings_of_webhooks_are_a_table_of_the_file_and_variables(tmp_path):
    file = tmp_path / "holdfast.toml"
    file.write_text('[webhooks]\nsecrets_file = "secrets.toml"\nurls = ["https://hooks.example.org/"]\n')
    settings = read(file=file, environ={"HOLDFAST_WEBHOOKS_SECRET": f"{SECRET},{OLD_SECRET}"}).webhooks
    assert settings == WebhookSettings(
        secret=Secret(f"{SECRET},{OLD_SECRET}"),
        secrets_file=str(tmp_path / "secrets.toml"),
        urls=("https://hooks.example.org/",),
    )
    assert SECRET not in repr(settings)
