"""Public addresses: those that are in none of the IANA special-purpose registries, in any notation.

The lists are from iana-ipv4-special-registry and iana-ipv6-special-registry as of 2025, with multicast, and with the
reservations of earlier versions. Addresses that the registries call globally reachable but that no webhook receiver can
have (anycast of AS112, relays of 6to4 and Teredo, translators) count as special here too.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, metadata of clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments, DS-Lite, NAT64 discovery, PCP and TURN anycast
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarking
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
# Outside this range, no addresses are assigned to hosts: not ::/8 (loopback, v4-mapped and v4-compatible, NAT64
# 64:ff9b::/96 and 64:ff9b:1::/48), 100::/64 and 100:0:0:1::/64 (discard, dummy), 5f00::/16 (segment routing),
# fc00::/7 (private), fe80::/10 and fec0::/10 (link- and site-local), ff00::/8 (multicast).
GLOBAL_V6 = IPv6Network("2000::/3")
SPECIAL_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarking, AMT, AS112, ORCHID and ORCHIDv2, DETs
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: a v4 address inside
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
            "3ffe::/16",  # 6bone, given back
        ),
    )
)


def is_public(address: Address) -> bool:
    """Return whether the address is public.

    An IPv4 address in IPv6 notation counts as its IPv4 address.
    """
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        return address in GLOBAL_V6 and not any(address in network for network in SPECIAL_V6)
    return not any(address in network for network in SPECIAL_V4)
