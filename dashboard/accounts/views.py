"""The pages of people (invite, change, deactivate) and of one's own password."""

from __future__ import annotations

import time
from collections.abc import Callable

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import get_user_model, update_session_auth_hash
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import Group, User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.accounts import roles as keeping
from dashboard.accounts import sign_in_links
from dashboard.accounts.access import get_signed_in_person, needs
from dashboard.accounts.audit_signals import save_person
from dashboard.accounts.sign_in_log import is_freshly_signed_in
from dashboard.accounts.sign_in_views import OwnPasswordForm
from dashboard.form_fields import NamesField
from toolcards.gate import list_voters
from toolcards.models import Grant, PersonalToken

RIGHT = "auth.change_user"
MAX_PEOPLE = 500
STALE = "Someone else has changed this person. This is the current state; your change was not saved."
LAST = "This is the only admin. Make someone else admin first."
ABOVE = "Only a superuser can change a superuser. Nothing was changed."
SIGN_IN = "This requires a recent sign-in. Sign in again. Nothing was changed."
ROLE_WORDS = (
    ("viewer", "viewer: read-only"),
    ("approver", "approver: can approve and deny"),
    ("admin", "admin: can change everything"),
)


class PersonForm(forms.Form):
    """A person's role, and the groups that rules can name."""

    role = forms.ChoiceField(choices=ROLE_WORDS)
    groups = NamesField(
        required=False,
        max_length=2000,
        help_text="Comma-separated; used in rules as group:name. New groups are created.",
    )

    def clean_groups(self) -> list[str]:
        """Return the names of the groups; rejects roles and long names."""
        names = [name.removeprefix("group:").strip() for name in self.cleaned_data["groups"]]
        longest = Group._meta.get_field("name").max_length or 150
        for name in names:
            if name in keeping.ROLES:
                raise forms.ValidationError(f"{name} is a role; choose it above.")
            if not name or len(name) > longest or not name.isprintable():
                raise forms.ValidationError(f"A group's name has 1 to {longest} characters that can be seen.")
        return names


class InviteForm(PersonForm):
    """The form for a new person."""

    name = forms.CharField(max_length=150)
    field_order = ("name", "role", "groups")


# ---------------------------------------------------------------- everybody


@require_http_methods(["GET", "HEAD", "POST"])
@needs(RIGHT)
def people(request: HttpRequest) -> HttpResponse:
    """List all people; POST invites another one."""
    if request.method != "POST":
        return _render_people(request, InviteForm(initial={"role": "viewer"}))
    form = InviteForm(request.POST)
    if not is_freshly_signed_in(request):
        return _render_people(request, form, message=SIGN_IN, status=401)
    if form.is_valid():
        form_data = form.cleaned_data
        try:
            person = keeping.create_person(form_data["name"], role=form_data["role"], groups=form_data["groups"])
            return _render_person(
                request, person, link=_issue_link(request, person, keeping.compute_state_digest(person))
            )
        except ValueError as wrong:
            form.add_error("name", f"{wrong}".rstrip(".").capitalize() + ".")
    return _render_people(request, form, status=422)


def _render_people(request: HttpRequest, form: InviteForm, *, message: str = "", status: int = 200) -> HttpResponse:
    rows = get_user_model().objects.prefetch_related("groups").order_by("-is_active", "username")[:MAX_PEOPLE]
    context = {
        "rows": [(row, keeping.get_role(row), keeping.list_other_groups(row)) for row in rows],
        "form": form, "fresh": is_freshly_signed_in(request), "error": message,
    }  # fmt: skip
    return render(request, "people/people.html", context, status=status)


# ---------------------------------------------------------------- one of them


@require_http_methods(["GET", "HEAD", "POST"])
@needs(RIGHT)
def person(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one person; POST changes the role and groups."""
    person = get_object_or_404(get_user_model(), pk=pk)
    if request.method != "POST":
        return _render_person(request, person)
    form = PersonForm(request.POST)
    if not is_freshly_signed_in(request):
        return _render_person(request, person, message=SIGN_IN, status=401)
    if not form.is_valid():
        return _render_person(request, person, form=form, status=422)
    form_data, editor = form.cleaned_data, get_signed_in_person(request)
    return _apply_change(
        request,
        person,
        lambda seen_digest: keeping.change_person(person, **form_data, seen_digest=seen_digest, editor=editor),
        "is changed",
    )


@require_POST
@needs(RIGHT)
def change_access(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """Deactivate or activate a person, or create a sign-in link."""
    if action not in {"link", "on", "off"}:
        raise Http404
    person = get_object_or_404(get_user_model(), pk=pk)
    if not is_freshly_signed_in(request):
        return _render_person(request, person, message=SIGN_IN, status=401)
    if action != "link":
        on, editor = action == "on", get_signed_in_person(request)
        message = "can sign in again" if on else "is deactivated and signed out everywhere"
        if not on and (count := _count_grants(person)):
            message += f", and {count} standing approval{'' if count == 1 else 's'} revoked"
        return _apply_change(
            request,
            person,
            lambda seen_digest: keeping.set_active(person, on, seen_digest=seen_digest, editor=editor),
            message,
        )
    links: list[str] = []
    response = _try_change(request, person, lambda seen_digest: links.append(_issue_link(request, person, seen_digest)))
    return response or _render_person(request, person, link=links[0])


def _count_grants(person: User) -> int:
    return Grant.objects.live(time.time()).filter(created_by=person).count()


def _apply_change(request: HttpRequest, person: User, do: Callable[[str], None], message: str) -> HttpResponse:
    """Apply the change if the page was current, and report the result."""
    response = _try_change(request, person, do)
    if response is not None:
        return response
    messages.success(request, f"{person.get_username()} {message}.")
    return redirect("person", person.pk)


_REFUSALS: dict[type[Exception], tuple[str, int]] = {
    keeping.LastAdmin: (LAST, 409), keeping.StalePerson: (STALE, 412), keeping.NotASuperuser: (ABOVE, 403),
}  # fmt: skip


def _try_change(request: HttpRequest, person: User, do: Callable[[str], None]) -> HttpResponse | None:
    """Apply the change; return None, or the page that explains why it failed."""
    try:
        do(request.POST.get("seen", ""))
    except tuple(_REFUSALS) as refused:
        message, status = _REFUSALS[type(refused)]
        return _render_person(request, get_user_model().objects.get(pk=person.pk), message=message, status=status)
    return None


def _render_person(
    request: HttpRequest, person: User, *, form: PersonForm | None = None, link: str = "", message: str = "",
    status: int = 200,
) -> HttpResponse:  # fmt: skip
    initial = {"role": keeping.get_role(person) or "viewer", "groups": keeping.list_other_groups(person)}
    context = {
        "person": person, "role": keeping.get_role(person), "groups": initial["groups"],
        "seen": keeping.compute_state_digest(person),
        "form": form or PersonForm(initial=initial), "link": link, "error": message,
        "fresh": is_freshly_signed_in(request),
        "grants": _count_grants(person) if person.pk in list_voters() else 0,
        "tokens": PersonalToken.objects.live().filter(person=person).count(),
        "only_admin": keeping.is_only_admin(person),
        "protected": not keeping.can_change(get_signed_in_person(request), person),
    }  # fmt: skip
    answer = render(request, "people/person.html", context, status=status)
    if link:
        answer["Cache-Control"] = "no-store, private"
    return answer


def _issue_link(request: HttpRequest, person: User, seen_digest: str) -> str:
    origins = settings.TOOLCARDS.origins
    base = str(origins[0]) if origins else request.build_absolute_uri("/").rstrip("/")
    return keeping.create_sign_in_link(
        person, base, sign_in_links.INVITATION_SECONDS, seen_digest=seen_digest, editor=get_signed_in_person(request)
    )


# ---------------------------------------------------------------- oneself


@require_safe
@needs()
def settings_page(request: HttpRequest) -> HttpResponse:
    """Lead to what a person or an admin can set."""
    return render(request, "settings.html")


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@needs()
def password(request: HttpRequest) -> HttpResponse:
    """Change one's own password.

    Needs the old one, or a recent sign-in by link.
    """
    user = get_signed_in_person(request)
    has_one = user.has_usable_password()
    data = request.POST if request.method == "POST" else None
    form = (
        OwnPasswordForm(user, data, session=request.session.session_key or "")
        if has_one
        else SetPasswordForm(user, data)
    )
    is_allowed, status = has_one or is_freshly_signed_in(request), 200
    if request.method == "POST":
        status = 422 if is_allowed else 401
        if is_allowed and form.is_valid():
            save_person(form.save(commit=False))  # hashing takes a while, so it is not in the transaction
            update_session_auth_hash(request, user)
            messages.success(request, "Your password is set. Your other sessions are signed out.")
            return redirect("password")
        status = 429 if form.has_error("old_password", "later") else status
    tokens = PersonalToken.objects.live().filter(person=user).count()
    context = {"form": form, "allowed": is_allowed, "has_one": has_one, "tokens": tokens}
    return render(request, "people/password.html", context, status=status)
