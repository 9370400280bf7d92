"""One rule as a form: its fields, the rule that they express, and findings next to their fields."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.form_fields import JsonField, NamesField
from dashboard.policy.forms import EFFECTS
from dashboard.policy.rules import argument_rows
from toolcards.core.calls.card import KINDS
from toolcards.core.policy.language.beaten_rules import BeatenRule
from toolcards.core.policy.language.document import PolicyError, PolicyFinding
from toolcards.gate import policy_draft

MODES = (("enforce", "On"), ("monitor", "Watch only: shown on cards, no effect"), ("off", "Off"))
SEVERITIES = tuple((name, name.capitalize()) for name in ("low", "medium", "high", "critical"))

_NO_EFFECT = "This rule would have no effect."

# field of the form -> its path in the rule
_IN_RULE = {
    "effect": "effect",
    "severity": "severity",
    "reason": "public_reason",
    "suggest": "suggest",
    "review": "review",
}
_IN_MATCH = ("tool", "kind", "source", "agent")
_ADVANCED = ("unless", "ask", "expires_at")


class RuleForm(argument_rows.ArgumentRows):
    """One rule of the draft. `advanced` has as JSON what the fields cannot express.

    `based_on` identifies the rule that the person edited.
    """

    effect = forms.ChoiceField(choices=EFFECTS, initial="ask", widget=forms.RadioSelect)
    tool = NamesField(
        required=False, label="Tool", help_text="Exact names, or patterns with *; comma-separated. Empty = any tool."
    )
    kind = forms.MultipleChoiceField(
        choices=[(kind, kind.replace("_", " ")) for kind in KINDS],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None selected = any.",
    )
    source = NamesField(required=False, label="MCP server or package", help_text="For example github.")
    agent = NamesField(required=False, label="Agent", help_text="Ask and deny rules also cover its sub-agents.")
    reason = forms.CharField(
        required=False, max_length=2000, label="Reason", help_text="Shown on the card and sent to the agent."
    )
    suggest = forms.CharField(
        required=False, max_length=2000, label="Suggestion", help_text="What the agent can do instead."
    )
    review = forms.CharField(
        required=False, max_length=200, label="Reviewer", help_text="Its name: it is asked before people."
    )
    severity = forms.ChoiceField(choices=SEVERITIES, initial="medium", required=False)
    mode = forms.ChoiceField(choices=MODES, initial="enforce", required=False, label="Status")
    rule_id = forms.SlugField(required=False, max_length=80, label="Name", help_text="Leave empty to generate one.")
    advanced = JsonField(
        required=False,
        label="Advanced (JSON)",
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
        help_text="Any of match (when, rate, user, env, run, agent_scope), unless, ask, expires_at (an object).",
    )
    based_on = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)
    resolve = forms.ChoiceField(choices=[("", ""), ("exception", ""), ("anyway", "")], required=False)

    def __init__(self, *args: Any, instead_of: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instead_of = instead_of
        self.beaten: BeatenRule | None = None
        self.can_be_exception = False

    @classmethod
    def about(cls, rule: dict[str, Any], *args: Any, **kwargs: Any) -> RuleForm:
        """Return the form with the values of a rule of the draft."""
        return cls(*args, initial=rule_to_fields(rule), instead_of=str(rule["id"]), **kwargs)

    def clean(self) -> dict[str, Any]:
        """Build the rule and check it within the draft."""
        form_data = super().clean() or self.cleaned_data
        if self.errors:
            return form_data
        try:
            self.rule = fields_to_rule(form_data)
            self.rule["id"] = policy_draft.check_rule(self.rule, instead_of=self.instead_of)
        except PolicyError as refused:
            for finding in refused.findings:
                self.add_error(*locate_finding(finding, form_data))
            return form_data
        if form_data.get("resolve") != "anyway":
            self._check_winners(is_exception=form_data.get("resolve") == "exception")
        return form_data

    def _check_winners(self, *, is_exception: bool) -> None:
        """Refuse a rule that would have no effect, unless it is saved as an exception of the rules that beat it."""
        self.beaten = policy_draft.find_rule_winners(self.rule, instead_of=self.instead_of)
        if self.beaten is None:
            return
        winners = self.beaten.winners
        self.can_be_exception = policy_draft.can_be_exception(self.rule, winners, instead_of=self.instead_of)
        if not (is_exception and self.can_be_exception):
            self.add_error(None, _NO_EFFECT)

    def save(self, author: str) -> None:
        """Save the rule in the draft."""
        excepted_from = [rule.id for rule in self.beaten.winners] if self.beaten else ()
        policy_draft.save_rule(self.rule, author=author, instead_of=self.instead_of, excepted_from=excepted_from)


def rule_to_fields(rule: dict[str, Any]) -> dict[str, Any]:
    """Return the form's values for a rule of the document."""
    match = dict(rule.get("match") or {})
    values: dict[str, Any] = {field: rule.get(name) or "" for field, name in _IN_RULE.items()}
    for name in _IN_MATCH:
        if not any(
            "," in joined_names for joined_names in _join_names(match.get(name))
        ):  # such a name cannot be typed here
            values[name] = _join_names(match.pop(name, None))
    unless = rule.get("unless")
    values |= argument_rows.pop_conditions(match)
    exceptions = argument_rows.read_exceptions(unless, first_row=argument_rows.count_rows(values) + 1)
    values |= exceptions
    values["severity"] = rule.get("severity") or "medium"
    values["mode"] = "off" if rule.get("enabled") is False else rule.get("mode") or "enforce"
    values["rule_id"] = rule["id"]
    advanced_fields = {
        name: rule[name] for name in _ADVANCED if rule.get(name) is not None and not (name == "unless" and exceptions)
    }
    if rule.get("enabled") is False and rule.get("mode") == "monitor":
        advanced_fields["mode"] = "monitor"
    values["advanced"] = ({"match": match} if match else {}) | advanced_fields
    return values


def _join_names(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def fields_to_rule(form_data: dict[str, Any]) -> dict[str, Any]:
    """Return the rule that the form's values express."""
    advanced_fields = dict(form_data.get("advanced") or {})
    match = advanced_fields.pop("match", None) or {}
    if not isinstance(match, dict):
        raise PolicyError([PolicyFinding("/match", "type", "This must be an object.")])
    rule: dict[str, Any] = {field: form_data[form] for form, field in _IN_RULE.items() if form_data.get(form)}
    if form_data.get("rule_id"):
        rule["id"] = form_data["rule_id"]
    match = match | {name: form_data[name] for name in _IN_MATCH if form_data.get(name)}
    arguments = argument_rows.build_arguments(form_data)
    if arguments:
        match["args"] = [*arguments, *argument_rows.wrap_in_list(match.get("args"))]
    exceptions = argument_rows.build_exceptions(form_data)
    if exceptions:
        advanced_fields["unless"] = [*exceptions, *argument_rows.wrap_in_list(advanced_fields.get("unless"))]
    if form_data.get("mode") == "off":
        rule["enabled"] = False
    elif form_data.get("mode"):
        rule["mode"] = form_data["mode"]
    if rule.get("severity") == "medium":
        rule.pop("severity")
    if rule.get("mode") == "enforce":
        rule.pop("mode")
    return advanced_fields | rule | ({"match": match} if match else {})


_FIELD_BY_POINTER = {
    "/effect": "effect", "/id": "rule_id", "/severity": "severity", "/mode": "mode", "/enabled": "mode",
    "/public_reason": "reason", "/suggest": "suggest", "/review": "review",
    "/match/tool": "tool", "/match/kind": "kind", "/match/source": "source", "/match/agent": "agent",
}  # fmt: skip


def locate_finding(finding: PolicyFinding, form_data: dict[str, Any]) -> tuple[str, str]:
    """Return the form field of a finding, and the message."""
    pointer = finding.pointer
    steps = pointer.split("/")
    condition_field = argument_rows.find_field(pointer, form_data)
    if condition_field:
        return condition_field, _to_sentence(finding.message)
    field = _FIELD_BY_POINTER.get("/".join(steps[:3])) or _FIELD_BY_POINTER.get("/".join(steps[:2]))
    if field and steps[:3] != ["", "match", "agent_scope"]:
        return field, _to_sentence(finding.message)
    return "advanced", f"{pointer or 'The rule'}: {finding.message}"


def _to_sentence(message: str) -> str:
    return message[:1].upper() + message[1:]
