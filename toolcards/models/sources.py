"""Sources: agent programs, their keys, their tools, proofs, and the receipts of their requests."""

from __future__ import annotations

import hashlib
import itertools
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone

from toolcards.audit.trail import Act, write_acts
from toolcards.encryption import SealedText

SCOPES = ("ingest", "decide", "result", "read")  # of a key that is created without a choice
READ_ALL = "read:all"  # also the runs of other sources; no key has it by default
EVERY_SCOPE = (*SCOPES, READ_ALL)
MAX_KEY_DAYS = 3_650  # until which a key can expire


_key_changes = itertools.count(1)
_last_key_change = 0


def get_key_changes() -> int:
    """Return a number that grows when this process changes a key."""
    return _last_key_change


def note_key_change() -> None:
    """Make caches of keys look again."""
    global _last_key_change
    _last_key_change = next(_key_changes)


def hash_secret(secret: str) -> str:
    """Return the hash of an agent key, which is stored.

    Keys are 256 random bits, so a single plain hash is enough.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def compute_key_expiry(days: int | None) -> datetime | None:
    """Return when a new key expires; None if never."""
    return timezone.now() + timedelta(days=days) if days else None


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
        """Change `owner`, `env` or `name`, and audit the old and new values."""
        with transaction.atomic():
            current = Source.objects.select_for_update(of=("self",)).get(pk=self.pk)
            was = {name: getattr(current, name) for name in fields}
            for name, value in fields.items():
                setattr(self, name, value)
            self.save(update_fields=list(fields))
            changed_columns = {
                name: {"was": str(was[name] or ""), "is": str(value or "")}
                for name, value in fields.items()
                if was[name] != value
            }
            if changed_columns:
                write_acts(Act("source.changed", detail={"source": current.name} | changed_columns))


class SourceUsage(models.Model):
    """How many bytes a source has sent, as of a steady time: they drain evenly, see `toolcards.gate.source_usage`."""

    source = models.BigIntegerField(primary_key=True)  # no foreign key: a deleted source must not fail a commit
    level = models.FloatField()
    at = models.FloatField()

    class Meta:
        default_permissions = ()  # no one changes it by hand

    def __str__(self) -> str:
        return f"source {self.source}: {self.level:.0f} bytes"


class SeenTool(models.Model):
    """A tool's schema that a source has sent. Until a person accepts it, calls count as those of a changed tool.

    `how`: announced by a run, or named by the agent in a request; for `server`, the column of the schema's digest
    has the tool's origin instead. Times are epoch seconds.
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
    """The newest proof of each capability of a source.

    `ability`: observe, gate, edit, stream, or fails (what it does while the server is down); `by`: a probe, or real
    traffic. The call is named by its ids, because it can be deleted before the proof.
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


GRACE = timedelta(hours=24)  # in which a replaced key works, until its replacement is used


class AgentKeyQuerySet(models.QuerySet["AgentKey"]):
    """Agent keys: create, change, revoke, find by secret."""

    def issue(
        self, name: str, scopes: tuple[str, ...] = SCOPES, secret: str = "", *, expires_at: datetime | None = None
    ) -> tuple[AgentKey, str]:
        """Create a key; return it with its secret, which is not stored."""
        unknown = set(scopes) - set(EVERY_SCOPE)
        if unknown:
            raise ValueError(f"unknown scopes: {', '.join(sorted(unknown))}")
        secret = secret or f"tck_{secrets.token_urlsafe(32)}"
        with transaction.atomic():
            source, _ = Source.objects.get_or_create(name=name)
            key = self.create(
                source=source, prefix=secret[:8], digest=hash_secret(secret), scopes=" ".join(scopes),
                expires_at=expires_at,
            )  # fmt: skip
            expiry = {"expires_at": f"{expires_at:%Y-%m-%dT%H:%M:%SZ}"} if expires_at else {}
            write_acts(Act("key.created", detail=key.describe() | expiry))
        return key, secret

    def update(self, **columns: Any) -> int:
        """See Django; a revocation is audited."""
        if "revoked_at" not in columns:
            return super().update(**columns)
        with transaction.atomic():
            transaction.on_commit(note_key_change, robust=True)
            keys = list(self.select_for_update(of=("self",)).select_related("source"))
            changed_count = super().update(**columns)
            write_acts(*(key.build_revocation_act(bool(columns["revoked_at"])) for key in keys))
        return changed_count

    def ensure(self, secret: str, name: str = "automation") -> AgentKey:
        """Return the key with this secret and all scopes, without an end."""
        key = self.filter(digest=hash_secret(secret)).first()
        if key is None:
            return self.issue(name, SCOPES, secret)[0]
        if key.revoked_at or key.expires_at or key.scopes != " ".join(SCOPES):
            self.filter(pk=key.pk).update(revoked_at=None, expires_at=None, scopes=" ".join(SCOPES))
            key.refresh_from_db()
        return key

    def rotate(self, key: AgentKey, *, at_once: bool = False) -> tuple[AgentKey, str]:
        """Replace the key, keep its rights; return it with its secret.

        The old key works until the new one is used, for `GRACE` at most. It ends now if `at_once`, or an agent sent it.
        """
        with transaction.atomic():
            new_key, secret = self.issue(key.source.name, tuple(key.scopes.split()), expires_at=key.expires_at)
            if at_once or key.exposed_at:
                self.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now())
            else:
                end = min(filter(None, (key.expires_at, timezone.now() + GRACE)))
                self.filter(pk=key.pk, revoked_at=None).update(expires_at=end, replaced_by=new_key)
                transaction.on_commit(note_key_change, robust=True)
        return new_key, secret

    def end_replaced(self, new_key: AgentKey) -> None:
        """Revoke the keys that this key replaces: it is in use."""
        old_keys = self.filter(replaced_by=new_key.pk, revoked_at=None)
        if old_keys.exists():
            old_keys.update(revoked_at=timezone.now())

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
    """A key that an agent signs in with; its secret is shown once and never stored."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="keys")
    prefix = models.CharField(max_length=8)
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.CharField(max_length=100)
    created_at = models.DateTimeField(default=timezone.now)
    used_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    exposed_at = models.DateTimeField(null=True, blank=True)  # when an agent first sent it in a frame
    exposed_run = models.CharField(max_length=200, blank=True, default="", db_default="")
    replaced_by = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    objects = AgentKeyQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.source} ({self.prefix}…)"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """See Django; caches of keys are refreshed."""
        transaction.on_commit(note_key_change, robust=True)
        super().save(*args, **kwargs)

    def build_revocation_act(self, is_revoked: bool) -> Act:
        """Return the act of a key that is revoked or reopened."""
        return Act("key.revoked" if is_revoked else "key.reopened", detail=self.describe())

    def describe(self) -> dict[str, str]:
        """Return the details of the key for the audit trail."""
        return {"source": self.source.name, "prefix": f"{self.prefix}…", "scopes": self.scopes}


class Receipt(models.Model):
    """A request with an `Idempotency-Key`: its answer, or how far its body was applied and which request reads it.

    A body is read under a lease: `holder` is the token of the request that reads it, empty for none. `frames` is the
    number of complete frames applied so far; `facts_left` is the number of facts of the next frame still to apply, None
    if it has not started. `digest` covers all of these frames, and with an answer the end of the body as well.
    `request` is the digest of the request's query. `charged` bytes of the body count for the source's quota.
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
    charged = models.BigIntegerField(default=0)
    holder = models.CharField(max_length=32, default="", blank=True)
    held_until = models.FloatField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "key"], name="receipt_key")]

    def __str__(self) -> str:
        return self.key


class ReceiptPart(models.Model):
    """One commit's part of the answer to an incomplete body; deleted once the answer is stored."""

    receipt = models.ForeignKey(Receipt, on_delete=models.CASCADE, related_name="parts")
    body = SealedText()

    class Meta:
        default_permissions = ()  # no one changes it by hand

    def __str__(self) -> str:
        return f"part of {self.receipt_id}"
