"""The forms of notifications: what is saved, addresses that are refused, and subscriptions of browsers."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.test import Client

from dashboard.notifications.forms import (
    EVENT_WORDS,
    FORMATS,
    BrowserForm,
    SeverityForm,
    WebhookForm,
    get_initial_values,
)
from tests.support.push_service import BROWSER, ENDPOINT
from tests.support.tables import loop_over
from toolcards.core.calls.tool_events import EVENTS
from toolcards.models import Source, Webhook
from toolcards.models.notifications import SEVERITIES
from toolcards.notifications.webhooks import MAX_URL

FIELDS = {"name": "ops", "format": "webhook", "url": "https://example.com/hook", "severity": "low", "zone": "UTC"}


def find_errors(change: dict[str, Any], webhook: Webhook | None = None) -> set[str]:
    return set(WebhookForm(FIELDS | change, webhook=webhook).errors)


def save(change: dict[str, Any], webhook: Webhook | None = None) -> Webhook:
    form = WebhookForm(FIELDS | change, webhook=webhook)
    assert form.is_valid(), form.errors
    return form.save("ann")


def test_every_event_has_words_of_its_own() -> None:
    assert EVENT_WORDS.keys() == set(EVENTS) and len(set(EVENT_WORDS.values())) == len(EVENTS)


def test_a_saved_notification_fills_the_form_as_it_was_typed(source: Source) -> None:
    change = {
        "events": ["run.failed", "audit.broken"], "sources": [str(source.pk)], "escalated_to": "group:lead, ann",
        "quiet_from": "22:00", "quiet_to": "07:30", "zone": "Europe/Rome", "severity": "high",
    }  # fmt: skip
    webhook = save(change)
    initial = get_initial_values(webhook)
    assert initial == FIELDS | {"to": ""} | change | {"escalated_to": ["group:lead", "ann"]}
    assert webhook.created_by == "ann" and webhook.wanted_sources == [source.pk] and webhook.enabled
    assert save(initial | {"escalated_to": "group:lead, ann"}, webhook) == Webhook.objects.get()


def test_saving_again_changes_the_row_and_switches_it_on(db: None) -> None:
    webhook = save({"events": ["run.failed"], "escalated_to": "ann"})
    Webhook.objects.update(enabled=False, trouble="401", created_by="bea")
    webhook.refresh_from_db()
    save({"name": "other"}, webhook)
    row = Webhook.objects.get()
    assert (row.name, row.enabled, row.trouble, row.created_by) == ("other", True, "", "bea")
    assert row.wanted_events == row.wanted_escalations == row.wanted_sources == []


@loop_over("change", [
    {"format": "email", "url": "", "to": "ann@example.com, bea@example.com"}, {"format": "slack"}, {"quiet_from": "00:00", "quiet_to": "23:59"},
    {"format": "ntfy", "to": "not an address"}, {"format": "email", "url": "not a URL", "to": "ann@example.com"},
])  # fmt: skip
def test_only_the_fields_of_a_format_are_checked(db: None, change: dict[str, Any]) -> None:
    assert not find_errors(change)


@loop_over(("change", "field"), [
    ({"url": "http://example.com/"}, "url"), ({"url": "https://127.0.0.1/"}, "url"), ({"url": "https://169.254.169.254/"}, "url"), ({"url": ""}, "url"),
    ({"url": "javascript:alert(1)"}, "url"), ({"url": "https://example.com/" + "x" * MAX_URL}, "url"), ({"format": "email", "url": "", "to": "nobody"}, "to"),
    ({"format": "email", "to": ""}, "to"), ({"format": "email", "to": "ann@example.com,"}, "to"), ({"format": "email", "to": "ann@example.com, Bcc: x"}, "to"),
    ({"format": "fax"}, "format"), ({"quiet_from": "22:00"}, "quiet_from"), ({"quiet_to": "07:00"}, "quiet_from"), ({"quiet_from": "25:00", "quiet_to": "07:00"}, "quiet_from"),
    ({"quiet_from": "22:00", "quiet_to": "7:00"}, "quiet_from"), ({"quiet_from": "22:60", "quiet_to": "07:00"}, "quiet_from"), ({"zone": "Mars/North"}, "zone"),
    ({"zone": "../etc/passwd"}, "zone"), ({"zone": ""}, "zone"), ({"events": ["no.such.event"]}, "events"), ({"sources": ["9999"]}, "sources"), ({"severity": "enormous"}, "severity"),
    ({"name": ""}, "name"), ({"name": "x" * 201}, "name"), ({"escalated_to": "x" * 1001}, "escalated_to"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused_at_its_field(db: None, change: dict[str, Any], field: str) -> None:
    assert find_errors(change) == {field}


def test_a_refused_notification_is_not_saved_and_named_on_the_page(admin: Client) -> None:
    answer = admin.post("/settings/notify/", FIELDS | {"zone": "Mars/North"})
    assert answer.status_code == 422 and "Unknown time zone" in answer.content.decode()
    assert not Webhook.objects.exists()


def test_a_name_is_used_once_and_kept_by_its_own_notification(db: None) -> None:
    webhook = save({})
    assert find_errors({}) == {"name"} and not find_errors({}, webhook)
    other = save({"name": "other"})
    assert find_errors({}, other) == {"name"}


def test_every_choice_is_taken(db: None) -> None:
    for name, _ in FORMATS:
        assert not find_errors({"format": name, "to": "ann@example.com"})
    for severity in SEVERITIES:
        assert not find_errors({"severity": severity}) and SeverityForm({"severity": severity}).is_valid()
    assert not find_errors({"events": list(EVENTS)})
    assert not SeverityForm({"severity": "enormous"}).is_valid() and not SeverityForm({}).is_valid()


def test_the_subscription_of_a_browser_is_taken_as_it_is() -> None:
    form = BrowserForm(BROWSER.fields(ENDPOINT))
    assert form.is_valid(), form.errors
    assert form.cleaned_data == BROWSER.fields(ENDPOINT)


@loop_over(("change", "field", "words"), [
    ({"endpoint": "http://push.example/x"}, "endpoint", "not allowed"), ({"endpoint": "https://10.0.0.1/x"}, "endpoint", "TOOLCARDS_PUSH_PRIVATE"),
    ({"endpoint": f" {ENDPOINT}"}, "endpoint", "not allowed"), ({"endpoint": ""}, "endpoint", "required"), ({"endpoint": "https://push.example/" + "x" * MAX_URL}, "endpoint", "characters"),
    ({"public_key": ""}, "public_key", "required"), ({"public_key": "AAAA"}, "public_key", ""), ({"public_key": "B" + "A" * 86}, "public_key", ""), ({"public_key": "x" * 101}, "public_key", "characters"),
    ({"auth": ""}, "auth", "required"), ({"auth": "AAAA"}, "public_key", ""), ({"auth": "x" * 41}, "auth", "characters"),
])  # fmt: skip
def test_a_subscription_that_no_message_can_reach_is_refused(
    limits: Callable[..., None], change: dict[str, str], field: str, words: str
) -> None:
    limits(push_private=())
    errors = BrowserForm(BROWSER.fields(ENDPOINT) | change).errors
    assert set(errors) == {field} and words in " ".join(errors[field])
