"""What belongs to one person: saved filters of pages, and tokens with which programs act as the person."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone

from toolcards.audit.trail import Act, write_acts
from toolcards.models.sources import hash_secret, note_key_change

# Each scope with the permission that the person needs for it.
TOKEN_SCOPES = {
    "read": "toolcards.view_run",
    "vote": "toolcards.vote",
    "policy": "toolcards.edit_policy",
    "audit": "toolcards.view_auditrow",
}
MAX_TOKENS = 50  # live ones of a person
MAX_DAYS = 365
MAX_NAME_LENGTH = 60


class SavedFilter(models.Model):
    """A person's name for the query of a page."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    page = models.CharField(max_length=20)  # "calls" or "runs"
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    query = models.TextField()  # percent-encoded, as in the page's address
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()  # each person has their own
        constraints = [
            models.UniqueConstraint(fields=["person", "page", "name"], name="one_saved_filter_per_name"),
        ]

    def __str__(self) -> str:
        return self.name


class TooManyTokens(Exception):
    """The person has as many live tokens as one can have."""


class PersonalTokenQuerySet(models.QuerySet["PersonalToken"]):
    """Personal tokens: create, find by secret, revoke."""

    def issue(self, person: Any, name: str, scopes: Collection[str], days: int) -> tuple[PersonalToken, str]:
        """Create a token; return it with its secret, which is not stored.

        It expires after `days`. Raises ValueError for unknown scopes or none, and TooManyTokens.
        """
        if not scopes or set(scopes) - set(TOKEN_SCOPES) or not 1 <= days <= MAX_DAYS:
            raise ValueError(f"a token needs scopes of {' '.join(TOKEN_SCOPES)}, and 1 to {MAX_DAYS} days")
        secret = f"tcp_{secrets.token_urlsafe(32)}"
        with transaction.atomic():
            if self.live().filter(person=person).count() >= MAX_TOKENS:
                raise TooManyTokens
            token = self.create(
                person=person, name=name, prefix=secret[:8], digest=hash_secret(secret),
                scopes=" ".join(scope for scope in TOKEN_SCOPES if scope in scopes),
                expires_at=timezone.now() + timedelta(days=days),
            )  # fmt: skip
            expiry = {"expires_at": f"{token.expires_at:%Y-%m-%dT%H:%M:%SZ}"}
            write_acts(Act("token.created", detail=token.describe() | expiry))
        return token, secret

    def live(self) -> PersonalTokenQuerySet:
        """Return the tokens that are valid now, of people who are active."""
        return self.filter(revoked_at=None, expires_at__gt=timezone.now(), person__is_active=True)

    def find_by_secret(self, secret: str) -> PersonalToken | None:
        """Return the live token with this secret."""
        return self.live().select_related("person").filter(digest=hash_secret(secret)).first()

    def revoke(self) -> int:
        """Revoke these tokens, audited; return how many were not revoked yet."""
        with transaction.atomic():
            tokens = list(self.filter(revoked_at=None).select_for_update(of=("self",)).select_related("person"))
            self.model.objects.filter(pk__in=[token.pk for token in tokens]).update(revoked_at=timezone.now())
            write_acts(*(Act("token.revoked", detail=token.describe()) for token in tokens))
            transaction.on_commit(note_key_change, robust=True)
        return len(tokens)


class PersonalToken(models.Model):
    """A token that a person's programs sign in with; its secret is shown once and never stored."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=8)
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.CharField(max_length=100)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    objects = PersonalTokenQuerySet.as_manager()

    class Meta:
        default_permissions = ()  # people manage their own

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def is_expired(self) -> bool:
        """Return whether its time is over."""
        return self.expires_at <= timezone.now()

    def describe(self) -> dict[str, str]:
        """Return the details of the token for the audit trail."""
        return {
            "person": self.person.get_username(), "name": self.name, "prefix": f"{self.prefix}…",
            "scopes": self.scopes,
        }  # fmt: skip


def list_granted_scopes(person: Any, scopes: Iterable[str]) -> frozenset[str]:
    """Return those scopes that the person's role still permits."""
    return frozenset(scope for scope in scopes if person.has_perm(TOKEN_SCOPES[scope]))
