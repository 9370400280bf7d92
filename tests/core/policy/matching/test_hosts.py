"""Hosts and addresses by their spelling: what is certain about them is so for every program."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.policy.matching.hosts import (
    ANY_PORT,
    Endpoint,
    SchemeAndPort,
    parse_address,
    parse_host_pattern,
    parse_network_pattern,
    parse_url,
)
from toolcards.core.policy.truth import UNDECIDED

# ---------------------------------------------------------------- what agents write
URLS = [
    ("https://a.com", "https", "a.com", 443), ("HTTP://A.Com./x?y#z", "http", "a.com", 80),
    ("https://a.com:8443", "https", "a.com", 8443), ("https://a.com:/", "https", "a.com", 443),
    ("ssh://a", "ssh", "a", 22), ("wss://a/", "wss", "a", 443), ("git://a/", "git", "a", 9418),
    ("foo+x://a_b.c/", "foo+x", "a_b.c", None), ("foo://a:1/", "foo", "a", 1), ("http://a/b@c", "http", "a", 80),
    ("http://[::1]/", "http", "::1", 80), ("http://[0:0::1]:81", "http", "::1", 81),
    ("http://[::ffff:1.2.3.4]/", "http", "1.2.3.4", 80), ("http://1.2.3.4:65535/", "http", "1.2.3.4", 65535),
    ("http://1.2.3.4./", "http", "1.2.3.4", 80), ("http://xn--bcher-kva.example/", "http", "xn--bcher-kva.example", 80),
    ("http://a1.2b/", "http", "a1.2b", 80), (f"http://{'a' * 63}.b/", "http", f"{'a' * 63}.b", 80),
]  # fmt: skip


@loop_over(("url", "scheme", "host", "port"), URLS)
def test_a_url_leads_to_one_host_and_port(url: str, scheme: str, host: str, port: int | None) -> None:
    place = parse_url(url)
    assert place is not None and (place.scheme, place.host, place.port) == (scheme, host, port)


AMBIGUOUS = [
    "", "a.com", "//a.com", "http:a.com", "http:/a.com", "http://", "http:///a", "http://:80", "http://u@a.com",
    "http://a.com@", "http://a.com?@b", "http://a.com#x@b", "http://a\\b", "http://a b", "http://a\n", "http://ä.de",
    "http://a。de", "http://a%2eb", "http://-a.de", "http://a-.de", "http://a..b", "http://.a", "http://a..",
    "http://a:0", "http://a:080", "http://a:65536", "http://a:+1", "http://a:1:2", "http://a:١", "http://[::1",
    "http://[::1]x", "http://[1.2.3.4]", "http://[::1%eth0]", "http://[]", "http://::1", "http://1.2.3", "http://01.2.3.4",
    "http://1.2.3.04", "http://0x7f.1", "http://2130706433", "http://a.0x", "http://a.1", "http://256.1.1.1",
    f"http://{'a' * 64}.b", f"http://{'.'.join(['a' * 60] * 5)}", "1http://a", "h_ttp://a", "http://*.a",
]  # fmt: skip


@loop_over("url", AMBIGUOUS)
def test_a_url_that_programs_read_differently_is_undecided(url: str) -> None:
    assert parse_url(url) is UNDECIDED


SIGNS = st.text(st.sampled_from("ab01.:/@[]?#\\%-_xf "), max_size=14)


@draw(300)
@example("a.com/@b")
@given(SIGNS | st.text(max_size=10))
def test_a_decided_host_is_what_a_parser_of_urls_finds(text: str) -> None:
    url = f"http://{text}"
    place = parse_url(url)
    if place is not UNDECIDED:
        split = urlsplit(url)
        assert split.username is None and (split.port or 80) == place.port and split.hostname is not None
        hostname = split.hostname.removesuffix(".")
        address = place.address
        assert (
            hostname == place.host if address is None else hostname in {place.host, *_spell_address(hostname, address)}
        )


def _spell_address(text: str, address: Any) -> set[str]:
    """Return the text if it is another spelling of the address."""
    parsed = ipaddress.ip_address(text)
    return {text} if address in {parsed, getattr(parsed, "ipv4_mapped", None)} else set()


NAMES = [
    ("https://a.com/", "a.com"), ("http://a.com:80", "a.com"), ("https://a.com:444", "a.com:444"),
    ("ssh://a.com", "ssh://a.com"), ("ssh://a.com:2222/x", "ssh://a.com:2222"), ("foo://a/", "foo://a"),
    ("http://[::1]:81/", "[::1]:81"), ("http://[::1]/", "[::1]"),
]  # fmt: skip


@loop_over(("url", "name"), NAMES)
def test_the_name_of_an_endpoint_is_a_pattern_that_covers_it(url: str, name: str) -> None:
    place = parse_url(url)
    assert place is not None and place.name == name and parse_host_pattern(name).covers(place) is True


ADDRESSES = [
    ("1.2.3.4", "", "1.2.3.4", None), ("1.2.3.4:80", "", "1.2.3.4", 80), ("::1", "", "::1", None),
    ("[::1]:22", "", "::1", 22), ("::ffff:1.2.3.4", "", "1.2.3.4", None), ("http://1.2.3.4/", "http", "1.2.3.4", 80),
    ("0:0:0:0:0:0:0:1", "", "::1", None),
]  # fmt: skip


@loop_over(("text", "scheme", "host", "port"), ADDRESSES)
def test_an_address_is_read_alone_with_a_port_and_in_a_url(text: str, scheme: str, host: str, port: int | None) -> None:
    place = parse_address(text)
    assert place is not None and (place.scheme, place.host, place.port) == (scheme, host, port)
    assert place.address == ipaddress.ip_address(host)


@loop_over(
    "text", ["", "a.com", "http://a.com/", "1.2.3.4/8", "::1%eth0", "1.2.3.4 ", "01.2.3.4", "1", "１.2.3.4", "::1]"]
)
def test_what_is_no_address_is_undecided(text: str) -> None:
    assert parse_address(text) is UNDECIDED


EMBEDDED = [
    ("1.2.3.4", False), ("0.0.0.0", True), ("0.1.2.3", True), ("::1", True), ("::1.2.3.4", True), ("64:ff9b::1", True),
    ("64:ff9b:1::1", True), ("::ffff:0:1.2.3.4", True), ("2002::1", True), ("2001:0::1", True), ("2001:db8::1", False),
    ("fe80::5efe:1.2.3.4", True), ("fe80::200:5efe:1.2.3.4", True), ("fd00::1", False), ("::ffff:1.2.3.4", False),
]  # fmt: skip


@loop_over(("text", "embeds"), EMBEDDED)
def test_an_address_may_hold_another_one(text: str, embeds: bool) -> None:
    place = parse_address(text)
    assert place is not None and place.embeds is embeds


# ---------------------------------------------------------------- what rules name
PATTERNS = [
    ("a.com", "a.com", "", SchemeAndPort()), ("A.com.", "a.com", "", SchemeAndPort()),
    ("*.a.com", "a.com", ".a.com", SchemeAndPort()), ("a.com:8443", "a.com", "", SchemeAndPort("", 8443)),
    ("*.a.com:*", "a.com", ".a.com", SchemeAndPort("", ANY_PORT)), ("SSH://a", "a", "", SchemeAndPort("ssh")),
    ("ssh://*.a:22", "a", ".a", SchemeAndPort("ssh", 22)), ("[::1]:80", "::1", "", SchemeAndPort("", 80)),
    ("1.2.3.4", "1.2.3.4", "", SchemeAndPort()),
]  # fmt: skip


@loop_over(("text", "name", "tail", "way"), PATTERNS)
def test_a_host_of_a_rule_may_name_a_scheme_a_port_and_all_hosts_below(
    text: str, name: str, tail: str, way: SchemeAndPort
) -> None:
    pattern = parse_host_pattern(text)
    assert (pattern.name, pattern.tail, pattern.way) == (name, tail, way)


@loop_over(
    "text",
    [
        "", "*", "*.", "a/b", "a?b", "u@a", "a:80:*", "a:0", "a:x", "*.*.a", "a.*", "*.1.2.3.4", "*.[::1]", "::1",
        "ä.de", "://a", "1x://a", "http://", "a b", "2130706433",
    ],
)  # fmt: skip
def test_a_host_of_a_rule_that_is_not_plain_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expects a host"):
        parse_host_pattern(text)


NETWORKS = [
    ("10.0.0.0/8", "10.0.0.0/8", None), ("10.0.0.0/8:80", "10.0.0.0/8", 80), ("10.0.0.0/8:*", "10.0.0.0/8", ANY_PORT),
    ("fd00::/8", "fd00::/8", None), ("[fd00::/8]", "fd00::/8", None), ("[fd00::/8]:22", "fd00::/8", 22),
    ("1.2.3.4", "1.2.3.4/32", None), ("::1", "::1/128", None),
]  # fmt: skip


@loop_over(("text", "network", "port"), NETWORKS)
def test_a_network_of_a_rule_may_name_a_port(text: str, network: str, port: int | None) -> None:
    pattern = parse_network_pattern(text)
    assert (pattern.network, pattern.way) == (ipaddress.ip_network(network), SchemeAndPort(port=port))


@loop_over(
    "text", ["", "x", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8:0", "10.0.0.0/8:70000", "[fd00::/8]x", "[1.2.3.4/8]:80"]
)
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expects networks"):
        parse_network_pattern(text)


# ---------------------------------------------------------------- what they cover
WAYS = [
    (SchemeAndPort(), "http", 80, True), (SchemeAndPort(), "https", 443, True), (SchemeAndPort(), "http", 443, None),
    (SchemeAndPort(), "http", 8080, None), (SchemeAndPort(), "ssh", 22, None), (SchemeAndPort(), "", None, True),
    (SchemeAndPort(), "", 443, True), (SchemeAndPort(), "", 22, None), (SchemeAndPort("ssh"), "ssh", 22, True),
    (SchemeAndPort("ssh"), "ssh", 23, None), (SchemeAndPort("ssh"), "http", 80, False),
    (SchemeAndPort("ssh"), "", None, False), (SchemeAndPort("foo"), "foo", None, True),
    (SchemeAndPort("", 8443), "https", 8443, True), (SchemeAndPort("", 8443), "https", 443, False),
    (SchemeAndPort("", 8443), "ssh", 8443, None), (SchemeAndPort("", 8443), "", None, None),
    (SchemeAndPort("", 8443), "", 8443, True), (SchemeAndPort("ssh", 2222), "ssh", 2222, True),
    (SchemeAndPort("ssh", 2222), "ssh", 22, False), (SchemeAndPort("", ANY_PORT), "http", 9, True),
    (SchemeAndPort("", ANY_PORT), "ssh", 22, None), (SchemeAndPort("", ANY_PORT), "", None, True),
    (SchemeAndPort("foo", ANY_PORT), "foo", None, True),
]  # fmt: skip


@loop_over(("way", "scheme", "port", "answer"), WAYS)
def test_a_rule_covers_its_scheme_and_port_and_leaves_others_undecided(
    way: SchemeAndPort, scheme: str, port: int | None, answer: bool | None
) -> None:
    assert way.leads_to(Endpoint(scheme, "a", port)) is answer


HOSTS = [
    ("a.com", "http://a.com/", True), ("a.com", "http://b.a.com/", False), ("a.com", "http://xa.com/", False),
    ("*.a.com", "http://b.a.com/", True), ("*.a.com", "http://c.b.a.com/", True), ("*.a.com", "http://a.com/", False),
    ("*.a.com", "http://xa.com/", False), ("a.com", "ssh://a.com/", None), ("a.com", "http://0.0.0.0/", None),
    ("10.0.0.1", "http://10.0.0.1/", True), ("10.0.0.1", "http://[::ffff:a00:1]/", True),
]  # fmt: skip


@loop_over(("pattern", "url", "answer"), HOSTS)
def test_a_host_covers_itself_or_all_below(pattern: str, url: str, answer: bool | None) -> None:
    place = parse_url(url)
    assert place is not None and parse_host_pattern(pattern).covers(place) is answer


def test_a_network_covers_its_addresses_and_no_names() -> None:
    network = parse_network_pattern("10.0.0.0/8")
    answers = {
        text: network.covers(place)
        for text in ("10.1.2.3", "11.0.0.0", "10.1.2.3:22", "0.0.0.0", "fd00::1")
        if (place := parse_address(text))
    }
    assert answers == {"10.1.2.3": True, "11.0.0.0": False, "10.1.2.3:22": None, "0.0.0.0": None, "fd00::1": False}
    assert network.covers(Endpoint("http", "localhost", 80)) is UNDECIDED
