"""The page of one's own personal tokens, and an admin's way to revoke those of a person."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.accounts import roles
from dashboard.accounts.access import get_signed_in_person, needs
from dashboard.accounts.sign_in_log import is_freshly_signed_in
from toolcards.models import PersonalToken
from toolcards.models.people import MAX_DAYS, MAX_TOKENS, TOKEN_SCOPES, TooManyTokens, list_granted_scopes

EDIT_PEOPLE = "auth.change_user"
DEFAULT_DAYS = 30
SCOPE_WORDS = {
    "read": "read: see runs, calls and questions",
    "vote": "vote: approve and deny",
    "policy": "policy: edit and activate the policy, stop all calls",
    "audit": "audit: read the audit trail",
}


class TokenForm(forms.Form):
    """A new token for programs of the person."""

    name = forms.CharField(max_length=100, label="Name", help_text="The program that will use it.")
    scopes = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, label="It may")
    days = forms.IntegerField(min_value=1, max_value=MAX_DAYS, initial=DEFAULT_DAYS, label="Expires after (days)")

    def __init__(self, person: Any, data: Any = None) -> None:
        scopes = [scope for scope in TOKEN_SCOPES if scope in list_granted_scopes(person, TOKEN_SCOPES)]
        super().__init__(data, initial={"scopes": [scope for scope in scopes if scope in ("read", "vote")]})
        self.fields["scopes"].choices = [(scope, SCOPE_WORDS[scope]) for scope in scopes]  # type: ignore[attr-defined]


@require_http_methods(["GET", "HEAD", "POST"])
@needs()
def tokens(request: HttpRequest) -> HttpResponse:
    """List one's own tokens; POST creates one and shows its secret once."""
    person = get_signed_in_person(request)
    if request.method != "POST":
        return _render_tokens(request, TokenForm(person))
    form = TokenForm(person, request.POST)
    if not is_freshly_signed_in(request):
        return _render_tokens(request, form, status=401)
    if not form.is_valid():
        return _render_tokens(request, form, status=422)
    form_data = form.cleaned_data
    try:
        token, secret = PersonalToken.objects.issue(person, form_data["name"], form_data["scopes"], form_data["days"])
    except TooManyTokens:
        form.add_error("name", f"You already have {MAX_TOKENS} tokens. Revoke one first.")
        return _render_tokens(request, form, status=422)
    return _render_tokens(request, TokenForm(person), token=token, secret=secret)


def _render_tokens(request: HttpRequest, form: TokenForm, *, status: int = 200, **context: Any) -> HttpResponse:
    rows = PersonalToken.objects.filter(person=get_signed_in_person(request), revoked_at=None).order_by("-id")
    context |= {"rows": rows, "form": form, "fresh": is_freshly_signed_in(request)}
    answer = render(request, "people/tokens.html", context, status=status)
    if "secret" in context:
        answer["Cache-Control"] = "no-store, private"
    return answer


@require_POST
@needs()
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke one of one's own tokens."""
    token = get_object_or_404(PersonalToken, pk=pk, person=get_signed_in_person(request))
    PersonalToken.objects.filter(pk=token.pk).revoke()
    messages.success(request, f"The token {token.name} is revoked.")
    return redirect("tokens")


@require_POST
@needs(EDIT_PEOPLE)
def revoke_all_tokens(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke all tokens of a person."""
    person = get_object_or_404(get_user_model(), pk=pk)
    if not roles.can_change(get_signed_in_person(request), person):
        messages.error(request, "Only a superuser can change a superuser. Nothing was changed.")
        return redirect("person", pk)
    count = PersonalToken.objects.filter(person=person).revoke()
    messages.success(request, f"{count} token{'' if count == 1 else 's'} of {person.get_username()} revoked.")
    return redirect("person", pk)
