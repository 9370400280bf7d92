"""Checks of the Host and Origin headers, which keep pages of other sites out.

A page of another site can open a socket to this computer, and a name that points here later (DNS rebinding) makes
that page look like ours. So the Host must be a name of this server, and an Origin must be of the same host.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from toolcards.transports.api.api_errors import Problem

_SCHEMES = {"ws": "http", "wss": "https", "http": "http", "https": "https"}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def check_host(scope: Any) -> str:
    """Return the Host header.

    Raises Problem 400 unless it names this server once.
    """
    hosts = _get_headers(scope, b"host")
    allowed_hosts = settings.ALLOWED_HOSTS or (["localhost", "127.0.0.1", "[::1]"] if settings.DEBUG else [])
    if len(hosts) != 1 or not is_allowed_host(hosts[0], tuple(allowed_hosts)):
        raise Problem(400, "bad_host", "This host name is not served here.", close=4400)
    return hosts[0]


@lru_cache(maxsize=256)
def is_allowed_host(host: str, allowed_hosts: tuple[str, ...]) -> bool:
    """Return whether a Host header names one of the allowed hosts."""
    domain = split_domain_port(host)[0]
    return bool(domain) and validate_host(domain, allowed_hosts)


def check_agent_origin(scope: Any) -> None:
    """Raise Problem for another host, or for a page of another site."""
    host = check_host(scope)
    for origin in _get_headers(scope, b"origin"):
        if not (is_own_origin(origin, host, scope.get("scheme", "ws")) or _is_agent_origin(origin, host)):
            raise Problem(403, "origin", "Connections with a browser Origin are not allowed.", close=4403)


def is_own_origin(origin: str, host: str, scheme: str) -> bool:
    """Return whether the origin is this server's own.

    Compares scheme, host and port.
    """
    page, target = _parse_origin(origin), _parse_origin(f"{_SCHEMES.get(scheme, '')}://{host}")
    if page is None or target is None or page.path not in ("", "/"):
        return False
    if any(
        _is_same_origin(page, listed_origin)
        for listed_origin in map(_parse_origin, settings.TOOLCARDS.origins)
        if listed_origin
    ):
        return True
    name = target.hostname or ""
    return validate_host(f"[{name}]" if ":" in name else name, settings.ALLOWED_HOSTS) and _is_same_origin(page, target)


def _is_agent_origin(origin: str, host: str) -> bool:
    """Return whether the origin is one that agents' libraries send.

    That is the requested host itself, with https if a proxy terminates TLS, or another name of this computer.
    """
    page, target = _parse_origin(origin), _parse_origin(f"//{host}")
    if page is None or target is None or page.path not in ("", "/"):
        return False
    if page.scheme == "https" and page.netloc.lower() == host.lower():
        return True
    both = {page.hostname, target.hostname} <= _LOOPBACK
    return both and page.scheme == "http" and (page.port or 80) == (target.port or 80)


def _get_headers(scope: Any, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for header, value in scope["headers"] if header.lower() == name]


def _parse_origin(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        return parts if parts.hostname and parts.port != 0 and "@" not in parts.netloc else None
    except ValueError:
        return None


def _is_same_origin(first: SplitResult, second: SplitResult) -> bool:
    return (first.scheme, first.hostname, _get_port(first)) == (second.scheme, second.hostname, _get_port(second))


def _get_port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)
