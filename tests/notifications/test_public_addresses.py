"""Webhooks go out into the internet and nowhere else: every row of the IANA special-purpose registries is refused."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.notifications import webhooks
from toolcards.notifications.public_addresses import is_public

V4 = (
    "0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32",
    "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.88.99.2/32", "192.168.0.0/16",
    "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "233.252.0.0/24",
    "240.0.0.0/4", "255.255.255.255/32",
)  # fmt: skip
V6 = (
    "::1/128", "::/128", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64",
    "2001::/23", "2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:2::/48", "2001:3::/32",
    "2001:4:112::/48", "2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32", "2002::/16",
    "2620:4f:8000::/48", "3fff::/20", "3ffe::/16", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10",
    "ff00::/8", "4000::/3", "8000::/1",
)  # fmt: skip
OUT = (
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "128.0.0.0", "169.253.255.255",
    "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.88.98.255", "192.88.100.0",
    "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "203.0.114.0", "223.255.255.255",
    "2001:200::", "2001:4860:4860::8888", "2606:4700::1111", "2a00:1450::1", "2003::1", "2620:4f:7fff::", "3fff:1000::",
    "::ffff:1.1.1.1",
)  # fmt: skip


@loop_over("network", [*V4, *V6])
def test_a_special_range_is_refused_from_its_first_address_to_its_last(network: str) -> None:
    every = ip_network(network)
    middle = every[every.num_addresses // 2]
    assert not any(map(is_public, (every[0], middle, every[-1])))


@loop_over("network", V4)
def test_a_special_address_is_no_better_written_as_another_kind(network: str) -> None:
    first = ip_network(network)[0]
    inside = f"{int(first) >> 16:x}:{int(first) & 0xFFFF:x}"
    for text in (f"::ffff:{first}", f"::{first}", f"64:ff9b::{first}", f"64:ff9b:1::{first}", f"2002:{inside}::"):
        assert not is_public(ip_address(text)), text


@loop_over("address", OUT)
def test_an_address_of_the_internet_passes_and_so_do_the_neighbours_of_special_ranges(address: str) -> None:
    assert is_public(ip_address(address))


@given(st.ip_addresses())
def test_nothing_passes_that_the_library_calls_special(address: Any) -> None:
    if is_public(address):
        mapped = getattr(address, "ipv4_mapped", None) or address
        assert not (mapped.is_private or mapped.is_multicast or mapped.is_reserved or mapped.is_loopback)
        assert not (mapped.is_link_local or mapped.is_unspecified)


@given(st.integers(0, 2**32 - 1))
def test_a_v4_address_is_judged_alike_however_it_is_mapped(number: int) -> None:
    address = IPv4Address(number)
    assert is_public(address) == is_public(ip_address(f"::ffff:{address}"))


@pytest.mark.parametrize("address", ["192.0.0.1", "192.0.0.171", "192.88.99.1", "[100::1]", "[fec0::1]", "[3fff::1]"])
def test_a_url_with_such_an_address_is_refused(address: str) -> None:
    for check in (webhooks.check_url, webhooks.resolve_url):
        with pytest.raises(webhooks.UnsafeUrl):
            check(f"https://{address}/hook")
        with pytest.raises(webhooks.UnsafeUrl):
            check(f"https://{address}/hook", webhooks.BY_BROWSERS)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5.0), ("0", 0.0), ("99999", 3600.0), ("9" * 5_000, 3600.0), ("", None), ("²", None), ("٣", None),
        ("１", None), ("-1", None), ("1.5", None), ("1e3", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), (" 5", None),
        ("0x10", None),
    ],
)  # fmt: skip
def test_retry_after_is_believed_only_as_a_plain_number(text: str, seconds: float | None) -> None:
    assert webhooks._parse_retry_after(text) == seconds
