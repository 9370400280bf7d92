"""The forms of the inbox: a vote, and the answers to an agent's questions; a vote of a page."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from django import forms
from django.http import HttpRequest, QueryDict

from dashboard.accounts.sessions import is_still_signed_in
from dashboard.form_fields import read_json
from toolcards import gate
from toolcards.core.calls.elicitation import FormField, InvalidAnswer
from toolcards.core.calls.questions import Question, add_answers, add_values, is_readable_form, read_questions
from toolcards.core.risk.assessment import assess_call_risk
from toolcards.gate import Ballot, InvalidRequest, NotAllowed
from toolcards.models import ToolCall

EDIT_SCOPE = "policy"  # of a personal token: a lasting answer writes a rule
ANSWER = "answer"  # the decision in the form; for the gate, an edit that adds the answers
MAX_LENGTH = 4_000  # characters of one answer


def _check_unicode(text: str) -> None:
    """Raise ValidationError for half of a surrogate pair, which no database takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise forms.ValidationError("This is not Unicode text.") from None


class BallotForm(forms.Form):
    """One person's vote on one approval, and what they saw."""

    decision = forms.ChoiceField(
        choices=[(name, name) for name in ("approve", "deny", "edit", "answer")], required=False
    )
    always = forms.CharField(max_length=100, required=False)
    always_deny = forms.CharField(max_length=100, required=False)
    rev = forms.IntegerField(min_value=0)
    args_sha256 = forms.CharField(max_length=64, required=False)
    view_sha256 = forms.CharField(max_length=64, required=False)
    reason = forms.CharField(max_length=2000, required=False)
    note = forms.CharField(max_length=2000, required=False)
    client_decision_id = forms.CharField(max_length=100, required=False, validators=[_check_unicode])
    grant = forms.CharField(max_length=200, required=False)
    grant_minutes = forms.FloatField(required=False)
    edited_args = forms.CharField(max_length=256 * 1024, required=False)

    def clean(self) -> dict[str, Any]:
        """Return the fields with the decision.

        A button of a lasting answer sends only its own field.
        """
        form_data: dict[str, Any] = super().clean() or self.cleaned_data
        if form_data.get("always_deny"):
            form_data |= {"always": form_data["always_deny"], "decision": form_data.get("decision") or "deny"}
        if form_data.get("always"):
            form_data["decision"] = form_data.get("decision") or "approve"
        if not form_data.get("decision") and "decision" not in self.errors:
            self.add_error("decision", "This field is required.")
        return form_data

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


def write_fields(body: dict[str, Any]) -> QueryDict:
    """Return the values of a JSON object as fields of a form."""
    fields = QueryDict(mutable=True)
    for name, value in body.items():
        if isinstance(value, list) and name.startswith("answer-"):
            fields.setlist(name, [_write_field(item) for item in value])
        elif value is not None or name == "edited_args":
            fields[name] = _write_field(value)
    return fields


def _write_field(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def convert_answers(ballot: Ballot, call: ToolCall, fields: QueryDict) -> Ballot:
    """Return the vote that carries the answers.

    Raises InvalidRequest unless every question that needs an answer has one that fits.
    Fields: `answer-0` is the index of an option of the first question, `answer-0-text` a text instead, or in
    addition where several options may be chosen.
    """
    card = call.as_card()
    approval = card.approval
    if approval is not None and approval.has_edited:  # answered by the first of several approvers
        raise InvalidRequest("This question already has an answer. Approve or deny it.", code="invalid_vote")
    questions = read_questions(card.tool.name, card.input)
    if not questions and is_readable_form(card.tool.name, card.input):  # it only asks for consent
        return replace(ballot, decision="approve")
    if not questions:
        raise InvalidRequest("This call does not ask a question.", code="invalid_vote")
    if is_readable_form(card.tool.name, card.input):
        values = {
            question.field.name: value
            for index, question in enumerate(questions)
            if question.field is not None
            and (value := _read_value(question.field, question, index, fields)) is not None
        }
        return replace(ballot, decision="edit", edited_args=add_values(card.input, values))
    answers = {question.text: _read_answer(question, index, fields) for index, question in enumerate(questions)}
    return replace(ballot, decision="edit", edited_args=add_answers(card.input, answers))


def check_lasting_answer(request: HttpRequest, ballot: Ballot, call: ToolCall) -> None:
    """Raise RequestRefused if this request cannot give the lasting answer.

    No one can for a high risk, and no token that may not edit the policy.
    """
    if not ballot.always:
        return
    token = getattr(request, "personal_token", None)
    if token is not None and EDIT_SCOPE not in token.scopes.split():
        raise NotAllowed(f"This token lacks the scope {EDIT_SCOPE}, which lasting answers require.", code="scope")
    if ballot.decision != "deny" and assess_call_risk(call).level == "high":
        raise InvalidRequest("This is high risk, so each call is asked about.", code="always_not_offered")


def _read_answer(question: Question, index: int, fields: QueryDict) -> list[str]:
    chosen_numbers = _read_chosen(index, fields)
    labels = [option.label for number, option in enumerate(question.options) if number in chosen_numbers]
    text = _read_text(index, fields)
    if text:
        return [*labels, text] if question.is_multiple else [text]
    if not labels or (len(labels) > 1 and not question.is_multiple):
        raise InvalidRequest(f"Choose an answer to: {question.text}", code="answer_required")
    return labels


def _read_value(field: FormField, question: Question, index: int, fields: QueryDict) -> Any:
    """Return the value for a field of a form, None if unanswered."""
    values = [value for value, _ in field.choices] if field.choices else [True, False]
    chosen_values = [values[number] for number in sorted(_read_chosen(index, fields)) if number < len(question.options)]
    text = _read_text(index, fields) if question.has_text else ""
    try:
        if question.is_multiple and (chosen_values or question.is_required):
            field.check(chosen_values)
            return chosen_values
        if len(chosen_values) == 1:
            return chosen_values[0]
        if text:
            return field.parse_text(text)
    except InvalidAnswer as error:
        raise InvalidRequest(str(error), code="invalid_answer") from error
    if question.is_required or chosen_values:
        raise InvalidRequest(f"Choose an answer to: {question.header or question.text}", code="answer_required")
    return None


def _read_chosen(index: int, fields: QueryDict) -> set[int]:
    values = fields.getlist(f"answer-{index}")
    return {int(value) for value in values if value.isascii() and value.isdigit() and len(value) < 6}


def _read_text(index: int, fields: QueryDict) -> str:
    text = fields.get(f"answer-{index}-text", "").strip()
    if len(text) > MAX_LENGTH:
        raise InvalidRequest(f"An answer has at most {MAX_LENGTH:,} characters.", code="invalid_vote")
    return text


def cast_vote(request: HttpRequest, ballot: Ballot) -> None:
    """Cast the vote of the person who sent the request; raises RequestRefused.

    It does not count if the session has ended before it is written.
    """
    gate.vote(request.user, ballot, lambda: is_still_signed_in(request))
