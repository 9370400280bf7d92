"""Forms that check a password, with bounded and throttled attempts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.core.exceptions import ValidationError

from dashboard.accounts.guessing import devices, throttle
from toolcards.audit.trail import Act, write_acts

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
            return throttle.sign_ins.admit(name, address, devices.find_device(self.request, person))
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
