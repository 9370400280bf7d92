"""A happening in words, and how ntfy, Slack and Discord want to be told. Agents' text is escaped for each of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from toolcards.client.common import error_codes
from toolcards.core.calls import tool_events as h
from toolcards.core.redaction.invisible_characters import name_character, replace_invisible

TITLE_MOST, TEXT_MOST = 150, 800
_RETRY = {True: "Retrying may succeed.", False: "Retrying will not help.", None: ""}
_FAULTS = {"tool": "Caused by the tool.", "runtime": "Not caused by the tool.", "plugin": "Caused by a plug-in."}


@dataclass(frozen=True, slots=True)
class Message:
    """What a person reads: a title, a text, a link to look and decide at, and how much it matters."""

    title: str
    text: str
    link: str
    severity: str


def build_message(said: dict[str, Any], severity: str) -> Message:
    """Return the payload in words."""
    tool = _clean(said.get("tool", {}).get("name", ""), 80)
    who = _clean(said.get("source", ""), 80)
    title, text = _DESCRIPTIONS.get(said["event"], _describe_event)(said, tool, who)
    return Message(
        _clean(title, TITLE_MOST), _clean(text, TEXT_MOST), get_origin() + str(said.get("url") or "/"), severity
    )


def get_origin() -> str:
    """Return where people reach this server."""
    known = settings.TOOLCARDS
    return known.origins[0] if known.origins else f"http://{known.host}:{known.port}"


def _describe_approval(said: dict[str, Any], tool: str, who: str) -> tuple[str, str]:
    return f"{who} wants to run {tool}", f"{said.get('summary', '')}\n{said.get('reason', '')}".strip()


def _describe_escalation(said: dict[str, Any], tool: str, who: str) -> tuple[str, str]:
    to = ", ".join(_clean(name, 80) for name in said.get("escalated_to", ()))
    return (
        f"No answer for {who} yet: {tool}",
        f"Asked of {to} now.\n{_describe_approval(said, tool, who)[1]}".strip(),
    )


def _describe_failure(said: dict[str, Any], tool: str, who: str) -> tuple[str, str]:
    error = said.get("error", {})
    title = error.get("title") or error_codes.get_title(str(error.get("code"))) or "It failed"
    told = (
        _FAULTS.get(str(said.get("authority")), ""),
        _describe_retry(str(error.get("code")), said.get("retryable")),
        error.get("message", ""),
    )
    return f"{tool}: {title}", "\n".join(filter(None, told))


def _describe_correction(said: dict[str, Any], tool: str, who: str) -> tuple[str, str]:
    return f"{tool}: {said.get('outcome')} after all", str(said.get("error", {}).get("message", ""))


def _describe_retry(code: str, retryable: bool | None) -> str:
    row = error_codes.TABLE.get(code)
    if retryable is False and row is not None and (row.retry in ("idempotent", "unwritten") or code == "lost"):
        return "Check before trying again: it may have run."
    return _RETRY.get(retryable, "")


def _describe_ungoverned(said: dict[str, Any], tool: str, who: str) -> tuple[str, str]:
    return (
        f"{who} ran {tool} without a decision",
        "This source should ask before it runs anything. Check how it is connected.",
    )


def _describe_silence(said: dict[str, Any], tool: str, who: str) -> tuple[str, str]:
    return f"{who} has lost contact", str(said.get("why", ""))


def _describe_failing(said: dict[str, Any], tool: str, who: str) -> tuple[str, str]:
    return f"{who} fails repeatedly", str(said.get("why", ""))


def _describe_fails_open(said: dict[str, Any], tool: str, who: str) -> tuple[str, str]:
    return f"{who} runs tools without approval while this server is down", str(said.get("why", ""))


def _describe_recovery(said: dict[str, Any], tool: str, who: str) -> tuple[str, str]:
    return f"{who} has recovered", f"It was {said.get('badge', 'in trouble')} before."


def _describe_audit_fault(said: dict[str, Any], tool: str, who: str) -> tuple[str, str]:
    return str(said.get("title", "")), str(said.get("why", ""))


def _describe_run_failure(said: dict[str, Any], tool: str, who: str) -> tuple[str, str]:
    return f"A run of {who} failed", str(said.get("error", {}).get("message", ""))


def _describe_event(said: dict[str, Any], tool: str, who: str) -> tuple[str, str]:
    return f"{who}: {said['event']}", f"{tool} {said.get('summary', '')} {said.get('outcome', '')}".strip()


_DESCRIPTIONS: dict[str, Callable[[dict[str, Any], str, str], tuple[str, str]]] = {
    h.APPROVAL_REQUESTED: _describe_approval,
    h.APPROVAL_ESCALATED: _describe_escalation,
    h.ERROR: _describe_failure,
    h.CORRECTED: _describe_correction,
    h.UNGOVERNED: _describe_ungoverned,
    h.RUN_FAILED: _describe_run_failure,
    h.SILENT: _describe_silence,
    h.FAILING: _describe_failing,
    h.FAILS_OPEN: _describe_fails_open,
    h.RECOVERED: _describe_recovery,
    h.AUDIT_BROKEN: _describe_audit_fault,
}


def _clean(text: Any, most: int) -> str:
    """Text from agents without what cannot be seen, and short."""
    shown = replace_invisible(str(text), lambda sign: f"[{name_character(sign)}]")
    return shown if len(shown) <= most else shown[: most - 1] + "…"


# ---------------------------------------------------------------- templates: body and headers

_JSON = {"Content-Type": "application/json"}
_NTFY = {"low": 2, "medium": 3, "high": 4, "critical": 5}
_COLORS = {"low": 0x6B7280, "medium": 0x2563EB, "high": 0xD97706, "critical": 0xDC2626}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>:@<])")


def format_ntfy(message: Message) -> tuple[bytes, dict[str, str]]:
    """ntfy: the text is the body, the rest is headers; those are ASCII, so words beyond it go in RFC 2047 form."""
    import base64

    title = message.title.replace("\n", " ")
    if not title.isascii():
        title = f"=?UTF-8?B?{base64.b64encode(title.encode('utf-8', 'replace')).decode()}?="
    headers = {
        "Title": title, "Priority": str(_NTFY[message.severity]), "Click": message.link,
        "Content-Type": "text/plain; charset=utf-8",
    }  # fmt: skip
    return (message.text or message.title).encode("utf-8", "replace"), headers


def format_slack(message: Message) -> tuple[bytes, dict[str, str]]:
    """Slack: plain text blocks, where nothing of the agent's is markup, and a button that is a link."""
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": message.title, "emoji": False}},
    ]  # fmt: skip
    if message.text:
        blocks.append({"type": "section", "text": {"type": "plain_text", "text": message.text, "emoji": False}})
    button = {"type": "button", "text": {"type": "plain_text", "text": "Open"}, "url": message.link}
    blocks.append({"type": "actions", "elements": [button]})
    return json.dumps({"text": _escape_slack(message.title), "blocks": blocks}).encode(), _JSON


def format_discord(message: Message) -> tuple[bytes, dict[str, str]]:
    """Discord: an embed; nobody is mentioned, whatever the agent writes."""
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
