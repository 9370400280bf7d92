"""The forms of the policy pages, except of rules and of the text editor."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.form_fields import NamesField, read_json
from dashboard.policy.text import yaml_io

EFFECTS = (("deny", "Deny"), ("ask", "Ask a person"), ("allow", "Allow"))


class DefaultForm(forms.Form):
    """The effect for calls that no rule matches."""

    default = forms.ChoiceField(choices=EFFECTS)
    allow_requester = forms.BooleanField(required=False, label="The agent’s owner may approve")


class TryForm(forms.Form):
    """A call to test; nothing is executed."""

    tool = forms.CharField(max_length=300, initial="Bash")
    agent = NamesField(required=False, help_text="The agent, or its path: main, reviewer.")
    source = forms.CharField(required=False, max_length=200, label="MCP server or package")
    args = forms.CharField(
        required=False,
        label="Arguments (JSON)",
        initial='{"command": "git push"}',
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
    )

    def clean_args(self) -> Any:
        """Return the arguments; an empty field is an empty object."""
        text = self.cleaned_data["args"].strip()
        return read_json(text) if text else {}


class SimulationForm(forms.Form):
    """The past calls that a draft is compared with."""

    calls = forms.ChoiceField(
        choices=[(f"{count}", f"{count:,} calls") for count in (1_000, 5_000, 20_000, 100_000)], initial="5000"
    )
    days = forms.ChoiceField(
        choices=[("1", "a day"), ("7", "7 days"), ("30", "30 days"), ("0", "any age")], initial="7"
    )
    tool = forms.CharField(required=False, max_length=300)
    agent = forms.CharField(required=False, max_length=300)


class ActivateForm(forms.Form):
    """Activate the draft if the version that the person compared with is active."""

    expected_active = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    draft_sha256 = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    note = forms.CharField(
        required=False, max_length=2000, widget=forms.Textarea(attrs={"rows": 2, "form": "activate"})
    )
    apply_to_waiting = forms.BooleanField(required=False)


class ImportForm(forms.Form):
    """A policy document for the draft: JSON or YAML, as a file or as text."""

    file = forms.FileField(required=False, max_length=200)
    document = forms.CharField(
        required=False, label="Or paste it", widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"})
    )

    def clean(self) -> dict[str, Any]:
        """Return the document as `read`; YAML also as `text`."""
        form_data = super().clean() or self.cleaned_data
        file = form_data.get("file")
        try:
            text = file.read().decode("utf-8-sig") if file else form_data.get("document") or ""
        except UnicodeDecodeError:
            raise forms.ValidationError("This file is not UTF-8 text.") from None
        if not text.strip():
            raise forms.ValidationError("Choose a file or paste a document.")
        is_json = text.lstrip().startswith("{")
        form_data["read"] = read_json(text) if is_json else _read_yaml(text)
        form_data["text"] = "" if is_json else text
        return form_data


def _read_yaml(text: str) -> Any:
    try:
        return yaml_io.read_yaml(text).value
    except yaml_io.NotYaml as refused:
        raise forms.ValidationError(f"Line {refused.line}: {refused.findings[0].message}") from None
