"""Whether a URL leads to a private network or a cloud's metadata, or has a secret in it; names are not resolved.

This machine does not count: fetching from localhost is what developers do.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from urllib.parse import quote, unquote

from toolcards.core.policy.matching.hosts import Endpoint, parse_url
from toolcards.core.policy.matching.spelled_words import HIDDEN
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN, Truth, to_truth
from toolcards.core.redaction.detectors import find_secrets

_NETWORKS = tuple(
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "192.0.0.0/24",
        "168.63.129.16/32", "fc00::/7", "fe80::/10", "fec0::/10",
    )
)  # fmt: skip
_THIS_MACHINE = frozenset({"localhost", "host.docker.internal", "0.0.0.0"})  # noqa: S104 - an address that agents write
_NAMES = frozenset({"metadata", "metadata.google.internal", "instance-data", "kubernetes", "kubernetes.default"})
_TAILS = (
    ".internal", ".local", ".localdomain", ".lan", ".home.arpa", ".intranet", ".corp", ".svc", ".private", ".home",
)  # fmt: skip
_WEB = re.compile(r"(https?|wss?|ftps?)[:;]/*", re.I)
_MAPPED = re.compile(r"(?<![0-9])(\d{1,3})[.-](\d{1,3})[.-](\d{1,3})[.-](\d{1,3})(?=[.-])")
_MAPPING = re.compile(r"\.(?:nip|sslip|xip)\.io\Z")  # names that lead to the address that they spell
_SECRETS = re.compile(r"[?&#;][^=&#]*=|//[^/?#]*@|[A-Za-z0-9_\-]{16}")
_HIDDEN_PORT = re.compile(r"(?<=[^/?#]):\*(?=[/?#]|\Z)")
_LETTER = re.compile(r"[a-z]", re.IGNORECASE)
_AUTHORITY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#\\]*)(.*)", re.DOTALL)


def is_web_url(text: str) -> bool:
    """Return whether the text is a URL that can be fetched."""
    return _WEB.match(text) is not None


def leads_inside(url: str) -> Truth:
    """Return whether the URL leads to a private network.

    UNKNOWN if programs may read it in different ways.
    """
    url = _HIDDEN_PORT.sub("", _normalize(url))
    match = _AUTHORITY.fullmatch(url)
    if match is not None and HIDDEN in match[2]:
        if match[2].partition(":")[0] == HIDDEN:
            return FALSE
        if not _LETTER.search(match[2]):
            return UNKNOWN  # an address of which only a part is spelled
        url = match[1] + match[2].replace(HIDDEN, "x") + match[3]
    place = parse_url(url)
    if place is None:
        return UNKNOWN
    if place.address is None:
        return _is_private_name(place)
    if place.host in _THIS_MACHINE or place.address.is_loopback:
        return FALSE
    if any(place.address in network for network in _NETWORKS if network.version == place.address.version):
        return TRUE
    return UNKNOWN if place.embeds else FALSE


def _is_private_name(place: Endpoint) -> Truth:
    name = place.host
    if name in _THIS_MACHINE or name.endswith(".localhost"):
        return FALSE
    if name in _NAMES or name.endswith(_TAILS):
        return TRUE
    if _MAPPING.search(name):
        addresses = (".".join(match.groups()) for match in _MAPPED.finditer(name))
        return max((leads_inside(f"http://{address}/") for address in addresses), default=FALSE)
    return UNKNOWN if "." not in name else FALSE  # a name of this network, or of a container


def _normalize(url: str) -> str:
    """Return the URL in ASCII with `//` after its scheme, as browsers and fetchers send it."""
    scheme = _WEB.match(url)
    url = f"{scheme[1].lower()}://{url[scheme.end() :]}" if scheme else url
    match = _AUTHORITY.fullmatch(url)
    if match is None:
        return url
    host = match[2].rpartition("@")[2]  # what is before it is a user name
    if not host.isascii() or "%" in host:
        host = unicodedata.normalize("NFKC", unquote(host))
        try:
            host = host if host.isascii() else host.encode("idna").decode()
        except UnicodeError:
            return ""
    return match[1] + host + quote(match[3], safe="/?#[]!$&'()+,;=*:%~\\-._")


def has_secret(url: str) -> Truth:
    """Return whether a part of the URL is a secret."""
    if not _SECRETS.search(url):
        return FALSE
    works = [text.encode("utf-8", "replace") for text in (url, unquote(url))]
    return to_truth(any(span.kind for work in works for span in find_secrets(work, work.decode("latin-1"))))
