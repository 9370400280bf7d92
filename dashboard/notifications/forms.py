"""The forms of notifications: a webhook, a chat or a mail address, and the browsers that show push notifications."""

from __future__ import annotations

import functools
import json
import re
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from dashboard.form_fields import NamesField
from toolcards.core.calls.tool_events import EVENTS
from toolcards.models import Source
from toolcards.models.notifications import SEVERITIES, Webhook
from toolcards.notifications import webhooks
from toolcards.notifications.push_encryption import InvalidKeys, parse_browser_keys

FORMATS = (
    ("webhook", "Signed webhook (Standard Webhooks)"), ("ntfy", "ntfy"), ("slack", "Slack"), ("discord", "Discord"),
    ("email", "Email"),
)  # fmt: skip
EVENT_WORDS = {
    "tool.execute.before": "Tool is about to run", "tool.execute.after": "Tool succeeded",
    "tool.execute.error": "Tool failed", "tool.execute.settled": "Call ended",
    "tool.execute.corrected": "Outcome corrected later",
    "approval.requested": "Approval requested", "approval.escalated": "Approval escalated",
    "approval.resolved": "Approval decided",
    "source.ungoverned": "A tool ran without a decision", "run.failed": "Run failed",
    "source.silent": "Source lost contact", "source.failing": "Source fails repeatedly",
    "source.fails_open": "Source would run tools without approval while this server is down",
    "source.recovered": "Source recovered", "audit.broken": "Audit trail damaged",
}  # fmt: skip
_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


@functools.cache
def _list_zones() -> frozenset[str]:
    return frozenset(available_timezones())  # which reads hundreds of files


class WebhookForm(forms.Form):
    """The settings of one notification."""

    name = forms.CharField(max_length=200)
    format = forms.ChoiceField(label="Type", choices=FORMATS)
    url = forms.CharField(label="URL", max_length=2000, required=False)
    to = forms.CharField(label="Email to", max_length=1000, required=False, help_text="Comma-separated addresses.")
    events = forms.MultipleChoiceField(
        label="Events", choices=[(name, EVENT_WORDS[name]) for name in EVENTS], required=False,
        widget=forms.CheckboxSelectMultiple, help_text="None selected = all.",
    )  # fmt: skip
    sources = forms.MultipleChoiceField(
        label="From these sources", required=False, widget=forms.CheckboxSelectMultiple,
        help_text="None selected = all.",
    )  # fmt: skip
    escalated_to = NamesField(
        label="Escalations to", max_length=1000, required=False,
        help_text="Comma-separated people and groups, such as group:lead. Only escalations to one of them are sent. "
        "Empty = all.",
    )  # fmt: skip
    severity = forms.ChoiceField(label="Minimum severity", choices=[(name, name) for name in SEVERITIES], initial="low")
    quiet_from = forms.CharField(
        label="Quiet hours from",
        max_length=5,
        required=False,
        help_text="For example 22:00. Critical events are always sent.",
    )
    quiet_to = forms.CharField(label="Quiet until", max_length=5, required=False)
    zone = forms.CharField(label="Time zone", max_length=60, initial="UTC")

    def __init__(self, *args: Any, webhook: Webhook | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.webhook = webhook
        sources: Any = self.fields["sources"]
        sources.choices = [
            (str(pk), name) for pk, name in Source.objects.order_by("name").values_list("pk", "name")[:500]
        ]

    def clean_name(self) -> str:
        """Return the name, which must be unique."""
        name = str(self.cleaned_data["name"])
        other_webhooks = Webhook.objects.exclude(pk=self.webhook.pk) if self.webhook else Webhook.objects.all()
        if other_webhooks.filter(name=name).exists():
            raise ValidationError("This name is already in use.")
        return name

    def clean_zone(self) -> str:
        """Return a time zone that there is."""
        zone = str(self.cleaned_data["zone"])
        if zone not in _list_zones():
            raise ValidationError("Unknown time zone. Use a name such as Europe/Rome.")
        return zone

    def clean(self) -> dict[str, Any]:
        """Check that the address fits the format, and the quiet hours."""
        form_data = super().clean() or self.cleaned_data
        if form_data.get("format") == "email":
            self._check_addresses(str(form_data.get("to") or ""))
        else:
            self._check_url(str(form_data.get("url") or ""))
        ends = [str(form_data.get(name) or "") for name in ("quiet_from", "quiet_to")]
        if any(ends) and not all(map(_CLOCK.fullmatch, ends)):
            self.add_error("quiet_from", "Enter both times, such as 22:00, or leave both empty.")
        return form_data

    def _check_addresses(self, text: str) -> None:
        try:
            for address in text.split(","):
                validate_email(address.strip())
        except ValidationError:
            self.add_error("to", "Enter email addresses, separated by commas.")

    def _check_url(self, url: str) -> None:
        try:
            webhooks.check_url(url)
        except webhooks.UnsafeUrl as error:
            self.add_error("url", str(error))

    def save(self, person: str) -> Webhook:
        """Save the webhook and return it."""
        form_data = self.cleaned_data
        webhook = self.webhook or Webhook(created_by=person)
        for name in ("name", "format", "url", "to", "severity", "quiet_from", "quiet_to", "zone"):
            setattr(webhook, name, form_data[name])
        webhook.events, webhook.sources = (
            json.dumps(form_data["events"]),
            json.dumps([int(pk) for pk in form_data["sources"]]),
        )
        webhook.escalated_to = json.dumps(form_data["escalated_to"])
        webhook.enabled, webhook.trouble = True, ""
        webhook.save()
        return webhook


def get_initial_values(webhook: Webhook) -> dict[str, Any]:
    """Return the form's values for a webhook."""
    plain = ("name", "format", "url", "to", "severity", "quiet_from", "quiet_to", "zone")
    return {name: getattr(webhook, name) for name in plain} | {
        "escalated_to": webhook.wanted_escalations, "events": webhook.wanted_events,
        "sources": [str(pk) for pk in webhook.wanted_sources],
    }  # fmt: skip


class BrowserForm(forms.Form):
    """The subscription of a browser, as its Push API returns it. All of it is input from outside."""

    endpoint = forms.CharField(max_length=webhooks.MAX_URL, strip=False)
    public_key = forms.CharField(max_length=100)
    auth = forms.CharField(max_length=40)

    def clean_endpoint(self) -> str:
        """Return the push service's address, which anyone who sees calls can name."""
        endpoint = str(self.cleaned_data["endpoint"])
        try:
            webhooks.check_url(endpoint, webhooks.BY_BROWSERS)
        except webhooks.UnsafeUrl as error:
            raise ValidationError(f"The address of the push service is not allowed. {error}") from error
        return endpoint

    def clean(self) -> dict[str, Any]:
        """Check the keys, so that a message can be encrypted with them."""
        fields = super().clean() or self.cleaned_data
        if "public_key" in fields and "auth" in fields:
            try:
                parse_browser_keys(fields["public_key"], fields["auth"])
            except InvalidKeys as error:
                self.add_error("public_key", str(error))
        return fields


class SeverityForm(forms.Form):
    """The lowest severity of which a browser shows notifications."""

    CHOICES = [(name, name) for name in SEVERITIES]
    severity = forms.ChoiceField(choices=CHOICES)
