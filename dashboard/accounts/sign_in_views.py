"""Sign in with a password or a link, and sign out."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dashboard.accounts import sign_in_links
from dashboard.accounts.access import allow_anyone
from dashboard.accounts.forms import TOO_MANY_ATTEMPTS_TEXT, SignInForm
from dashboard.accounts.guessing import devices, hashing
from dashboard.accounts.guessing.throttle import TooManyAttempts

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
        devices.set_device_cookie(self.request, answer, form.get_user().pk)
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
    devices.set_device_cookie(request, answer, person.pk)
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
