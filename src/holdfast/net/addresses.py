"""Which IP addresses a guarded request may connect to: global unicast ones, and no others.

``ipaddress.is_private`` is not enough: Python 3.11 says False for 100.64.0.0/10, 64:ff9b::/96, 2002::/16, ::/96,
fec0::/10 and multicast. So the list is written here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias

from holdfast.errors import InvalidInput

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_GLOBAL_UNICAST_IPV6 = ipaddress.IPv6Network("2000::/3")

# Reasons for people; the first network that contains the address is named.
_DENIED: tuple[tuple[Network, str], ...] = tuple(
    (ipaddress.ip_network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("255.255.255.255/32", "broadcast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "IPv4-mapped"),
        ("::ffff:0:0:0/96", "IPv4-translated"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b::/96", "NAT64"),
        ("64:ff9b:1::/48", "NAT64"),
        ("100::/64", "discard-only"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "reserved for protocols"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "unique local"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)

# The services that give credentials to whoever asks from inside a cloud. A wider allowed network does not allow them.
METADATA_ADDRESSES = frozenset(
    ipaddress.ip_address(address)
    for address in (
        "169.254.169.254",  # AWS, GCP, Azure, OpenStack and others
        "169.254.170.2",  # AWS, tasks
        "169.254.170.23",  # AWS, pods
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS, pods
        "fd20:ce::254",  # GCP
        "100.100.100.200",  # Alibaba Cloud
        "192.0.0.192",  # Oracle Cloud
        "168.63.129.16",  # Azure: a public address
    )
)

_ISATAP_IDS = (0x00005EFE, 0x02005EFE)  # the middle of an IPv6 address whose last 32 bits are an IPv4 address


def denial_of(address: Address, *, allowed: Iterable[Network] = ()) -> str | None:
    """Return why no request may go to this address; None if it may. ``allowed`` are networks that are allowed anyway.

    The address of a metadata service is allowed only by a network that contains nothing else. An IPv6 address that
    contains an IPv4 address is judged as it is written: a network of IPv4 does not allow it.
    """
    is_metadata = address in METADATA_ADDRESSES
    for network in allowed:
        if address in network and (not is_metadata or network.num_addresses == 1):
            return None
    if is_metadata:
        return "metadata service"
    for network, reason in _DENIED:
        if address in network:
            return reason
    if isinstance(address, ipaddress.IPv6Address):
        if address not in _GLOBAL_UNICAST_IPV6:
            return "not global unicast"
        if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP_IDS:
            return "ISATAP"
    return None


def parse_network(field: str, text: str) -> Network:
    """Return a network such as 10.1.0.0/16 or fd12::/48, or of one address. Raises ``InvalidInput``."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InvalidInput(field, wanted="a network such as 10.1.0.0/16 or fd12::/48", got=f"{text}: {error}") from None
