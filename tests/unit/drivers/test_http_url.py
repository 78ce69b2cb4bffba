"""The URL of a service: TLS except to this machine, no secret in it, and options that are checked."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

import pytest

from holdfast.drivers.http.token import TokenSource
from holdfast.drivers.http.url import read_address
from holdfast.errors import ConnectError, InvalidInput
from holdfast.settings import mask_secrets


def test_https_checks_the_certificate_and_the_name_of_the_host():
    address = read_address(urlsplit("https://queue.example.com/jobs/"))
    assert (address.host, address.port, address.path) == ("queue.example.com", 443, "/jobs")
    assert address.tls.verify_mode is ssl.CERT_REQUIRED
    assert address.tls.check_hostname
    assert address.shown == "https://queue.example.com:443/jobs"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "127.9.9.9"])
def test_http_is_for_this_machine(host):
    assert read_address(urlsplit(f"http://{host}:8700")).tls is None


def test_http_to_another_host_must_be_allowed():
    with pytest.raises(ConnectError, match=r"wanted https:// for queue\.example\.com"):
        read_address(urlsplit("http://queue.example.com"))
    address = read_address(urlsplit("http://10.0.0.7:8700?allow_plaintext=true"))
    assert (address.host, address.port, address.tls) == ("10.0.0.7", 8700, None)


def test_options_are_read():
    address = read_address(urlsplit("https://host?timeout=5&patience=0.5&token_file=/run/token"))
    assert (address.timeout, address.patience, address.token_file) == (5.0, 0.5, "/run/token")


@pytest.mark.parametrize(
    "url",
    [
        "https://:443",
        "https://host:port",
        "https://host#part",
        "https://host?unknown=1",
        "https://host?timeout=0",
        "https://host?timeout=nan",
        "https://host?patience=-1",
        "https://host?allow_plaintext=yes",
        "https://host?ca=/no/such/file.pem",
        "http://localhost?ca=/no/such/file.pem",
    ],
)
def test_a_bad_url_is_refused(url):
    with pytest.raises((ConnectError, InvalidInput)):
        read_address(urlsplit(url))


@pytest.mark.parametrize("url", ["https://secret@host", "https://user:secret@host"])
def test_a_token_in_a_url_is_refused_and_not_repeated(url):
    with pytest.raises(ConnectError, match=r"set HOLDFAST_TOKEN or \?token_file=FILE") as refused:
        read_address(urlsplit(url))
    assert "secret" not in str(refused.value)


def test_a_path_of_a_token_file_is_not_shown_with_its_url():
    assert mask_secrets("https://host?token_file=/run/token") == "https://host?token_file=***"


def test_the_token_comes_from_the_url_then_the_settings(tmp_path, monkeypatch):
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    assert TokenSource(None).headers() == {}
    (tmp_path / "b").write_text("of-the-url\n")
    monkeypatch.setenv("HOLDFAST_TOKEN", "of-a-variable")
    assert TokenSource(None).headers() == {"Authorization": "Bearer of-a-variable"}
    assert TokenSource(str(tmp_path / "b")).headers() == {"Authorization": "Bearer of-the-url"}


@pytest.mark.parametrize("token", ["two words", "line\r\nX-Header: 1", "ümlaut"])
def test_a_token_that_would_break_the_header_is_refused(monkeypatch, token):
    monkeypatch.setenv("HOLDFAST_TOKEN", token)
    with pytest.raises(InvalidInput, match="wanted a bearer token") as refused:
        TokenSource(None)
    assert token not in str(refused.value)
