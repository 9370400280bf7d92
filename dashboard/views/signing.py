"""Signing in with a password, and out again."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.utils.http import url_has_allowed_host_and_scheme


class SignIn(LoginView):
    """Name and password; who is signed in already goes on. `next` only within this site."""

    template_name = "registration/login.html"
    redirect_authenticated_user = True

    def get_redirect_url(self) -> str:
        """Return the page that was wanted, if it is a path of our own."""
        wanted = self.request.POST.get("next", self.request.GET.get("next", ""))
        return wanted if wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None) else ""


class SignOut(LogoutView):
    """A button posts here."""

    http_method_names = ["post", "options"]
