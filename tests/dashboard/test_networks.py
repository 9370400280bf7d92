"""What counts as one address of a peer, and which peers are our proxies."""

from __future__ import annotations

import pytest

from dashboard.networks import is_proxy, to_network


@pytest.mark.parametrize(("one", "other", "same"), [
    ("10.0.0.1", "10.0.0.2", False), ("::ffff:10.0.0.1", "10.0.0.1", True), ("2001:db8::1", "2001:db8::ffff:2", True),
    ("2001:db8::1", "2001:db8:0:1::1", False), ("::1", "127.0.0.1", False), ("", "unix", False),
    ("fe80::1%eth0", "fe80::2%eth0", True), ("not an address", "not an address", True),
])  # fmt: skip
def test_what_counts_as_one_address(one: str, other: str, same: bool) -> None:
    assert (to_network(one) == to_network(other)) is same


@pytest.mark.parametrize(("address", "proxies", "is_one"), [
    ("127.0.0.1", (), False), ("127.0.0.1", ("127.0.0.1",), True), ("10.1.2.3", ("10.0.0.0/8",), True),
    ("11.1.2.3", ("10.0.0.0/8", "nonsense"), False), ("", ("127.0.0.1",), False), ("10.1.2.3", ("*",), True),
    ("::1", ("127.0.0.1", "::1"), True), ("2001:db8::1", ("10.0.0.0/8",), False),
])  # fmt: skip
def test_which_peers_are_proxies_of_ours(address: str, proxies: tuple[str, ...], is_one: bool) -> None:
    assert is_proxy(address, proxies) is is_one
