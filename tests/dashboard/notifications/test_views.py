"""Notifications: admins set them up, hostile URLs are refused, messages carry links only, sources show how they are."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import mail as outbox
from django.test import Client

from toolcards.audit.rows import AuditRow
from toolcards.core.calls import facts as f
from toolcards.gate import call_trace
from toolcards.models import Delivery, Event, Run, ToolCall, Webhook
from toolcards.models.write_guard import allow_log_writes
from toolcards.notifications import dispatcher, formats, subscriptions
from toolcards.sources import badges

WANTED = {"name": "ops", "format": "webhook", "url": "https://example.com/hook", "severity": "low", "zone": "UTC"}


@pytest.fixture(autouse=True)
def _nobody_yet() -> Iterator[None]:
    subscriptions.clear_cache()
    yield
    subscriptions.clear_cache()


@pytest.fixture
def admin(a_person: Callable[..., Any], client: Client) -> Client:
    client.force_login(a_person("admin"))
    return client


def test_only_admins_see_and_change_notifications(client: Client, a_person: Callable[..., Any]) -> None:
    assert client.get("/settings/notify/").status_code == 302
    client.force_login(a_person("approver"))
    assert client.get("/settings/notify/").status_code == 403
    assert client.post("/settings/notify/", WANTED).status_code == 403


def test_a_new_webhook_shows_its_secret_once(admin: Client) -> None:
    answer = admin.post("/settings/notify/", WANTED)
    webhook = Webhook.objects.get()
    assert webhook.secret in answer.content.decode() and "no-store" in answer["Cache-Control"]
    assert webhook.secret not in admin.get(f"/settings/notify/{webhook.pk}/").content.decode()
    answer = admin.post(f"/settings/notify/{webhook.pk}/rotate/")
    webhook.refresh_from_db()
    assert webhook.secret in answer.content.decode() and len(webhook.secrets()) == 2


def test_the_recipients_of_escalations_are_set_on_the_page_and_stay(admin: Client) -> None:
    admin.post("/settings/notify/", WANTED | {"escalated_to": "group:lead,  ann\n"})
    webhook = Webhook.objects.get()
    assert webhook.wanted_escalations == ["group:lead", "ann"]
    assert 'value="group:lead, ann"' in admin.get(f"/settings/notify/{webhook.pk}/").content.decode()
    admin.post(f"/settings/notify/{webhook.pk}/", WANTED)
    assert Webhook.objects.get().wanted_escalations == []
    row = AuditRow.objects.get(act="notify.changed")
    assert row.details["escalated_to"] == {"was": ["group:lead", "ann"], "is": []}


@pytest.mark.parametrize("change", [
    {"url": "http://example.com/"}, {"url": "https://127.0.0.1/"}, {"url": "https://169.254.169.254/"}, {"url": ""}, {"url": "javascript:alert(1)"},
    {"format": "email", "url": "", "to": "nobody"}, {"quiet_from": "22:00"}, {"quiet_from": "25:00", "quiet_to": "7:00"}, {"zone": "Mars/North"},
    {"events": ["no.such.event"]}, {"severity": "enormous"}, {"name": ""},
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(admin: Client, change: dict[str, Any]) -> None:
    assert admin.post("/settings/notify/", WANTED | change).status_code == 422
    assert not Webhook.objects.exists()


def test_settings_can_be_changed_switched_and_removed(admin: Client) -> None:
    admin.post("/settings/notify/", WANTED)
    pk = Webhook.objects.get().pk
    assert (
        admin.post(f"/settings/notify/{pk}/", WANTED | {"severity": "high", "events": ["run.failed"]}).status_code
        == 302
    )
    assert Webhook.objects.get().wanted_events == ["run.failed"]
    admin.post(f"/settings/notify/{pk}/switch/")
    assert not Webhook.objects.get().enabled
    assert admin.get(f"/settings/notify/{pk}/remove/").status_code == 405
    assert admin.post(f"/settings/notify/{pk}/nonsense/").status_code == 404
    admin.post(f"/settings/notify/{pk}/remove/")
    assert not Webhook.objects.exists()


def test_a_delivery_can_be_read_and_sent_again(admin: Client, a_run: Any) -> None:
    Webhook.objects.create(name="w", url="https://example.com/")
    a_run("r", f.InputReady("c", "bash", {}, True))
    Delivery.objects.update(state="failed", attempts=10)
    pk = Delivery.objects.get().pk
    assert "tool.execute.before" in admin.get(f"/settings/notify/deliveries/{pk}/").content.decode()
    admin.post(f"/settings/notify/deliveries/{pk}/again/")
    assert Delivery.objects.get().state == "pending"


NASTY = "<b>@everyone</b> *x* [a](https://evil.example) \u202e\u0000"


def said(**more: Any) -> dict[str, Any]:
    return {"event": "tool.execute.error", "source": NASTY, "tool": {"name": NASTY}, "error": {"code": "timeout", "message": NASTY},
            "authority": "tool", "retryable": False, "url": "/runs/r/"} | more  # fmt: skip


@pytest.mark.parametrize("name", list(formats.TEMPLATES))
def test_a_message_says_what_failed_whose_fault_and_whether_to_try_again(name: str, limits: Any) -> None:
    limits(origins=("https://cards.example.com",))
    message = formats.build_message(said(), "medium")
    body, headers = formats.TEMPLATES[name](message)
    text = body.decode() + json.dumps(headers)
    assert (
        "No answer in time" in message.title
        and "Caused by the tool" in message.text
        and "Check before trying again" in message.text
    )
    assert "will not help" in formats.build_message(said(error={"code": "upstream_auth"}), "medium").text
    assert "https://cards.example.com/runs/r/" in text
    assert "\u202e" not in text and "\x00" not in text and "\\u202e" not in text
    assert "approve" not in text.lower()


@pytest.mark.parametrize("event", ["tool.execute.error", "tool.execute.corrected", "run.failed"])
def test_an_error_is_sent_without_terminal_colors_and_an_input_with_marks(event: str) -> None:
    error = {"code": "timeout", "message": "\x1b[31mNo answer\x1b[0m"}
    assert formats.build_message(said(event=event, error=error), "medium").text.endswith("No answer")
    asked = said(event="tool.approval.requested", summary="rm \x1b[8m-rf\x1b[0m x")
    assert "[U+001B][8m-rf" in formats.build_message(asked, "medium").text


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
    discord = json.loads(formats.format_discord(formats.build_message(said(), "medium"))[0])
    assert discord["allowed_mentions"] == {"parse": []} and "\\[a\\]" in discord["embeds"][0]["title"]
    slack = json.loads(formats.format_slack(formats.build_message(said(), "medium"))[0])
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


def test_quiet_hours_hold_back_what_is_not_critical() -> None:
    webhook = Webhook(format="slack", quiet_from="22:00", quiet_to="07:00", zone="Europe/Rome")
    night = datetime(2026, 1, 10, 23, 30, tzinfo=UTC).timestamp()  # 00:30 in Rome
    assert dispatcher.get_quiet_end(webhook, "high", night) == night + 6.5 * 3600
    assert dispatcher.get_quiet_end(webhook, "critical", night) == 0
    assert dispatcher.get_quiet_end(webhook, "high", night + 8 * 3600) == 0


# ---------------------------------------------------------------- health and steps


def codes(now: float | None = None) -> list[str]:
    return [badge.code for entry in badges.list_badges(now=now).values() for badge in entry]


def test_a_source_is_silent_failing_or_fine(a_run: Any, source: Any) -> None:
    run = a_run(
        "r", *(fact for n in range(6) for fact in (f.InputReady(f"c{n}", "t", {}, True), f.OutputFailed(f"c{n}", "x")))
    )
    assert codes() == ["failing"]
    assert "silent" in codes(time.time() + 700)
    with allow_log_writes():
        Run.objects.filter(pk=run.pk).update(protocol="claude-code", updated_at=datetime.now(UTC) - timedelta(hours=2))
    assert codes() == ["failing", "silent", "fails-open"]


def test_what_ran_without_a_decision_is_an_alert(a_run: Any, source: Any, client: Client, a_person: Any) -> None:
    Webhook.objects.create(name="w", url="https://example.com/", severity="critical")
    a_run("r", f.InputReady("c", "bash", {}, True), f.OutputReady("c", 1), f.AnomalyRecorded("c", "ungoverned"))
    assert "ungoverned" in codes()
    delivery = Delivery.objects.get()
    assert (delivery.event, delivery.severity) == ("source.ungoverned", "critical")
    client.force_login(a_person("viewer"))
    assert 'data-health="ungoverned"' in client.get("/sources/").content.decode()


def test_a_runs_steps_are_a_story_without_arguments(a_run: Any, client: Client, a_person: Any) -> None:
    a_run(
        "r", f.StepStarted(), f.InputReady("c", "bash", {"command": "cat hunter2"}, True), f.OutputReady("c", "hunter2"),
        f.InputInvalid("d", "nope", {"x": "hunter2"}, "no", "no_such_tool"), f.StepFinished(), f.RunEnded(outcome="aborted"),
    )  # fmt: skip
    steps = list(call_trace.iterate_steps(Event.objects.order_by("seq")))
    assert [step.phase for step in steps] == ["run", "resolve", "execute", "resolve", "step", "run"]
    assert steps[4].more == {"step": 1, "calls": ["c", "d"], "results": 1, "invalid": ["d"]}
    assert "hunter2" not in str([step.fields for step in steps])
    client.force_login(a_person("viewer"))
    page = client.get("/runs/r/?tab=steps").content.decode()
    assert "Tool ran" in page and "hunter2" not in page


def test_every_phase_is_one_line_in_the_log(a_run: Any, caplog: Any) -> None:
    with caplog.at_level("INFO", logger="toolcards.steps"):
        a_run("r", f.InputReady("c", "bash", {"command": "ls"}, True), f.OutputFailed("c", "hunter2", "timeout"))
    lines = [record.msg for record in caplog.records if record.name == "toolcards.steps"]
    assert [line["phase"] for line in lines] == ["run", "resolve", "execute"]
    assert (lines[2]["run"], lines[2]["call"], lines[2]["code"], lines[2]["outcome"]) == ("r", "c", "timeout", "error")
    assert "hunter2" not in str(lines)


def test_a_failed_card_says_whose_fault_and_whether_to_try_again(a_run: Any, client: Client, a_person: Any) -> None:
    a_run("r", f.InputReady("c", "bash", {"command": "ls"}, True), f.OutputFailed("c", "boom", "timeout"))
    client.force_login(a_person("viewer"))
    call = ToolCall.objects.get()
    page = client.get(f"/calls/{call.public_id}/").content.decode()
    for words in ("No answer in time", "Try again?", "Cause", "the tool", "Similar failures", "boom"):
        assert words in page
