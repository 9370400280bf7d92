"""Notifications in words, in the formats of ntfy, Slack and Discord. Text from agents is escaped for each of them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend

from toolcards.client.common import error_codes
from toolcards.client.common.invisible_characters import name_character, replace_invisible
from toolcards.core.calls import tool_events as h
from toolcards.core.text.terminal_sequences import strip_sequences
from toolcards.ids import new_id

TITLE_MOST, TEXT_MOST = 150, 800
TEST = "test"  # the event of a test notification
_RETRY = {True: "Retrying may succeed.", False: "Retrying will not help.", None: ""}
DECISIONS = {"approved": "Approved", "denied": "Denied", "expired": "Expired"}
_OUTCOMES = {
    "ok": "succeeded", "error": "failed", "denied": "was denied", "aborted": "was stopped", "unknown": "sent no result",
}  # fmt: skip
_CAUSES = {"tool": "Caused by the tool.", "runtime": "Not caused by the tool.", "plugin": "Caused by a plugin."}


@dataclass(frozen=True, slots=True)
class Message:
    """A notification for people: title, text, a link to the page where they decide, and severity."""

    title: str
    text: str
    link: str
    severity: str


def build_message(payload: dict[str, Any], severity: str) -> Message:
    """Return the message about the event of a payload."""
    tool = clean(payload.get("tool", {}).get("name", ""), 80)
    source = clean(payload.get("source", ""), 80)
    title, text = _DESCRIPTIONS.get(payload["event"], _describe_event)(payload, tool, source)
    return Message(
        clean(title, TITLE_MOST), clean(text, TEXT_MOST), get_origin() + str(payload.get("url") or "/"), severity
    )


def build_test_payload() -> dict[str, Any]:
    """Return the payload of a test notification."""
    return {
        "event": TEST, "v": 1, "id": new_id("evt"), "ts": None, "source": "Toolcards", "tool": {"name": "a test"},
        "summary": "This is a test notification.", "url": "/",
    }  # fmt: skip


def get_origin() -> str:
    """Return the origin at which people reach this server."""
    site = settings.TOOLCARDS
    return site.origins[0] if site.origins else f"http://{site.host}:{site.port}"


def _describe_approval(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    return f"{source} asks for approval", f"{payload.get('summary') or tool}\n{payload.get('reason', '')}".strip()


def _describe_escalation(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    to = ", ".join(clean(name, 80) for name in payload.get("escalated_to", ()))
    return (
        f"No answer for {source} yet: {tool}",
        f"Escalated to {to}.\n{_describe_approval(payload, tool, source)[1]}".strip(),
    )


def _describe_failure(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    error = payload.get("error", {})
    title = error.get("title") or error_codes.get_title(str(error.get("code"))) or "Failed"
    lines = (
        _CAUSES.get(str(payload.get("authority")), ""),
        _describe_retry(str(error.get("code")), payload.get("retryable")),
        _read_error(payload),
    )
    return f"{tool}: {title}", "\n".join(filter(None, lines))


def _read_error(payload: dict[str, Any]) -> str:
    return strip_sequences(str(payload.get("error", {}).get("message", "")))


def _describe_correction(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    return f"Corrected: {_describe_outcome(payload, tool)}", _read_error(payload)


def _describe_outcome(payload: dict[str, Any], tool: str) -> str:
    outcome = str(payload.get("outcome", ""))
    return f"{tool} {_OUTCOMES.get(outcome, outcome)}".strip()


def _describe_end(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    return _describe_outcome({"outcome": "ok"} | payload, tool), _describe_call(payload, source)


def _describe_start(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    return f"{source} is about to run {tool}", str(payload.get("summary", ""))


def _describe_decision(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    decision = DECISIONS.get(str(payload.get("approval", {}).get("state")), "No longer waiting")
    return f"{decision}: {tool}", _describe_call(payload, source)


def _describe_call(payload: dict[str, Any], source: str) -> str:
    return ": ".join(filter(None, (source, str(payload.get("summary", "")))))


def _describe_retry(code: str, retryable: bool | None) -> str:
    row = error_codes.TABLE.get(code)
    if retryable is False and row is not None and (row.retry in ("idempotent", "unwritten") or code == "lost"):
        return "Check before trying again: it may have run."
    return _RETRY.get(retryable, "")


def _describe_ungoverned(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    return (
        f"{source} ran {tool} without a decision",
        "This source must ask before it runs a tool. Check how it is connected.",
    )


def _describe_silence(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    return f"{source} has lost contact", str(payload.get("why", ""))


def _describe_failing(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    return f"{source} fails repeatedly", str(payload.get("why", ""))


def _describe_fails_open(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    return f"{source} runs tools without approval while this server is down", str(payload.get("why", ""))


def _describe_recovery(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    return f"{source} has recovered", f"Previous state: {payload.get('badge', 'unknown')}."


def _describe_audit_fault(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    return str(payload.get("title", "")), str(payload.get("why", ""))


def _describe_run_failure(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    return f"A run of {source} failed", _read_error(payload)


def _describe_event(payload: dict[str, Any], tool: str, source: str) -> tuple[str, str]:
    title = "Test notification" if payload["event"] == TEST else f"{source}: {payload['event']}"
    return title, str(payload.get("summary", ""))


_DESCRIPTIONS: dict[str, Callable[[dict[str, Any], str, str], tuple[str, str]]] = {
    h.APPROVAL_REQUESTED: _describe_approval,
    h.APPROVAL_ESCALATED: _describe_escalation,
    h.APPROVAL_RESOLVED: _describe_decision,
    h.EXECUTE_BEFORE: _describe_start,
    h.EXECUTE_AFTER: _describe_end,
    h.EXECUTE_SETTLED: _describe_end,
    h.EXECUTE_ERROR: _describe_failure,
    h.EXECUTE_CORRECTED: _describe_correction,
    h.UNGOVERNED: _describe_ungoverned,
    h.RUN_FAILED: _describe_run_failure,
    h.SILENT: _describe_silence,
    h.FAILING: _describe_failing,
    h.FAILS_OPEN: _describe_fails_open,
    h.RECOVERED: _describe_recovery,
    h.AUDIT_BROKEN: _describe_audit_fault,
}


def clean(text: Any, most: int) -> str:
    """Return text from an agent, shortened and with invisible characters named."""
    visible = replace_invisible(str(text), lambda sign: f"[{name_character(sign)}]")
    return visible if len(visible) <= most else visible[: most - 1] + "…"


# ---------------------------------------------------------------- templates: body and headers

_JSON = {"Content-Type": "application/json"}
_NTFY = {"low": 2, "medium": 3, "high": 4, "critical": 5}
_COLORS = {"low": 0x6B7280, "medium": 0x2563EB, "high": 0xD97706, "critical": 0xDC2626}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>:@<])")


def format_ntfy(message: Message) -> tuple[bytes, dict[str, str]]:
    """Return body and headers for ntfy.

    The body is the text; other parts are headers, where text beyond ASCII is encoded as in RFC 2047.
    """
    title = message.title.replace("\n", " ")
    if not title.isascii():
        title = f"=?UTF-8?B?{base64.b64encode(title.encode('utf-8', 'replace')).decode()}?="
    headers = {
        "Title": title, "Priority": str(_NTFY[message.severity]), "Click": message.link,
        "Content-Type": "text/plain; charset=utf-8",
    }  # fmt: skip
    return (message.text or message.title).encode("utf-8", "replace"), headers


def format_slack(message: Message) -> tuple[bytes, dict[str, str]]:
    """Return body and headers for Slack.

    Text from the agent is in plain-text blocks, so none of it is markup. The button is a link.
    """
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": message.title, "emoji": False}},
    ]  # fmt: skip
    if message.text:
        blocks.append({"type": "section", "text": {"type": "plain_text", "text": message.text, "emoji": False}})
    button = {"type": "button", "text": {"type": "plain_text", "text": "Open"}, "url": message.link}
    blocks.append({"type": "actions", "elements": [button]})
    return json.dumps({"text": _escape_slack(message.title), "blocks": blocks}).encode(), _JSON


def format_discord(message: Message) -> tuple[bytes, dict[str, str]]:
    """Return body and headers for Discord: an embed that mentions no one."""
    embed = {
        "title": _escape_discord(message.title)[:256],
        "description": _escape_discord(message.text)[:2000],
        "url": message.link,
        "color": _COLORS[message.severity],
    }  # fmt: skip
    return json.dumps({"embeds": [embed], "allowed_mentions": {"parse": []}}).encode(), _JSON


def _escape_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escape_discord(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


TEMPLATES: dict[str, Callable[[Message], tuple[bytes, dict[str, str]]]] = {
    "ntfy": format_ntfy, "slack": format_slack, "discord": format_discord,
}  # fmt: skip


# Notifications by mail, through the server's SMTP settings (TOOLCARDS_SMTP_URL).
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
