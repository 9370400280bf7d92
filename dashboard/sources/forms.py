"""The form of a new agent key."""

from __future__ import annotations

from django import forms

from toolcards.models import EVERY_SCOPE, READ_ALL, SCOPES, AgentKey
from toolcards.models.sources import MAX_KEY_DAYS, compute_key_expiry


class KeyForm(forms.Form):
    """A new key for an agent program."""

    name = forms.CharField(max_length=200, label="Name", help_text="The agent program that will use it.")
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in EVERY_SCOPE],
        initial=list(SCOPES),
        widget=forms.CheckboxSelectMultiple,
        help_text=f"A key reads what its own source did. With {READ_ALL} it also reads every other source.",
    )
    expires_in = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_KEY_DAYS,
        label="Expires after (days)",
        help_text="Leave empty for a key that works until it is revoked.",
    )

    def issue(self) -> tuple[AgentKey, str]:
        """Create the key; return it with its secret."""
        form_data = self.cleaned_data
        expires_at = compute_key_expiry(form_data["expires_in"])
        return AgentKey.objects.issue(form_data["name"], tuple(form_data["scopes"]), expires_at=expires_at)
