"""Outgoing webhooks: signed as Standard Webhooks says, and never sent into a private network.

A URL is vetted and resolved once, and the connection goes to exactly that address, so a name that points elsewhere a
moment later helps nobody. No redirects, 5 seconds in all, at most 64 KiB are read and nothing of it is shown.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from toolcards.notifications.public_addresses import Address, is_public

SECONDS = 5.0
MAX_READ = 64 << 10
MAX_URL = 2_000
_PORTS = frozenset({80, 443})
_NUMBERS = re.compile(r"(0[xX][0-9a-fA-F]*|[0-9]+)")


class UnsafeUrl(ValueError):
    """A URL that is not sent to; the message says why, fit for the person who typed it."""


class NotDelivered(Exception):
    """It was sent, or tried to; `status` is the answer's, 0 if there was none."""

    def __init__(self, why: str, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.status, self.retry_after = status, retry_after


@dataclass(frozen=True, slots=True)
class Target:
    """A vetted URL: where to connect, and what to ask for there."""

    secure: bool
    host: str
    port: int
    address: str
    path: str


# ---------------------------------------------------------------- vetting


def resolve_url(url: str) -> Target:
    """Return where to connect for the URL; raises Hostile."""
    secure, host, port, path = _parse_url(url)
    private = _is_allowed_private(host, port)
    if not secure and not private:
        raise UnsafeUrl("Use https.")
    if port not in _PORTS and port < 1024:
        raise UnsafeUrl(f"Port {port} is not allowed for webhooks.")
    return Target(secure, host, port, _resolve_address(host, port, private), path)


def check_url(url: str) -> None:
    """Raise Hostile for a URL that cannot be right, without asking the network."""
    secure, host, port, _ = _parse_url(url)
    private = _is_allowed_private(host, port)
    if not secure and not private:
        raise UnsafeUrl("Use https.")
    literal = _parse_literal(host)
    if literal is not None and not private and not is_public(literal):
        raise UnsafeUrl(_INSIDE)


_INSIDE = "This address is inside a private network. Its host can be allowed in TOOLCARDS_WEBHOOK_PRIVATE."


def _parse_url(url: str) -> tuple[bool, str, int, str]:
    if len(url) > MAX_URL or not url.isascii() or any(ord(sign) <= 32 or sign in '\\"<>^`{|}' for sign in url):
        raise UnsafeUrl("This is not a valid URL.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UnsafeUrl("This is not a valid URL.") from error
    if parts.scheme not in ("https", "http"):
        raise UnsafeUrl("Use https.")
    if "@" in parts.netloc:
        raise UnsafeUrl("The URL must not contain a user name or password.")
    host = (parts.hostname or "").rstrip(".")
    if not host or "%" in host:
        raise UnsafeUrl("The URL has no host.")
    if ":" not in host and _NUMBERS.fullmatch(host.rpartition(".")[2]):
        _check_dotted(host)
    secure = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return secure, host, port or (443 if secure else 80), path


def _check_dotted(host: str) -> None:
    """A host that ends in a number must be four plain decimal numbers: no octal, no hexadecimal, no short forms."""
    try:
        ipaddress.IPv4Address(host)
    except ValueError as error:
        raise UnsafeUrl("Write the address as four decimal numbers.") from error


def _parse_literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_allowed_private(host: str, port: int) -> bool:
    """Whether whoever runs this server allows that very host, though it may be private."""
    names = {name.lower() for name in settings.TOOLCARDS.webhook_private}
    return host.lower() in names or f"{host.lower()}:{port}" in names


def _resolve_address(host: str, port: int, private: bool) -> str:
    """The address to connect to; every address of the host must be public, lest the next one chosen is not."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotDelivered("The host name cannot be resolved.") from error
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    if not addresses:
        raise NotDelivered("The host name cannot be resolved.")
    if not private and not all(map(is_public, addresses)):
        raise UnsafeUrl(_INSIDE)
    return str(addresses[0])


# ---------------------------------------------------------------- signing


def build_signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """Return one signature: `v1,` and the HMAC over id, time and body, in base64."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = b"%s.%d.%s" % (event_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def sign(secrets: Iterable[str], event_id: str, body: bytes, now: float | None = None) -> dict[str, str]:
    """Return the headers of a delivery, signed with every secret that is live."""
    timestamp = int(time.time() if now is None else now)
    return {
        "webhook-id": event_id, "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(build_signature(secret, event_id, timestamp, body) for secret in secrets),
    }  # fmt: skip


# ---------------------------------------------------------------- sending


def post(url: str, body: bytes, headers: Mapping[str, str], seconds: float | None = None) -> int:
    """Send it, within `seconds` (SECONDS); return a 2xx answer's status. Raises Hostile, else NotDelivered."""
    target = resolve_url(url)
    link = _TimedConnection(target, SECONDS if seconds is None else seconds)
    try:
        sent = {"User-Agent": "Toolcards", "Connection": "close", **headers}
        link.request("POST", target.path, body=body, headers=sent)
        answer = link.getresponse()
        answer.read(MAX_READ)  # so that the other side sees its answer taken; nothing of it is kept
        status, after = answer.status, answer.headers.get("Retry-After", "")
        if link.expired:  # what was cut off reads like an end
            raise TimeoutError
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotDelivered("No answer in time." if link.expired else f"No answer: {type(error).__name__}.") from error
    finally:
        link.close()
    if 200 <= status < 300:
        return status
    why = (
        "The receiver redirects; redirects are not followed."
        if 300 <= status < 400
        else f"The receiver answered {status}."
    )
    raise NotDelivered(why, status, _parse_retry_after(after))


def _parse_retry_after(retry_after: str) -> float | None:
    """Return what Retry-After asks for, an hour at most; None for a date, or for what is no number."""
    plain = retry_after.isascii() and retry_after.isdigit()
    return min(float(retry_after[:9]), 3600.0) if plain else None


class _TimedConnection(http.client.HTTPConnection):
    """A connection to the vetted address that is cut when the time is up, however slowly the other side trickles."""

    def __init__(self, target: Target, seconds: float) -> None:
        super().__init__(target.host, target.port, timeout=seconds)
        self.target, self.expired = target, False
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def connect(self) -> None:
        """Connect to the address, not to the name; the certificate must be the name's."""
        self._timer.start()
        plain = socket.create_connection((self.target.address, self.target.port), self.timeout)
        self.sock = plain
        if self.target.secure:
            self.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=self.target.host)

    def close(self) -> None:
        """Close, and stop the clock."""
        self._timer.cancel()
        super().close()

    def _cut(self) -> None:
        self.expired = True
        if self.sock is not None:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
