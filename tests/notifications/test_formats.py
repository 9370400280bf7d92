"""Notifications in words: what each format says, and that no text of an agent becomes markup."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

import json
from typing import Any

import pytest
from django.core import mail as outbox

from toolcards.core.calls import facts as f
from toolcards.models import Webhook
from toolcards.notifications import dispatcher, formats

NASTY = "<b>@everyone</b> *x* [a](https://evil.example) \u202e\u0000"


def build_payload(**more: Any) -> dict[str, Any]:
    return {"event": "tool.execute.error", "source": NASTY, "tool": {"name": NASTY}, "error": {"code": "timeout", "message": NASTY},
            "authority": "tool", "retryable": False, "url": "/runs/r/"} | more  # fmt: skip


@pytest.mark.parametrize("name", list(formats.TEMPLATES))
def test_a_message_says_what_failed_whose_fault_and_whether_to_try_again(name: str, limits: Any) -> None:
    limits(origins=("https://cards.example.com",))
    message = formats.build_message(build_payload(), "medium")
    body, headers = formats.TEMPLATES[name](message)
    text = body.decode() + json.dumps(headers)
    assert (
        "No answer in time" in message.title
        and "Caused by the tool" in message.text
        and "Check before trying again" in message.text
    )
    assert "will not help" in formats.build_message(build_payload(error={"code": "upstream_auth"}), "medium").text
    assert "https://cards.example.com/runs/r/" in text
    assert "\u202e" not in text and "\x00" not in text and "\\u202e" not in text
    assert "approve" not in text.lower()


@pytest.mark.parametrize("event", ["tool.execute.error", "tool.execute.corrected", "run.failed"])
def test_an_error_is_sent_without_terminal_colors_and_an_input_with_marks(event: str) -> None:
    error = {"code": "timeout", "message": "\x1b[31mNo answer\x1b[0m"}
    assert formats.build_message(build_payload(event=event, error=error), "medium").text.endswith("No answer")
    payload = build_payload(event="tool.approval.requested", summary="rm \x1b[8m-rf\x1b[0m x")
    assert "[U+001B][8m-rf" in formats.build_message(payload, "medium").text


@pytest.mark.parametrize(("event", "fields", "title", "text"), [
    ("tool.execute.before", {}, "bot is about to run bash", "git push"),
    ("tool.execute.after", {}, "bash succeeded", "bot: git push"),
    ("tool.execute.settled", {"outcome": "aborted"}, "bash was stopped", "bot: git push"),
    ("tool.execute.corrected", {"outcome": "error", "error": {"message": "no"}}, "Corrected: bash failed", "no"),
    ("approval.resolved", {"approval": {"state": "expired"}}, "Expired: bash", "bot: git push"),
    ("approval.resolved", {"approval": {"state": "cancelled"}}, "No longer waiting: bash", "bot: git push"),
    ("source.recovered", {"badge": "idle"}, "bot has recovered", "Previous state: idle."),
    ("test", {}, "Test notification", "git push"),
])  # fmt: skip
def test_a_message_has_a_title_in_words(event: str, fields: dict[str, Any], title: str, text: str) -> None:
    payload = {"event": event, "source": "bot", "tool": {"name": "bash"}, "summary": "git push", "url": "/"} | fields
    message = formats.build_message(payload, "medium")
    assert (message.title, message.text) == (title, text)


def test_discord_mentions_no_one_and_slack_renders_no_markup() -> None:
    discord = json.loads(formats.format_discord(formats.build_message(build_payload(), "medium"))[0])
    assert discord["allowed_mentions"] == {"parse": []} and "\\[a\\]" in discord["embeds"][0]["title"]
    slack = json.loads(formats.format_slack(formats.build_message(build_payload(), "medium"))[0])
    assert {block["text"]["type"] for block in slack["blocks"] if "text" in block} == {
        "plain_text"
    } and "<b>" not in slack["text"]


def test_mail_is_sent_as_plain_text_with_a_link(db: None, a_run: Any) -> None:
    Webhook.objects.create(
        name="m", format="email", to="ops@example.com, ann@example.com", events='["tool.execute.error"]'
    )
    a_run("r", f.InputReady("c", "bash", {}, True), f.OutputFailed("c", "broke\r\nBcc: x@example.com"))
    dispatcher.send_due()
    (message,) = outbox.outbox
    assert message.to == ["ops@example.com", "ann@example.com"] and "/runs/r/" in message.body
    assert "\n" not in message.subject and not message.bcc
