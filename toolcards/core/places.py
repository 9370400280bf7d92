"""Where a path or a URL leads, by its spelling alone; what two programs could read differently is undecided."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from dataclasses import dataclass
from typing import Final, TypeAlias

UNDECIDED: Final = None
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# ---------------------------------------------------------------- paths


@dataclass(frozen=True, slots=True)
class Place:
    """A path in pieces. `root` is "/", "~", "" (relative), or a Windows drive or share."""

    root: str
    parts: tuple[str, ...]

    @property
    def windows(self) -> bool:
        """Whether names are compared without regard to case."""
        return self.root not in {"/", "~", ""}


_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SHORT_NAME = re.compile(r"~[0-9]")
_GLOB = frozenset("*?[{")
_SPOKEN = frozenset("$%`")  # a variable, an escape, a command: the name is not what stands there
_DOTS = re.compile(r"[. ]+(;.*)?\Z", re.DOTALL)
_LINKS = frozenset({"proc", "dev"})  # trees of links: /proc/self/root leads anywhere


def wanted_path(given: str) -> Place:
    """Return the directory that a rule names; raise ValueError if it is not plain."""
    place = _place(given)
    if place is None or not given or _GLOB & set(given):
        raise ValueError("expects a plain directory, without .., variables or wildcards")
    return place


def inside(path: str, directory: Place) -> bool | None:
    """Return whether the path is the directory or below it, UNDECIDED where the spelling does not tell."""
    place = _place(path)
    if place is None or place.root.casefold() != directory.root.casefold():
        return UNDECIDED
    if place.root == "/" and place.parts[:1] and place.parts[0].casefold() in _LINKS - set(directory.parts[:1]):
        return UNDECIDED
    for ours, theirs in zip(directory.parts, place.parts, strict=False):
        if _GLOB & set(theirs):
            return UNDECIDED
        if ours == theirs:
            continue
        if _folded(ours) == _folded(theirs):
            if place.windows:
                continue
            return UNDECIDED  # the same directory on a disk that ignores case
        return False
    return len(place.parts) >= len(directory.parts)


def _place(path: str) -> Place | None:
    if not path or any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in path):
        return UNDECIDED
    if _DRIVE.match(path):
        return _windows(path[:2].casefold(), path[3:])
    if path.startswith("\\\\"):
        return _windows("\\\\", path[2:])
    if "\\" in path or path.startswith("//") or _SCHEME.match(path) or _SPOKEN & set(path):
        return UNDECIDED
    root, rest = "", path
    if path.startswith("/"):
        root, rest = "/", path[1:]
    elif path.startswith("~"):
        name, _, rest = path.partition("/")
        if name != "~":
            return UNDECIDED
        root = "~"
    parts = tuple(part for part in rest.split("/") if part not in {"", "."})
    return UNDECIDED if any(map(_upwards, parts)) or path != path.strip() else Place(root, parts)


def _upwards(part: str) -> bool:
    """Whether some program may read the name as the directory above, or as more than one name."""
    if part.isascii() and part[0] not in ". ":
        return False
    shown = unicodedata.normalize("NFKC", part)
    return bool(_DOTS.match(shown)) or "/" in shown or "\\" in shown


def _windows(root: str, rest: str) -> Place | None:
    """Windows drops dots and blanks at the end of a name, and knows short names and streams."""
    parts = tuple(part for part in re.split(r"[\\/]", rest) if part not in {"", "."})
    for part in parts:
        if part[-1] in ". " or ":" in part or "%" in part or _SHORT_NAME.search(part):
            return UNDECIDED
    return Place(root, parts)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


# ---------------------------------------------------------------- hosts

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([/?#].*)?", re.ASCII | re.DOTALL)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_SCHEMES = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}


def wanted_host(given: str) -> tuple[str, int | None]:
    """Return the host and port that a rule names; raise ValueError if it is not a plain host."""
    name, wild = (given[2:], "*.") if given.startswith("*.") else (given, "")
    found = _authority(name) if "://" not in name else None
    if found is None or (wild and _is_address(found[0])):
        raise ValueError("expects a host such as example.com or *.example.com (non-Latin names as xn--…)")
    return wild + found[0], found[1]


def parsed_host(url: str) -> tuple[str, int | None] | None:
    """Return host and port of a URL, lower-case and without the last dot; None where programs could disagree."""
    if not url.isascii() or "\\" in url or any(char <= " " or char == "\x7f" for char in url):
        return UNDECIDED
    match = _URL.fullmatch(url)
    if match is None or "@" in match[2]:
        return UNDECIDED
    found = _authority(match[2])
    if found is None:
        return UNDECIDED
    host, port = found
    return host, port if port is not None else _SCHEMES.get(match[1].lower())


def _authority(text: str) -> tuple[str, int | None] | None:
    host, port = text, ""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            return UNDECIDED
        address = _address(host)
        if not isinstance(address, ipaddress.IPv6Address):
            return UNDECIDED
        host, port = str(address.ipv4_mapped or address), rest[1:]
    else:
        host, _, port = text.partition(":")
        host = _name(host)
    if not host or (port and not (port.isascii() and port.isdigit() and int(port[:6]) < 65536)):
        return UNDECIDED
    return host, int(port) if port else None


def _name(host: str) -> str:
    """Return the host name in lower case, or "" if it is not a plain one."""
    name = host.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return ""
    if _NUMERIC.fullmatch(labels[-1]):  # browsers read 0x7f.1 and 2130706433 as addresses
        return name if _address(name) is not None else ""
    return name


def _is_address(host: str) -> bool:
    return _address(host) is not None


# ---------------------------------------------------------------- addresses

_TRANSLATED = tuple(ipaddress.ip_network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))


def networks(given: list[str]) -> tuple[Network, ...]:
    """Return the networks that a rule names; raise ValueError for what is none."""
    found: list[Network] = []
    for text in given:
        try:
            found.append(ipaddress.ip_network(text))
        except ValueError as wrong:
            raise ValueError(f"expects networks such as 10.0.0.0/8: {wrong}") from None
    return tuple(found)


def parsed_address(value: str) -> tuple[Address, bool] | None:
    """Return the address written in a text or URL, and whether it hides another one; None if it is no plain address.

    A v4-mapped address is the v4 address that programs connect to.
    """
    address = _address(value)
    if address is None:
        place = parsed_host(value) if "://" in value else _authority(value)
        address = _address(place[0]) if place else None
    if address is None:
        return UNDECIDED
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped, False
        return address, any(address in network for network in _TRANSLATED) or address.packed[:12] == bytes(12)
    return address, address.packed[0] == 0  # 0.0.0.0 is this very machine


def _address(text: str) -> Address | None:
    """Python refuses leading zeros, hexadecimal and integer forms; zone ids are refused here."""
    if not text.isascii() or "%" in text or "/" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
