"""Network addresses of peers: what counts as one address, and which peers are our own proxies."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable


def to_network(address: str) -> str:
    """Return what counts as one address: for IPv6, the /64 network."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, 64), strict=False))


def is_proxy(address: str, proxies: Iterable[str]) -> bool:
    """Return whether this is our proxy (`TOOLCARDS_PROXY`), which sends for many addresses."""
    for proxy in proxies:
        if proxy in ("*", address):
            return True
        try:
            if ipaddress.ip_address(address) in ipaddress.ip_network(proxy, strict=False):
                return True
        except ValueError:
            continue
    return False
