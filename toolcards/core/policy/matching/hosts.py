"""Hosts and addresses in URLs, by spelling alone; ambiguous spellings are UNDECIDED.

A rule that names a host covers http and https on their default ports, unless it names another scheme or port.
Other ways to the same host (ssh, another port) are UNDECIDED, so that ask and deny hold for them and allow does not.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from toolcards.core.policy.truth import UNDECIDED

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
ANY_PORT: Final = -1
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21, "ssh": 22, "sftp": 22, "git": 9418}
_WEB = frozenset({"http", "https"})
_WEB_PORTS = frozenset({80, 443})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a URL or an address leads.

    `scheme` is "" for a bare address, `port` None where none is written and the scheme has no default.
    `embeds`: the address holds another one, to which some programs connect.
    """

    scheme: str
    host: str
    port: int | None
    address: Address | None = None
    embeds: bool = False

    @property
    def name(self) -> str:
        """Return how a rule names this host, reached in this way."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "" if self.scheme in _WEB else f"{self.scheme}://"
        return scheme + host + ("" if self.port in (None, _PORTS.get(self.scheme)) else f":{self.port}")


@dataclass(frozen=True, slots=True)
class SchemeAndPort:
    """The scheme and port that a rule covers.

    `scheme` "" is http and https; `port` None is the default one, ANY_PORT every one.
    """

    scheme: str = ""
    port: int | None = None

    def leads_to(self, place: Endpoint) -> bool | None:
        """Return whether the endpoint is reached this way.

        UNDECIDED for ways that the rule does not cover.
        """
        if self.scheme and place.scheme != self.scheme:
            return False
        if self.port is not None and self.port != ANY_PORT and place.port != self.port:
            return False if place.port is not None else UNDECIDED
        if not self.scheme and place.scheme and place.scheme not in _WEB:
            return UNDECIDED
        if self.port is not None:
            return True
        if not place.scheme:
            return True if place.port is None or place.port in _WEB_PORTS else UNDECIDED
        return True if place.port == _PORTS.get(place.scheme) else UNDECIDED


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host that a rule names, or every host below it (`tail`)."""

    name: str
    tail: str
    way: SchemeAndPort

    def covers(self, place: Endpoint) -> bool | None:
        """Return whether the endpoint is this host, reached this way."""
        same = place.host.endswith(self.tail) if self.tail else place.host == self.name
        if same:
            return self.way.leads_to(place)
        return UNDECIDED if place.embeds else False


@dataclass(frozen=True, slots=True)
class NetworkPattern:
    """A network that a rule names, and the ports on it."""

    network: Network
    way: SchemeAndPort

    def covers(self, place: Endpoint) -> bool | None:
        """Return whether the endpoint's address is in the network."""
        if place.address is None:
            return UNDECIDED
        if place.address in self.network:
            return self.way.leads_to(place)
        return UNDECIDED if place.embeds else False


# ---------------------------------------------------------------- what rules name

_HOST_PATTERN = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*)://)?(\*\.)?(.+?)(:\*)?", re.ASCII)


def parse_host_pattern(text: str) -> HostPattern:
    """Parse a host in a rule: `example.com`, `*.example.com:8443`, `ssh://example.com`.

    Raises ValueError if it is not a plain host.
    """
    match = _HOST_PATTERN.fullmatch(text)
    authority = _parse_authority(match[3]) if match else None
    name, port = authority or ("", None)
    if match is None or not name or (match[4] and port is not None) or (match[2] and _read_address(name)):
        raise ValueError("expects a host such as example.com or *.example.com:8443 (non-Latin names as xn--…)")
    way = SchemeAndPort((match[1] or "").lower(), ANY_PORT if match[4] else port)
    return HostPattern(name, f".{name}" if match[2] else "", way)


_NETWORK = re.compile(r"\[([^\[\]]+)\](?::(\*|[0-9]{1,5}))?|([^\[\]:]+):(\*|[0-9]{1,5})", re.ASCII)


def parse_network_pattern(text: str) -> NetworkPattern:
    """Parse a network in a rule: `10.0.0.0/8`, `10.0.0.0/8:8080`, `[fd00::/8]:*`.

    Raises ValueError if it is not a network.
    """
    match = _NETWORK.fullmatch(text)
    name, port = (match[1] or match[3], match[2] or match[4]) if match else (text, None)
    try:
        number = ANY_PORT if port == "*" else _parse_port(port or "")
        if port and number is UNDECIDED:
            raise ValueError(f"{port} is not a port")
        return NetworkPattern(ipaddress.ip_network(name), SchemeAndPort(port=number))
    except ValueError as wrong:
        raise ValueError(f"expects networks such as 10.0.0.0/8 or 10.0.0.0/8:8080: {wrong}") from None


# ---------------------------------------------------------------- what agents write

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([/?#].*)?", re.ASCII | re.DOTALL)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_LATE_USER = re.compile(r"[?#][^/]*@")  # some programs look for the user name up to the first slash
_ODD = re.compile(r"[^!-~]|\\")  # blanks, control characters, anything beyond ASCII, backslashes


def parse_url(url: str) -> Endpoint | None:
    """Return where a URL leads, with its host in lower case.

    UNDECIDED where programs could disagree: a user name, a backslash, an escape, an address in numbers, …
    """
    match = None if _ODD.search(url) else _URL.fullmatch(url)
    authority = _parse_authority(match[2]) if match and "@" not in match[2] else None
    if match is None or authority is None or _LATE_USER.match(match[3] or ""):
        return UNDECIDED
    return _make_endpoint(match[1].lower(), *authority)


def parse_address(text: str) -> Endpoint | None:
    """Return the IP address in a text or URL, UNDECIDED without one."""
    place: Endpoint | None
    if "://" in text:
        place = parse_url(text)
    elif (alone := _read_address(text)) is not None:  # an IPv6 address without brackets
        place = _make_endpoint("", _format_address(alone), None)
    else:
        authority = None if _ODD.search(text) else _parse_authority(text)
        place = _make_endpoint("", *authority) if authority else None
    return place if place and place.address is not None else UNDECIDED


def _make_endpoint(scheme: str, host: str, port: int | None) -> Endpoint:
    address = _read_address(host)
    embeds = address is not None and _embeds_address(address)
    return Endpoint(scheme, host, _PORTS.get(scheme) if port is None else port, address, embeds)


def _parse_authority(text: str) -> tuple[str, int | None] | None:
    """Return the host and the written port, UNDECIDED if ambiguous."""
    if text.startswith("["):
        inner, bracket, remainder = text[1:].partition("]")
        address = _read_address(inner)
        if (
            not bracket
            or (remainder and not remainder.startswith(":"))
            or not isinstance(address, ipaddress.IPv6Address)
        ):
            return UNDECIDED
        host, port = _format_address(address), remainder[1:]
    else:
        host, _, port = text.partition(":")
        host = _normalize_host(host)
    number = _parse_port(port)
    if not host or (port and number is UNDECIDED):
        return UNDECIDED
    return host, number


def _parse_port(text: str) -> int | None:
    plain = text.isascii() and text.isdigit() and text[0] != "0" and len(text) < 6
    return int(text) if plain and int(text) < 65536 else None


def _normalize_host(host: str) -> str:
    """Return the host name in lower case, "" if ambiguous."""
    name = host.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return ""
    if _NUMERIC.fullmatch(labels[-1]):  # browsers read 0x7f.1 and 2130706433 as addresses
        return name if _read_address(name) is not None else ""
    return name


# ---------------------------------------------------------------- addresses

# NAT64, SIIT, 6to4 and Teredo: the address of another machine is part of this one.
_TRANSLATED = tuple(
    ipaddress.ip_network(text)
    for text in ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96", "2002::/16", "2001::/32")
)
_ISATAP = frozenset({bytes.fromhex("00005efe"), bytes.fromhex("02005efe")})


def _embeds_address(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return address.packed[0] == 0  # 0.0.0.0 is this machine
    is_translated = any(address in network for network in _TRANSLATED)
    return is_translated or address.packed[:12] == bytes(12) or address.packed[8:12] in _ISATAP


def _format_address(address: Address) -> str:
    """Return the address in one spelling, v4-mapped ones as v4."""
    mapped_address = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped_address or address)


def _read_address(text: str) -> Address | None:
    """Return the address, None for any ambiguous form.

    Python refuses leading zeros, hexadecimal and integer forms; zone ids are refused here.
    """
    if not text.isascii() or "%" in text or "/" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
