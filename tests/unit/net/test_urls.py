"""URLs are read in one way or not at all; patterns allow what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.net.urls import is_allowed, parse_pattern, parse_url


def allows(pattern: str, url: str) -> bool:
    return is_allowed(parse_url(url), [parse_pattern("p", pattern)])


@pytest.mark.parametrize(
    ("text", "host", "authority", "target"),
    [
        ("https://Example.ORG", "example.org", "example.org", "/"),
        ("https://example.org.:443/a?b=c#d", "example.org", "example.org", "/a?b=c"),
        ("http://example.org:8080?x", "example.org", "example.org:8080", "/?x"),
        ("https://bücher.example/ü?ü", "xn--bcher-kva.example", "xn--bcher-kva.example", "/%C3%BC?%C3%BC"),
        ("https://[2001:DB8::1]:8443/%41", "2001:db8::1", "[2001:db8::1]:8443", "/%41"),
        ("HTTPS://a_b.example/x;y=1,2", "a_b.example", "a_b.example", "/x;y=1,2"),
    ],
)
def test_a_url_has_one_reading(text, host, authority, target):
    url = parse_url(text)
    assert (url.host, url.authority, url.target) == (host, authority, target)


@pytest.mark.parametrize(
    "path",
    [
        "/hooks/../admin",
        "/hooks/./x",
        "/hooks/%2e%2e/admin",
        "/hooks/%2E./admin",
        "/hooks/..%2fadmin",
        "/hooks/..%5cadmin",
        "/hooks/%252e%252e/admin",
        "/hooks/%25252e%25252e/admin",
        "/hooks/..;/admin",
        "/hooks/..;x=1/admin",
        "/hooks/%2525252525252525",
    ],
)
def test_a_path_with_dot_segments_is_refused_however_it_is_encoded(path):
    with pytest.raises(InvalidInput):
        parse_url(f"https://example.org{path}")


@given(st.text(max_size=60))
def test_any_text_is_refused_or_has_a_plain_host_and_target(text):
    for url in (text, f"https://{text}", f"https://example.org/{text}"):
        try:
            parsed = parse_url(url)
        except InvalidInput:
            continue
        assert parsed.host.isascii()
        assert parsed.target.isascii()
        assert parsed.target.startswith("/")
        assert all(" " < character < "\x7f" for character in parsed.target + parsed.authority)
        assert not set("@/\\?#") & set(parsed.host)


def test_a_pattern_allows_its_prefix_and_everything_below():
    pattern = "https://api.example.org/hooks"
    for path in ("/hooks", "/hooks/", "/hooks/a/b?c=d", "/hooks?x"):
        assert allows(pattern, f"https://api.example.org{path}")
    for path in ("", "/", "/hooksX", "/Hooks", "/other/hooks", "/hooks%2fa"):
        assert not allows(pattern, f"https://api.example.org{path}")
    assert allows("https://api.example.org/hooks/", "https://api.example.org/hooks/a")
    assert not allows("https://api.example.org/hooks/", "https://api.example.org/hooks")


def test_a_pattern_allows_one_scheme_and_one_port():
    assert allows("https://example.org", "https://example.org:443/")
    assert not allows("https://example.org", "http://example.org/")
    assert not allows("https://example.org", "https://example.org:8443/")
    assert allows("https://example.org:8443", "https://example.org:8443/x")


def test_a_pattern_allows_one_host_or_those_below_it():
    assert not allows("https://example.org", "https://www.example.org/")
    assert not allows("https://example.org", "https://example.org.evil.test/")
    assert allows("https://*.example.org", "https://a.b.example.org/")
    for host in ("example.org", "badexample.org", "example.org.evil.test"):
        assert not allows("https://*.example.org", f"https://{host}/")
    assert allows("https://*", "https://anything.test/")
    assert allows("https://*:8443/x", "https://anything.test:8443/x/y")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "example.org",
        "ftp://example.org",
        "https://",
        "https://*.",
        "https://*example.org",
        "https://**",
        "https://www.*.org",
        "https://user@example.org",
        "https://example.org/?q",
        "https://example.org/#f",
        "https://example.org/a/../b",
        "https://example.org:*",
    ],
)
def test_a_wrong_pattern_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_pattern("allowed_urls", text)
