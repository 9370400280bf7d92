"""Notifications by mail, through the server's SMTP settings (TOOLCARDS_SMTP_URL)."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend

from toolcards.notifications.formats import Message

SECONDS = 5


def send(to: str, message: Message) -> None:
    """Send the message as plain text; raises OSError.

    `to`: addresses separated by commas.
    """
    addresses = [address.strip() for address in to.split(",") if address.strip()]
    subject = " ".join(message.title.split())
    text = f"{message.text}\n\n{message.link}\n" if message.text else f"{message.link}\n"
    sender = settings.TOOLCARDS.mail_from
    EmailMessage(f"[Toolcards] {subject}", text, sender, addresses, connection=_open_connection()).send()


def _open_connection() -> BaseEmailBackend:
    """Return a connection to `smtp://user:password@host:port` or `smtps://…`; by default, of Django's settings."""
    smtp_url = settings.TOOLCARDS.smtp_url
    url = smtp_url.get_secret_value() if smtp_url else ""
    if not url:
        return get_connection(fail_silently=False)
    parts = urlsplit(url)
    is_secure = parts.scheme == "smtps"
    return get_connection(
        "django.core.mail.backends.smtp.EmailBackend", host=parts.hostname or "localhost", timeout=SECONDS,
        port=parts.port or (465 if is_secure else 587), username=unquote(parts.username or ""),
        password=unquote(parts.password or ""), use_ssl=is_secure, use_tls=parts.scheme == "smtp+starttls",
    )  # fmt: skip
