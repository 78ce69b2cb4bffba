"""The settings of the HTTP service: a table of the file, variables, arguments."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.errors import InvalidInput
from holdfast.model.secret import Secret
from holdfast.settings import NAMES, read
from holdfast.settings.serve import AuthMode, ServeSettings


def test_the_table_the_variables_and_the_arguments_are_one_set_of_settings(tmp_path):
    file = tmp_path / "holdfast.toml"
    file.write_text(
        'serve_threads = 3\n[serve]\nauth = ["jwks", "identity"]\nlease = "1m"\nrate = "600/m"\n'
        'tokens_file = "t.toml"\n',
        encoding="utf-8",
    )
    environ = {"HOLDFAST_SERVE_AUTH": "static", "HOLDFAST_SERVE_CLIENT_SECRET": "hidden", "HOLDFAST_SERVE_THREADS": "9"}
    settings = read({"serve_bind": ":9000"}, folder=tmp_path, environ=environ)
    assert settings.serve == ServeSettings(
        bind=":9000",
        auth=(AuthMode.STATIC,),
        lease=timedelta(minutes=1),
        rate=10.0,
        threads=9,
        tokens_file=str(tmp_path / "t.toml"),
        client_secret=Secret("hidden"),
    )
    assert "hidden" not in repr(settings)
    names = ("serve_bind", "serve_auth", "serve_lease", "serve_issuer")
    assert [settings.origin(name) for name in names] == ["--bind", "HOLDFAST_SERVE_AUTH", str(file), "default"]
    assert settings.value_of("serve_threads") == 9
    assert settings.value_of("space") == "main"


def test_every_setting_of_the_service_has_a_name():
    assert {name for name in NAMES if name.startswith("serve_")} == {
        f"serve_{name}" for name in ServeSettings.__dataclass_fields__
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("serve = 1", "serve in .*: wanted a table"),
        ("[serve]\nport = 1", "serve_port in .*: wanted one of the settings"),
        ("[serve]\nauth = []", "serve_auth in .*: wanted some of none, static, jwks, identity, got none"),
        ('[serve]\nauth = ["basic"]', "serve_auth in .*: wanted some of"),
        ('[serve]\njwks_url = "file:///etc/passwd"', "serve_jwks_url in .*: wanted an http or https URL"),
        ('[serve]\nintrospection_url = "https://h/?a=1"', "serve_introspection_url in .*: wanted .*without a query"),
        ("[serve]\nmax_body_bytes = 1", "serve_max_body_bytes in .*: wanted a whole number"),
        ("[serve]\nclient_secret = 7", r"serve_client_secret in .*: wanted text, got \*\*\*"),
        ('[serve]\nlease = "1us"', "serve_lease in .*: wanted at least"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path, text, message):
    (tmp_path / "holdfast.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=message):
        read(folder=tmp_path, environ={})
