"""A hostile URL is refused before a packet leaves: no connection is opened, and nothing is sent."""

from __future__ import annotations

import ipaddress
import socket
import sys

import pytest

from holdfast.errors import RequestRefused
from holdfast.net.guarded import Request, Rules, resolve_with_system, send
from holdfast.net.urls import parse_pattern
from tests.net.loopback import ALLOWED, DENIED, DnsServer, answer, serving

# As the host of a URL. Most of them are 127.0.0.1, where a server listens: a hole would be a connection.
HOSTS = [
    # IPv4 in every notation
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "0x7f.0.0.1",
    "0x7f.1",
    "0X7F.0X0.0X0.0X1",
    "0x7f000001",
    "0177.0.0.1",
    "0177.1",
    "017700000001",
    "00000177.0.0.1",
    "2130706433",
    "127.0.0x0.01",
    "127.255.255.254",
    "127.0.0.3",
    "0",
    "0.0.0.0",
    "0.1.2.3",
    "①②⑦.⓪.⓪.①",
    "127\u30020\u30020\u30021",  # ideographic full stops
    "\uff11\uff12\uff17.\uff10.\uff10.\uff11",  # full-width digits
    # IPv4 networks
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.254",
    "100.100.100.200",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "0251.0376.0251.0376",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    # IPv6
    "[::]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::FFFF:169.254.169.254]",
    "[::ffff:0:127.0.0.1]",
    "[::ffff:8.8.8.8]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::8.8.8.8]",
    "[64:ff9b:1::a00:1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001::1]",
    "[2001:0:7f00:1::]",
    "[2001:2::1]",
    "[2001:10::1]",
    "[2001:20::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[100::1]",
    "[5f00::1]",
    "[4000::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "[fd12:3456:789a::1]",
    "[fe80::1]",
    "[fec0::1]",
    "[ff02::1]",
    "[2600::5efe:7f00:1]",
    "[fe80::1%eth0]",
    "[fe80::1%25eth0]",
    "[::1%lo]",
    "[::1",
    "::1",
    # Names
    "localhost",
    "LOCALHOST",
    "localhost.",
    "ⓛocalhost",
    # URLs that another parser may read differently; the server's port is added at the end
    "example.org@127.0.0.1",
    "user:password@127.0.0.1",
    "127.0.0.1\\@example.org",
    "example.org\\.127.0.0.1",
    "127.0.0.1%00.example.org",
    "127.0.0.1%2f.example.org",
    "127.0.0.1\t",
    "127.0.0.1\r\nHost: example.org\r\n",
    " 127.0.0.1",
    "127.0.0.1 ",
    "127.0.0.1\x00",
    "",
    "-127.0.0.1",
    "127.0.0.1:80",
]

_connects: list[object] = []
_is_recording = False


def _record(event: str, arguments: tuple[object, ...]) -> None:
    if _is_recording and event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        _connects.append((event, arguments))


sys.addaudithook(_record)  # cannot be removed, so it has a switch


@pytest.fixture
def packets():
    """What this process sends while the test runs: Python reports every connect and every datagram."""
    global _is_recording  # noqa: PLW0603
    _connects.clear()
    _is_recording = True
    yield _connects
    _is_recording = False


@pytest.fixture(scope="module")
def denied_server():
    with serving(answer(), host=DENIED) as server:
        yield server


def allow_everything(port: int) -> Rules:
    patterns = [f"{scheme}://*:{port}" for scheme in ("http", "https")]
    return Rules(allowed_urls=tuple(parse_pattern("allowed_urls", pattern) for pattern in patterns))


def test_the_list_is_long_enough():
    assert len(HOSTS) == len(set(HOSTS)) >= 60


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", HOSTS, ids=ascii)
def test_no_packet_leaves_for_a_hostile_host(denied_server, packets, scheme, host):
    request = Request(url=f"{scheme}://{host}:{denied_server.port}/")
    with pytest.raises(RequestRefused):
        send(request, allow_everything(denied_server.port))
    assert packets == []
    assert denied_server.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.org/",
        "gopher://127.0.0.1/",
        "dict://127.0.0.1/",
        "unix:///run/docker.sock",
        "data:text/plain,x",
        "//example.org/",
        "example.org",
        "http:/example.org/",
        "http:example.org",
        "http:///path",
        "https://example.org:0/",
        "https://example.org:65536/",
        "https://example.org:99999999999/",
        "https://example.org:+443/",
        "https://example.org:\uff1443/",
        "https://exa mple.org/",
        "https://example.org/\r\nX: y",
        "https://example.org/a\nb",
        f"https://example.org/{'a' * 2048}",
        "https://example..org/",
        f"https://{'a' * 64}.example.org/",
        f"https://{'a.' * 127}example/",
    ],
    ids=ascii,
)
def test_no_packet_leaves_for_a_hostile_url(packets, url):
    everywhere = Rules(allowed_urls=(parse_pattern("p", "http://*"), parse_pattern("p", "https://*")))
    with pytest.raises(RequestRefused):
        send(Request(url=url), everywhere)
    assert packets == []


@pytest.mark.parametrize(
    "addresses",
    [
        [DENIED],
        ["10.0.0.1"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["fe80::1%2"],
        [ALLOWED, DENIED],  # one good address does not help
        [DENIED, ALLOWED],
        ["no address"],
        ["127.1"],  # not as addresses are written: unreadable
    ],
    ids=str,
)
def test_a_name_with_a_denied_address_is_refused(denied_server, packets, addresses):
    rules = Rules(
        allowed_urls=(parse_pattern("p", f"http://service.test:{denied_server.port}"),),
        allowed_networks=(ipaddress.ip_network(ALLOWED),),
    )
    request = Request(url=f"http://service.test:{denied_server.port}/")
    with pytest.raises(RequestRefused):
        send(request, rules, resolve=lambda _host, _port: addresses)
    assert packets == []
    assert denied_server.connections == 0


def test_a_name_that_is_bound_again_after_the_check_gets_no_connection():
    """DNS rebinding: the first answer is allowed, every later one is not. There is one lookup for each request."""
    dns = DnsServer([ALLOWED, DENIED])
    try:
        with serving(answer(b"good")) as good, serving(answer(b"bad"), host=DENIED, port=good.port) as bad:
            rules = Rules(
                allowed_urls=(parse_pattern("p", f"http://rebinding.test:{good.port}"),),
                allowed_networks=(ipaddress.ip_network(ALLOWED),),
            )
            request = Request(url=f"http://rebinding.test:{good.port}/")
            assert send(request, rules, resolve=dns.resolve).body == b"good"
            assert (dns.queries, good.connections, bad.connections) == (1, 1, 0)
            with pytest.raises(RequestRefused, match=r"127\.0\.0\.1, which is denied: loopback"):
                send(request, rules, resolve=dns.resolve)
            assert (dns.queries, good.connections, bad.connections) == (2, 1, 0)
    finally:
        dns.stop()


def test_a_redirect_to_a_denied_address_is_not_followed():
    with serving(answer(), host=DENIED) as private:
        location = f"Location: http://{DENIED}:{private.port}/\r\n"
        with serving(answer(b"", status="302 Found", headers=location)) as public:
            rules = Rules(
                allowed_urls=(parse_pattern("p", f"http://*:{public.port}"),),
                allowed_networks=(ipaddress.ip_network(ALLOWED),),
            )
            response = send(Request(url=f"http://{ALLOWED}:{public.port}/"), rules)
        assert (response.status, response.header("Location")) == (302, f"http://{DENIED}:{private.port}/")
        assert private.connections == 0


def test_the_system_resolves_every_notation_of_ipv4_to_the_usual_one():
    """Otherwise the list above would test less than it says."""
    for host in ("0x7f.1", "017700000001", "2130706433", "127.1"):
        assert resolve_with_system(host, 80) == [DENIED]
    assert socket.getaddrinfo("::1", 80, type=socket.SOCK_STREAM)[0][4][0] == "::1"
