"""The forms of push notifications: the subscription of a browser, and the lowest severity that it shows."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from toolcards.models.notifications import SEVERITIES
from toolcards.notifications import webhooks
from toolcards.notifications.push_encryption import InvalidKeys, parse_browser_keys


class BrowserForm(forms.Form):
    """The subscription of a browser, as its Push API returns it. All of it is input from outside."""

    endpoint = forms.CharField(max_length=webhooks.MAX_URL, strip=False)
    public_key = forms.CharField(max_length=100)
    auth = forms.CharField(max_length=40)

    def clean_endpoint(self) -> str:
        """Return the push service's address, checked like those of webhooks."""
        endpoint = str(self.cleaned_data["endpoint"])
        try:
            webhooks.check_url(endpoint)
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
