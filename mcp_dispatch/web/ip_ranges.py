"""Classifies IP addresses that are not public."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network


@dataclass(frozen=True, slots=True)
class SpecialAddress:
    """The kind of an address that is not public.

    `allowed_by_host_rule`: a rule that names a host allows it. Other kinds need a rule that names
    the address, because the operator of a host's DNS can point its name at any address.
    """

    kind: str
    allowed_by_host_rule: bool = False


_LOOPBACK = SpecialAddress("a loopback address", allowed_by_host_rule=True)
_PRIVATE = SpecialAddress("a private address", allowed_by_host_rule=True)
_SHARED = SpecialAddress("a carrier's shared address", allowed_by_host_rule=True)
_LINK_LOCAL = SpecialAddress("a link-local address")
_METADATA = SpecialAddress("a cloud metadata address")
_UNSPECIFIED = SpecialAddress("an unspecified address")
_MULTICAST = SpecialAddress("a multicast address")
_DOCUMENTATION = SpecialAddress("a documentation address")
_RESERVED = SpecialAddress("a reserved address")

# The IANA special-purpose registries; the first network that contains an address applies.
_IPV4_RANGES = [
    (IPv4Network("0.0.0.0/8"), _UNSPECIFIED),
    (IPv4Network("10.0.0.0/8"), _PRIVATE),
    (IPv4Network("100.100.100.200/32"), _METADATA),
    (IPv4Network("100.64.0.0/10"), _SHARED),
    (IPv4Network("127.0.0.0/8"), _LOOPBACK),
    (IPv4Network("169.254.0.0/16"), _LINK_LOCAL),
    (IPv4Network("172.16.0.0/12"), _PRIVATE),
    (IPv4Network("192.0.2.0/24"), _DOCUMENTATION),
    (IPv4Network("192.0.0.0/24"), _RESERVED),
    (IPv4Network("192.88.99.0/24"), _RESERVED),
    (IPv4Network("192.168.0.0/16"), _PRIVATE),
    (IPv4Network("198.18.0.0/15"), _RESERVED),
    (IPv4Network("198.51.100.0/24"), _DOCUMENTATION),
    (IPv4Network("203.0.113.0/24"), _DOCUMENTATION),
    (IPv4Network("224.0.0.0/4"), _MULTICAST),
    (IPv4Network("240.0.0.0/4"), _RESERVED),
]
_IPV6_RANGES = [
    (IPv6Network("::/128"), _UNSPECIFIED),
    (IPv6Network("::1/128"), _LOOPBACK),
    (IPv6Network("fd00:ec2::/32"), _METADATA),
    (IPv6Network("fc00::/7"), _PRIVATE),
    (IPv6Network("fe80::/10"), _LINK_LOCAL),
    (IPv6Network("ff00::/8"), _MULTICAST),
    (IPv6Network("2001:db8::/32"), _DOCUMENTATION),
    (IPv6Network("3fff::/20"), _DOCUMENTATION),
    (IPv6Network("2001::/23"), _RESERVED),
]
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def classify_address(address: IPv4Address | IPv6Address) -> SpecialAddress | None:
    """Return the kind of a special address; None if the address is public."""
    if isinstance(address, IPv4Address):
        return next((what for network, what in _IPV4_RANGES if address in network), None)
    embedded = _extract_ipv4(address)
    if embedded is not None:
        return classify_address(embedded)
    found = next((what for network, what in _IPV6_RANGES if address in network), None)
    return found if found or address in _GLOBAL_UNICAST else _RESERVED


def _extract_ipv4(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that packets to this address are sent to."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour
