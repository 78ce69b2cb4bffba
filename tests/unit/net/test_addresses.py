"""Which addresses are denied, and which network allows them."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.net.addresses import METADATA_ADDRESSES, denial_of, parse_network


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00::1"]
)
def test_public_addresses_are_allowed(address):
    assert denial_of(ipaddress.ip_address(address)) is None


@given(st.ip_addresses())
def test_every_address_that_python_calls_special_is_denied(address):
    special = (
        address.is_private,
        address.is_loopback,
        address.is_link_local,
        address.is_multicast,
        address.is_reserved,
        address.is_unspecified,
        getattr(address, "is_site_local", False),
    )
    if any(special):
        assert denial_of(address) is not None


@given(st.ip_addresses(v=4))
def test_no_ipv6_address_that_contains_ipv4_is_allowed(address):
    number = int(address)
    embedded = [
        number,
        (0xFFFF << 32) | number,
        (0x64FF9B << 96) | number,
        (0x2002 << 112) | (number << 80) | 1,
        (0x20010000 << 96) | number,
        (0x2600 << 112) | (0x5EFE << 32) | number,
    ]
    assert all(denial_of(ipaddress.IPv6Address(each)) for each in embedded)


def test_an_allowed_network_allows_its_addresses_and_no_others():
    allowed = [parse_network("n", "10.1.0.0/16"), parse_network("n", "fd12::/48")]
    assert denial_of(ipaddress.ip_address("10.1.2.3"), allowed=allowed) is None
    assert denial_of(ipaddress.ip_address("fd12::7"), allowed=allowed) is None
    assert denial_of(ipaddress.ip_address("10.2.0.1"), allowed=allowed) == "private"
    assert denial_of(ipaddress.ip_address("::ffff:10.1.2.3"), allowed=allowed) == "IPv4-mapped"


@pytest.mark.parametrize("address", sorted(METADATA_ADDRESSES, key=str), ids=str)
def test_a_metadata_service_is_allowed_only_by_its_own_address(address):
    wide = [ipaddress.ip_network(network) for network in ("0.0.0.0/0", "::/0")]
    assert denial_of(address, allowed=wide) == "metadata service"
    assert denial_of(address, allowed=[ipaddress.ip_network(address)]) is None


@pytest.mark.parametrize("text", ["", "10.0.0.1/8", "10.0.0.0/33", "example.org", "10.1"])
def test_a_wrong_network_is_refused(text):
    with pytest.raises(InvalidInput, match="a network such as"):
        parse_network("allowed_networks", text)
