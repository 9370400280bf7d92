"""Who connects: agent programs, their keys, the tools they have shown, and what their requests were answered."""

from __future__ import annotations

import hashlib
import itertools
import secrets
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone

from toolcards.audit.trail import Act, write_acts
from toolcards.encryption import SealedText

SCOPES = ("ingest", "decide", "result", "read")  # what a key gets unless it is created with others
READ_ALL = "read:all"  # also what other sources did; no key has it by default
EVERY_SCOPE = (*SCOPES, READ_ALL)


_key_changes = itertools.count(1)
_last_key_change = 0


def get_key_changes() -> int:
    """Return a number that grows whenever this process changes a key, for those who keep keys in memory."""
    return _last_key_change


def _note_key_change() -> None:
    global _last_key_change
    _last_key_change = next(_key_changes)


def hash_secret(secret: str) -> str:
    """Return what is stored of an agent key: keys are 256 random bits, so one plain hash is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Source(models.Model):
    """A connected agent program."""

    name = models.CharField(max_length=200, unique=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    env = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name

    def change(self, **fields: Any) -> None:
        """Change `owner`, `env` or `name`; the audit trail gets the old and new values."""
        with transaction.atomic():
            stored = Source.objects.select_for_update(of=("self",)).get(pk=self.pk)
            was = {name: getattr(stored, name) for name in fields}
            for name, value in fields.items():
                setattr(self, name, value)
            self.save(update_fields=list(fields))
            changed = {
                name: {"was": str(was[name] or ""), "is": str(value or "")}
                for name, value in fields.items()
                if was[name] != value
            }
            if changed:
                write_acts(Act("source.changed", detail={"source": stored.name} | changed))


class SeenTool(models.Model):
    """A tool's schema as a source has shown it; one that nobody accepted makes its calls those of a changed tool.

    `how`: announced by a run, or named by the agent when it asked; or `server`, then it is where the tool comes from
    that stands in place of the schema's digest. Times are epoch seconds.
    """

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="tools")
    name = models.CharField(max_length=300)
    how = models.CharField(max_length=10)
    schema_sha256 = models.CharField(max_length=64)
    first_seen = models.FloatField()
    accepted_at = models.FloatField(null=True, blank=True)
    accepted_by = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "name", "how", "schema_sha256"], name="seen_once")]

    def __str__(self) -> str:
        return f"{self.name} {self.schema_sha256[:8]}"


class Proof(models.Model):
    """What was seen of a source, the newest of each kind. `ability`: observe, gate, edit, stream, or fails (what it
    does with no server there); `by`: a probe, or real traffic. The call may be deleted since: it is told by name.
    """

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="proofs")
    ability = models.CharField(max_length=10)
    by = models.CharField(max_length=10)
    at = models.DateTimeField()
    run = models.CharField(max_length=200)
    call = models.CharField(max_length=40)
    protocol = models.CharField(max_length=40, blank=True)
    words = models.CharField(max_length=300)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "ability", "by"], name="proof_newest")]

    def __str__(self) -> str:
        return f"{self.ability} by {self.by}"


class AgentKeyQuerySet(models.QuerySet["AgentKey"]):
    """Agent keys: made, ended, found by their secret."""

    def issue(self, name: str, scopes: tuple[str, ...] = SCOPES, secret: str = "") -> tuple[AgentKey, str]:
        """Make a key for the source of that name; return it with its secret, which is not kept."""
        unknown = set(scopes) - set(EVERY_SCOPE)
        if unknown:
            raise ValueError(f"unknown scopes: {', '.join(sorted(unknown))}")
        secret = secret or f"tck_{secrets.token_urlsafe(32)}"
        with transaction.atomic():
            source, _ = Source.objects.get_or_create(name=name)
            key = self.create(source=source, prefix=secret[:8], digest=hash_secret(secret), scopes=" ".join(scopes))
            write_acts(Act("key.created", detail={"source": name, "prefix": f"{key.prefix}…", "scopes": key.scopes}))
        return key, secret

    def update(self, **columns: Any) -> int:
        """Change the keys; that they are revoked goes into the audit trail."""
        if "revoked_at" not in columns:
            return super().update(**columns)
        with transaction.atomic():
            transaction.on_commit(_note_key_change, robust=True)
            keys = list(self.select_for_update(of=("self",)).select_related("source"))
            changed = super().update(**columns)
            write_acts(*(key.build_revocation_act(bool(columns["revoked_at"])) for key in keys))
        return changed

    def ensure(self, secret: str, name: str = "automation") -> AgentKey:
        """Return the key with exactly this secret and all scopes, creating or updating it if necessary."""
        key = self.filter(digest=hash_secret(secret)).first()
        if key is None:
            return self.issue(name, SCOPES, secret)[0]
        if key.revoked_at or key.scopes != " ".join(SCOPES):
            self.filter(pk=key.pk).update(revoked_at=None, scopes=" ".join(SCOPES))
            key.refresh_from_db()
        return key

    def rotate(self, key: AgentKey) -> tuple[AgentKey, str]:
        """Replace the key by one with the same rights; return its secret too."""
        with transaction.atomic():
            new_key, secret = self.issue(key.source.name, tuple(key.scopes.split()))
            if key.expires_at is not None:
                self.filter(pk=new_key.pk).update(expires_at=key.expires_at)
            self.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now())
        return new_key, secret

    def mark_exposed(self, digests: Iterable[str], run: str) -> None:
        """Record that an agent sent live keys with these digests."""
        with transaction.atomic():
            keys = list(self.live().filter(digest__in=digests, exposed_at=None).select_related("source"))
            for key in keys:
                self.filter(pk=key.pk).update(exposed_at=timezone.now(), exposed_run=run)
            write_acts(*(Act("key.exposed", detail=key.describe() | {"run": run}) for key in keys))

    def live(self) -> AgentKeyQuerySet:
        """Return the keys that are valid now."""
        now = timezone.now()
        return self.filter(revoked_at=None).filter(models.Q(expires_at=None) | models.Q(expires_at__gt=now))

    def find_by_secret(self, secret: str) -> AgentKey | None:
        """Return the live key with this secret."""
        return self.live().select_related("source").filter(digest=hash_secret(secret)).first()


class AgentKey(models.Model):
    """What an agent signs in with; the secret itself is shown once and never stored."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="keys")
    prefix = models.CharField(max_length=8)
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.CharField(max_length=100)
    created_at = models.DateTimeField(default=timezone.now)
    used_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    exposed_at = models.DateTimeField(null=True, blank=True)  # when it was first seen in what an agent sent
    exposed_run = models.CharField(max_length=200, blank=True, default="", db_default="")
    objects = AgentKeyQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.source} ({self.prefix}…)"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """See Django; those who keep keys in memory read them again."""
        transaction.on_commit(_note_key_change, robust=True)
        super().save(*args, **kwargs)

    def build_revocation_act(self, ended: bool) -> Act:
        """Return what the audit trail says when the key is ended, or opened again."""
        return Act("key.revoked" if ended else "key.reopened", detail=self.describe())

    def describe(self) -> dict[str, str]:
        """Return what the audit trail says about the key."""
        return {"source": self.source.name, "prefix": f"{self.prefix}…", "scopes": self.scopes}

    def has_scope(self, scope: str) -> bool:
        """Return whether the key has the scope."""
        return scope in self.scopes.split()


class Receipt(models.Model):
    """A request with an `Idempotency-Key`: its answer, or how far its body was applied and who reads it now.

    A body is read under a lease: `holder` is the token of the request that reads it, empty where none does. `frames`
    counts the whole frames applied so far; `facts_left` is how many facts of the next one are still to be applied, None
    where it has not begun. `digest` covers all of these frames, `request` the query of the request.
    """

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    answer = SealedText()
    created_at = models.DateTimeField(default=timezone.now)
    request = models.CharField(max_length=64, default="", blank=True)
    run = models.CharField(max_length=200, default="", blank=True)
    frames = models.BigIntegerField(default=0)
    facts_left = models.IntegerField(null=True, blank=True)
    digest = models.CharField(max_length=64, default="", blank=True)
    holder = models.CharField(max_length=32, default="", blank=True)
    held_until = models.FloatField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "key"], name="receipt_key")]

    def __str__(self) -> str:
        return self.key


class ReceiptPart(models.Model):
    """What one commit adds to the answer of a body that is not whole yet; deleted once the answer is there."""

    receipt = models.ForeignKey(Receipt, on_delete=models.CASCADE, related_name="parts")
    body = SealedText()

    class Meta:
        default_permissions = ()  # no one changes it by hand

    def __str__(self) -> str:
        return f"part of {self.receipt_id}"
