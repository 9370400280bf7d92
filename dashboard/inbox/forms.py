"""The form of a vote."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.form_fields import read_json
from toolcards.gate import Ballot


class BallotForm(forms.Form):
    """One person's vote on one approval, and what they saw."""

    decision = forms.ChoiceField(choices=[(name, name) for name in ("approve", "deny", "edit", "answer")])
    rev = forms.IntegerField(min_value=0)
    args_sha256 = forms.CharField(max_length=64, required=False)
    view_sha256 = forms.CharField(max_length=64, required=False)
    reason = forms.CharField(max_length=2000, required=False)
    note = forms.CharField(max_length=2000, required=False)
    client_decision_id = forms.CharField(max_length=100, required=False)
    grant = forms.CharField(max_length=200, required=False)
    grant_minutes = forms.FloatField(required=False)
    edited_args = forms.CharField(max_length=256 * 1024, required=False)

    def clean_grant(self) -> dict[str, Any] | None:
        """Return the requested standing approval, as an object or its kind."""
        text = self.cleaned_data["grant"].strip()
        grant = read_json(text) if text.startswith("{") else {"kind": text}
        return grant if text else None

    def clean_edited_args(self) -> Any:
        """Return the edited arguments as JSON.

        The field is in every form, but only `edit` reads it.
        """
        text = self.cleaned_data["edited_args"]
        if not text and self.cleaned_data.get("decision") == "edit":
            raise forms.ValidationError("Send the edited arguments.")
        return read_json(text) if text and self.cleaned_data.get("decision") == "edit" else None

    def ballot(self, approval: str, *, signed_in_at: float) -> Ballot:
        """Return the vote for the gate."""
        form_data = {name: value for name, value in self.cleaned_data.items() if value is not None}
        if "grant" in form_data and "grant_minutes" in form_data:
            form_data["grant"] = form_data["grant"] | {"minutes": form_data["grant_minutes"]}
        fields = {name: form_data[name] for name in form_data if name in Ballot.__dataclass_fields__}
        return Ballot(approval=approval, signed_in_at=signed_in_at, **fields)
