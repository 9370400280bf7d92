"""The form of a new agent key."""

from __future__ import annotations

from django import forms

from toolcards.models import EVERY_SCOPE, READ_ALL, SCOPES


class KeyForm(forms.Form):
    """A new key for an agent program."""

    name = forms.CharField(max_length=200, label="Name", help_text="The agent program that will use it.")
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in EVERY_SCOPE],
        initial=list(SCOPES),
        widget=forms.CheckboxSelectMultiple,
        help_text=f"A key reads what its own source did. With {READ_ALL} it also reads every other source.",
    )
