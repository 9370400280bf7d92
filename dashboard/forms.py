"""What people send us, checked field by field: votes, trial calls, activation, agent keys; rules are in `ruleform`."""

from __future__ import annotations

import json
from typing import Any

from django import forms

from dashboard.policy import yaml_io
from toolcards.gate import Ballot, ManualOutcome
from toolcards.models import EVERY_SCOPE, READ_ALL, SCOPES

EFFECTS = (("deny", "Deny"), ("ask", "Ask a person"), ("allow", "Allow"))


class BallotForm(forms.Form):
    """One person's answer to one approval, and what they saw when they gave it."""

    decision = forms.ChoiceField(choices=[(name, name) for name in ("approve", "deny", "edit")])
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
        """Return the wish for a yes in advance: an object, or its kind alone."""
        text = self.cleaned_data["grant"].strip()
        wish = read_json(text) if text.startswith("{") else {"kind": text}
        return wish if text else None

    def clean_edited_args(self) -> Any:
        """Return the edited arguments, read as JSON; the field is in every form, and counts for `edit` alone."""
        text = self.cleaned_data["edited_args"]
        if not text and self.cleaned_data.get("decision") == "edit":
            raise forms.ValidationError("Send the edited arguments.")
        return read_json(text) if text and self.cleaned_data.get("decision") == "edit" else None

    def ballot(self, approval: str, *, signed_in_at: float) -> Ballot:
        """Return the vote; the gate takes of it what it knows."""
        said = {name: value for name, value in self.cleaned_data.items() if value is not None}
        if "grant" in said and "grant_minutes" in said:
            said["grant"] = said["grant"] | {"minutes": said["grant_minutes"]}
        known = {name: said[name] for name in said if name in Ballot.__dataclass_fields__}
        return Ballot(approval=approval, signed_in_at=signed_in_at, **known)


class FindingForm(forms.Form):
    """How a call ended that nobody had heard the end of, as a person found."""

    outcome = forms.ChoiceField(choices=[(name, name) for name in ("succeeded", "failed")])
    rev = forms.IntegerField(min_value=0)
    note = forms.CharField(max_length=2000, required=False)

    def finding(self, run: int, ordinal: int) -> ManualOutcome:
        """Return it, of that call."""
        return ManualOutcome(run, ordinal, **self.cleaned_data)


def told(form: forms.Form) -> str:
    """Return what is wrong with the form, in one line."""
    return " ".join(f"{name}: {' '.join(said)}" for name, said in form.errors.items())


def read_json(text: str) -> Any:
    """Return the JSON that a person typed, or say what is wrong with it; NaN and doubled keys are refused."""
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise forms.ValidationError(f"This is not JSON: {error}.") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


class NamesField(forms.CharField):
    """Names or patterns, separated by commas or line breaks."""

    def to_python(self, value: Any) -> list[str]:
        """Return the names."""
        text = super().to_python(value)
        return [name for name in (part.strip() for part in text.replace("\n", ",").split(",")) if name]

    def prepare_value(self, value: Any) -> Any:
        """Show names as people write them."""
        return ", ".join(value) if isinstance(value, list) else value


class JsonField(forms.CharField):
    """JSON that a person types; an object, or nothing."""

    widget = forms.Textarea

    def to_python(self, value: Any) -> dict[str, Any]:
        """Return the object."""
        text = super().to_python(value).strip()
        found = read_json(text) if text else {}
        if not isinstance(found, dict):
            raise forms.ValidationError("This must be an object in braces: {…}.")
        return found

    def prepare_value(self, value: Any) -> Any:
        """Show an object with its lines indented."""
        if isinstance(value, dict):
            return json.dumps(value, indent=2, ensure_ascii=False) if value else ""
        return value


# ---------------------------------------------------------------- policy


class DefaultForm(forms.Form):
    """The answer where no rule matches."""

    default = forms.ChoiceField(choices=EFFECTS)
    allow_requester = forms.BooleanField(required=False, label="Whom the agent works for may answer")


class TryForm(forms.Form):
    """A call to try the policy with; nothing happens to it."""

    tool = forms.CharField(max_length=300, initial="Bash")
    agent = NamesField(required=False, help_text="The agent, or its path: main, reviewer.")
    source = forms.CharField(required=False, max_length=200, label="Tool’s server")
    args = forms.CharField(
        required=False,
        label="Arguments (JSON)",
        initial='{"command": "git push"}',
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
    )

    def clean_args(self) -> Any:
        """Return the arguments; nothing typed means an empty object."""
        text = self.cleaned_data["args"].strip()
        return read_json(text) if text else {}


class SimulationForm(forms.Form):
    """How much of the past a draft is compared with."""

    calls = forms.ChoiceField(
        choices=[(f"{count}", f"{count:,} calls") for count in (1_000, 5_000, 20_000, 100_000)], initial="5000"
    )
    days = forms.ChoiceField(
        choices=[("1", "a day"), ("7", "7 days"), ("30", "30 days"), ("0", "any age")], initial="7"
    )
    tool = forms.CharField(required=False, max_length=300)
    agent = forms.CharField(required=False, max_length=300)


class ActivateForm(forms.Form):
    """Make the draft the policy, provided that the version the person compared with is still active."""

    expected_active = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    draft_sha256 = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    note = forms.CharField(required=False, max_length=2000, widget=forms.Textarea(attrs={"rows": 2}))
    apply_to_waiting = forms.BooleanField(required=False)


class TextForm(forms.Form):
    """The draft as YAML; `based_on` is the draft that the person began with."""

    text = forms.CharField(max_length=512 * 1024, strip=False)
    based_on = forms.CharField(max_length=64, required=False)
    what = forms.ChoiceField(choices=[("save", "Save"), ("check", "Check")], required=False)


class ImportForm(forms.Form):
    """A policy document to take as the draft, JSON or YAML, as a file or as text."""

    file = forms.FileField(required=False, max_length=200)
    document = forms.CharField(
        required=False, label="Or paste it", widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"})
    )

    def clean(self) -> dict[str, Any]:
        """Return the document under `read`."""
        said = super().clean() or self.cleaned_data
        file = said.get("file")
        try:
            text = file.read().decode() if file else said.get("document") or ""
        except UnicodeDecodeError:
            raise forms.ValidationError("This file is not UTF-8 text.") from None
        if not text.strip():
            raise forms.ValidationError("Choose a file or paste a document.")
        said["read"] = read_json(text) if text.lstrip().startswith("{") else _read_yaml(text)
        return said


def _read_yaml(text: str) -> Any:
    try:
        return yaml_io.read_yaml(text).value
    except yaml_io.NotYaml as refused:
        raise forms.ValidationError(f"Line {refused.line}: {refused.findings[0].message}") from None


# ---------------------------------------------------------------- agent keys


class KeyForm(forms.Form):
    """A new key for an agent program."""

    name = forms.CharField(max_length=200, label="Name", help_text="The agent program that will use it.")
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in EVERY_SCOPE],
        initial=list(SCOPES),
        widget=forms.CheckboxSelectMultiple,
        help_text=f"A key reads what its own source did. With {READ_ALL} it also reads every other source.",
    )
