"""Sign in with a password or a link, and sign out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model, login
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dashboard.accounts import sign_in_links
from dashboard.accounts.access import allow_anyone
from dashboard.accounts.guessing import hashing, throttle
from dashboard.accounts.guessing.throttle import TooManyAttempts
from toolcards.audit.trail import Act, write_acts

# Forms that check a password, with bounded and throttled attempts.
MAX_PASSWORD = 4096  # characters
TOO_MANY_ATTEMPTS_TEXT = "Too many failed attempts. Try again in {} seconds."


class MaximumLengthValidator:
    """Refuses new passwords that are too long to sign in with."""

    def validate(self, password: str, user: Any = None) -> None:
        """Raise ValidationError if the password is too long."""
        if len(password) > MAX_PASSWORD:
            raise ValidationError(self.get_help_text(), code="password_too_long")

    def get_help_text(self) -> str:
        """Return the limit in words."""
        return f"Your password can’t be longer than {MAX_PASSWORD:,} characters."


class SignInForm(AuthenticationForm):
    """Name and password. Raises TooManyAttempts and Busy, which are not errors of a field."""

    def clean(self) -> dict[str, Any]:
        """Check the password if the throttle admits this attempt."""
        name = self.cleaned_data.get("username")
        if not name or not self.cleaned_data.get("password"):
            return self.cleaned_data
        attempt = self._admit(name)
        longest = get_user_model()._meta.get_field("username").max_length or 150
        if len(name) > longest or len(self.cleaned_data["password"]) > MAX_PASSWORD:
            raise self.get_invalid_login_error()
        with _count_failure(attempt):
            return super().clean()

    def _admit(self, name: str) -> throttle.SignInAttempt:
        assert self.request is not None
        person = get_user_model().objects.filter(username=name).values_list("pk", flat=True).first()
        address = str(self.request.META.get("REMOTE_ADDR", ""))
        try:
            return throttle.sign_ins.admit(name, address, throttle.find_device(self.request, person))
        except throttle.TooManyAttempts as refused:
            if refused.first:
                detail = {"typed": name} if person else {}
                write_acts(
                    Act("signin.throttled", "nobody", detail=detail | {"from": address, "seconds": refused.wait})
                )
            raise


class OwnPasswordForm(PasswordChangeForm):
    """Change one's own password. Wrong old passwords slow down only this session."""

    def __init__(self, user: Any, *args: Any, session: str, **kwargs: Any) -> None:
        super().__init__(user, *args, **kwargs)
        self._session = session

    def clean_old_password(self) -> str:
        """Check the old password if the throttle admits this attempt."""
        try:
            attempt = throttle.sign_ins.admit("", "", f"session {self._session}")
        except throttle.TooManyAttempts as refused:
            raise ValidationError(TOO_MANY_ATTEMPTS_TEXT.format(refused.wait), code="later") from None
        with _count_failure(attempt):
            return str(super().clean_old_password())


@contextmanager
def _count_failure(attempt: throttle.SignInAttempt) -> Iterator[None]:
    """Count the attempt as failed if the password is wrong; refund it if it was not checked."""
    try:
        yield
    except ValidationError:
        raise
    except BaseException:
        attempt.refund()
        raise
    attempt.succeed()


BUSY_TEXT = "Too many people are signing in right now. Try again in a few seconds."


class SignInView(LoginView):
    """Sign in by name and password. `next` must be a path of this site."""

    template_name = "registration/login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Check the password; 429 after too many attempts, or when too busy."""
        try:
            return super().post(request, *args, **kwargs)
        except TooManyAttempts as refused:
            return self._later(TOO_MANY_ATTEMPTS_TEXT.format(refused.wait), refused.wait)
        except hashing.HashingBusy:
            return self._later(BUSY_TEXT, hashing.RETRY_AFTER)

    def _later(self, message: str, seconds: int) -> HttpResponse:
        form = SignInForm(self.request, initial={"username": self.request.POST.get("username", "")})
        context = self.get_context_data(form=form, later=message)
        return self.render_to_response(context, status=429, headers={"Retry-After": str(seconds)})

    def form_valid(self, form: Any) -> HttpResponse:
        """Sign in and remember the browser for this person."""
        answer = super().form_valid(form)
        throttle.set_device_cookie(self.request, answer, form.get_user().pk)
        return answer

    def get_redirect_url(self, request: HttpRequest | None = None) -> str:
        """Return the requested page if it is safe to redirect there.

        That is a local path that is not a sign-in page.
        """
        next_url = self.request.POST.get("next", self.request.GET.get("next", ""))
        is_local = next_url.startswith("/") and url_has_allowed_host_and_scheme(next_url, allowed_hosts=None)
        return next_url if is_local and not next_url.startswith(("/login", "/logout", "/admin/log")) else ""


class SignOutView(LogoutView):
    """Sign out by POST."""

    http_method_names = ["post", "options"]


@allow_anyone
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def use_link(request: HttpRequest, token: str) -> HttpResponse:
    """Show the account of the link.

    POST signs in. 410 if it is used or expired.
    """
    person = sign_in_links.claim_link(token) if request.method == "POST" else sign_in_links.find_person(token)
    if person is None:
        return render(request, "registration/link_gone.html", status=410)
    if request.method != "POST":
        return render(request, "registration/link.html", {"person": person})
    login(request, person, backend=settings.AUTHENTICATION_BACKENDS[0])
    answer = redirect(settings.LOGIN_REDIRECT_URL)
    throttle.set_device_cookie(request, answer, person.pk)
    return answer


@allow_anyone
def redirect_to_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect the Django admin's visitors to our sign-in page.

    403 for people without access.
    """
    if request.user.is_authenticated and not request.user.is_staff:
        raise PermissionDenied
    next_url = request.GET.get("next") or reverse("admin:index")
    return redirect(f"{settings.LOGIN_URL}?{urlencode({'next': next_url})}")
