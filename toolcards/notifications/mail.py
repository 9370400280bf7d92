"""Notifications by mail, through the server's SMTP settings (TOOLCARDS_SMTP_URL)."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend

from toolcards.notifications.formats import Message

SECONDS = 5


def send(to: str, message: Message) -> None:
    """Send the message as plain text to the addresses between commas; raises OSError."""
    addresses = [address.strip() for address in to.split(",") if address.strip()]
    subject = " ".join(message.title.split())
    text = f"{message.text}\n\n{message.link}\n" if message.text else f"{message.link}\n"
    sender = settings.TOOLCARDS.mail_from
    EmailMessage(f"[Toolcards] {subject}", text, sender, addresses, connection=_open_connection()).send()


def _open_connection() -> BaseEmailBackend:
    """The mail server named by `smtp://user:password@host:port` or `smtps://…`; without one, Django's own setting."""
    given = settings.TOOLCARDS.smtp_url
    url = given.get_secret_value() if given else ""
    if not url:
        return get_connection(fail_silently=False)
    parts = urlsplit(url)
    secure = parts.scheme == "smtps"
    return get_connection(
        "django.core.mail.backends.smtp.EmailBackend", host=parts.hostname or "localhost", timeout=SECONDS,
        port=parts.port or (465 if secure else 587), username=unquote(parts.username or ""),
        password=unquote(parts.password or ""), use_ssl=secure, use_tls=parts.scheme == "smtp+starttls",
    )  # fmt: skip
