"""Outgoing webhooks: signed as in Standard Webhooks, and never sent into a private network.

A URL is checked and resolved once, and the connection goes to exactly that address, so DNS rebinding has no effect.
Redirects are not followed. A request takes at most 5 seconds; at most 64 KiB of the response are read, and only those
of reviewers are used (toolcards/reviewers).
Retries are in dispatcher.py.
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
# The settings that allow private hosts one by one: who may name a host differs, so what it may be does.
BY_ADMINS, BY_BROWSERS = "webhook_private", "push_private"
_PORTS = frozenset({80, 443})
_NUMBERS = re.compile(r"(0[xX][0-9a-fA-F]*|[0-9]+)")


class UnsafeUrl(ValueError):
    """A URL that is not allowed; the message explains why to the person who entered it."""


class NotDelivered(Exception):
    """The delivery failed; `status` is that of the response, 0 without one."""

    def __init__(self, why: str, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.status, self.retry_after = status, retry_after


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """A checked URL: the address to connect to, and the path to request."""

    secure: bool
    host: str
    port: int
    address: str
    path: str


# ---------------------------------------------------------------- vetting


def resolve_url(url: str, setting: str = BY_ADMINS) -> WebhookTarget:
    """Return the target of the URL; raises UnsafeUrl or NotDelivered.

    `setting`: the one that allows private hosts.
    """
    secure, host, port, path = _parse_url(url)
    private = _is_allowed_private(host, port, setting)
    if not secure and not private:
        raise UnsafeUrl("Use https.")
    if port not in _PORTS and port < 1024:
        raise UnsafeUrl(f"Port {port} is not allowed for webhooks.")
    return WebhookTarget(secure, host, port, _resolve_address(host, port, "" if private else setting), path)


def check_url(url: str, setting: str = BY_ADMINS) -> None:
    """Check the URL without a DNS lookup; raises UnsafeUrl."""
    secure, host, port, _ = _parse_url(url)
    private = _is_allowed_private(host, port, setting)
    if not secure and not private:
        raise UnsafeUrl("Use https.")
    literal = _parse_literal(host)
    if literal is not None and not private and not is_public(literal):
        raise UnsafeUrl(_describe_inside(setting))


def _describe_inside(setting: str) -> str:
    return f"This address is inside a private network. Its host can be allowed in TOOLCARDS_{setting.upper()}."


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
    """Require four decimal numbers for a host that ends in a number: no octal, hexadecimal or short forms."""
    try:
        ipaddress.IPv4Address(host)
    except ValueError as error:
        raise UnsafeUrl("Write the address as four decimal numbers.") from error


def _parse_literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_allowed_private(host: str, port: int, setting: str) -> bool:
    """Return whether the setting allows exactly this host, although it may be private."""
    names = {name.lower() for name in getattr(settings.TOOLCARDS, setting)}
    return host.lower() in names or f"{host.lower()}:{port}" in names


def _resolve_address(host: str, port: int, setting: str) -> str:
    """Return the address to connect to.

    All addresses of the host must be public, unless no setting is named that could allow it.
    """
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotDelivered("The host name cannot be resolved.") from error
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries]
    if not addresses:
        raise NotDelivered("The host name cannot be resolved.")
    if setting and not all(map(is_public, addresses)):
        raise UnsafeUrl(_describe_inside(setting))
    return str(addresses[0])


# ---------------------------------------------------------------- signing


def build_signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """Return a signature: `v1,` and the base64 HMAC."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = b"%s.%d.%s" % (event_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def sign(secrets: Iterable[str], event_id: str, body: bytes, now: float | None = None) -> dict[str, str]:
    """Return the headers of a delivery, with a signature per secret."""
    timestamp = int(time.time() if now is None else now)
    return {
        "webhook-id": event_id, "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(build_signature(secret, event_id, timestamp, body) for secret in secrets),
    }  # fmt: skip


# ---------------------------------------------------------------- sending


def post(
    url: str, body: bytes, headers: Mapping[str, str], seconds: float | None = None, setting: str = BY_ADMINS
) -> int:
    """Send the request; return the status if it is 2xx.

    `seconds`: time limit, SECONDS by default. `setting`: the one that allows private hosts. Raises UnsafeUrl or
    NotDelivered.
    """
    return post_and_read(url, body, headers, seconds, setting)[0]


def post_and_read(
    url: str, body: bytes, headers: Mapping[str, str], seconds: float | None = None, setting: str = BY_ADMINS
) -> tuple[int, bytes]:
    """Send the request; return the status and the response.

    See `post`. The response is cut at MAX_READ.
    """
    target = resolve_url(url, setting)
    link = _TimedConnection(target, SECONDS if seconds is None else seconds)
    try:
        all_headers = {"User-Agent": "Toolcards", "Connection": "close", **headers}
        link.request("POST", target.path, body=body, headers=all_headers)
        answer = link.getresponse()
        content = answer.read(MAX_READ)  # also so that the receiver sees its response read
        status, after = answer.status, answer.headers.get("Retry-After", "")
        if link.expired:  # a connection that was cut reads like the end of the body
            raise TimeoutError
    except (OSError, http.client.HTTPException, ValueError) as error:
        is_late = link.expired or isinstance(error, TimeoutError)
        raise NotDelivered("No answer in time." if is_late else f"No answer: {type(error).__name__}.") from error
    finally:
        link.close()
    if 200 <= status < 300:
        return status, content
    why = (
        "The receiver redirects; redirects are not followed."
        if 300 <= status < 400
        else f"The receiver answered {status}."
    )
    raise NotDelivered(why, status, _parse_retry_after(after))


def _parse_retry_after(retry_after: str) -> float | None:
    """Return the seconds in Retry-After, at most an hour; None for a date or an invalid value."""
    is_number = retry_after.isascii() and retry_after.isdigit()
    return min(float(retry_after[:9]), 3600.0) if is_number else None


class _TimedConnection(http.client.HTTPConnection):
    """A connection to the checked address that is cut at its time limit, even if the receiver sends slowly."""

    def __init__(self, target: WebhookTarget, seconds: float) -> None:
        super().__init__(target.host, target.port, timeout=seconds)
        self.target, self.expired = target, False
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def connect(self) -> None:
        """Connect to the address; the certificate must match the host name."""
        self._timer.start()
        plain = socket.create_connection((self.target.address, self.target.port), self.timeout)
        self.sock = plain
        if self.target.secure:
            self.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=self.target.host)

    def close(self) -> None:
        """Close the connection and cancel its timer."""
        self._timer.cancel()
        super().close()

    def _cut(self) -> None:
        self.expired = True
        if self.sock is not None:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
