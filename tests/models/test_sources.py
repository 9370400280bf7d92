"""Sources and their keys: every change of a key is audited, and only live keys open anything."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from tests.support.audit_trail import acts, read_last
from tests.support.tables import loop_over
from toolcards.models import AgentKey, Receipt, Source
from toolcards.models.sources import (
    EVERY_SCOPE,
    GRACE,
    READ_ALL,
    SCOPES,
    ReceiptPart,
    compute_key_expiry,
    get_key_changes,
    hash_secret,
)

pytestmark = pytest.mark.django_db
LATER, EARLIER = timedelta(hours=1), timedelta(hours=-1)


def test_a_key_is_stored_as_a_digest_and_read_once(django_capture_on_commit_callbacks: Any) -> None:
    key, secret = AgentKey.objects.issue("bot")
    assert secret.startswith("tck_") and len(secret) > 40 and secret not in str(vars(key))
    assert (key.digest, key.prefix, key.scopes) == (hash_secret(secret), secret[:8], " ".join(SCOPES))
    assert AgentKey.objects.find_by_secret(secret) == key and AgentKey.objects.find_by_secret(secret[:-1]) is None
    assert secret not in str(read_last("key.created").detail) and str(key) == f"bot ({secret[:8]}…)"
    assert AgentKey.objects.issue("bot")[0].source == key.source


@loop_over("scopes", [("ingest", "admin"), ("",), ("read:al",), ("INGEST",)])
def test_a_scope_that_does_not_exist_is_not_given(scopes: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="unknown scopes"):
        AgentKey.objects.issue("bot", scopes)
    assert not AgentKey.objects.exists() and not Source.objects.exists()


def test_no_key_reads_everything_without_being_allowed_to() -> None:
    assert READ_ALL not in SCOPES and {*EVERY_SCOPE} == {*SCOPES, READ_ALL}


def test_a_key_is_live_until_it_is_revoked_or_expires() -> None:
    now = timezone.now()
    secrets = {
        name: AgentKey.objects.issue(name, expires_at=expires_at)[1]
        for name, expires_at in (
            ("for ever", None),
            ("later", now + LATER),
            ("expired", now + EARLIER),
            ("revoked", None),
        )
    }
    AgentKey.objects.filter(source__name="revoked").update(revoked_at=now)
    match = {name for name, secret in secrets.items() if AgentKey.objects.find_by_secret(secret)}
    assert match == {"for ever", "later"} == {key.source.name for key in AgentKey.objects.live()}


def test_a_revocation_is_audited_and_other_changes_are_not(key: AgentKey) -> None:
    count = len(acts())
    AgentKey.objects.filter(pk=key.pk).update(used_at=timezone.now())
    assert len(acts()) == count
    assert AgentKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now()) == 1
    AgentKey.objects.filter(pk=key.pk).update(revoked_at=None)
    assert acts()[count:] == ["key.revoked", "key.reopened"]


def test_key_caches_are_updated_after_every_committed_change(
    key: AgentKey, django_capture_on_commit_callbacks: Any
) -> None:
    for change in (
        lambda: AgentKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now()),
        key.save,
        lambda: AgentKey.objects.rotate(key),
    ):
        before = get_key_changes()
        with django_capture_on_commit_callbacks(execute=True):
            change()
            assert get_key_changes() == before
        assert get_key_changes() > before


def test_a_key_of_the_environment_works_whatever_was_done_to_it(key: AgentKey, secret: str) -> None:
    for columns in (
        {"revoked_at": timezone.now()}, {"expires_at": timezone.now() + EARLIER}, {"scopes": "ingest"},
        {"expires_at": timezone.now() + LATER},
    ):  # fmt: skip
        AgentKey.objects.filter(pk=key.pk).update(**columns)
        assert AgentKey.objects.ensure(secret).pk == key.pk
        match = AgentKey.objects.find_by_secret(secret)
        assert match is not None and (match.scopes, match.expires_at) == (" ".join(SCOPES), None)
    count = len(acts())
    AgentKey.objects.ensure(secret)
    assert len(acts()) == count


def test_a_key_that_is_replaced_hands_its_rights_on_and_ends_when_the_new_one_is_used() -> None:
    expires_at = timezone.now() + LATER
    old, old_secret = AgentKey.objects.issue("bot", ("ingest", READ_ALL), expires_at=expires_at)
    new, secret = AgentKey.objects.rotate(old)
    assert (new.source, new.scopes, new.expires_at) == (old.source, old.scopes, expires_at)
    assert AgentKey.objects.find_by_secret(secret) == new and AgentKey.objects.find_by_secret(old_secret) == old
    AgentKey.objects.end_replaced(new)
    assert AgentKey.objects.find_by_secret(secret) == new and AgentKey.objects.find_by_secret(old_secret) is None
    assert acts().count("key.revoked") == 1
    AgentKey.objects.end_replaced(new)
    assert acts().count("key.revoked") == 1


@pytest.mark.parametrize("end", [None, timedelta(hours=1), timedelta(days=30)])
def test_a_replaced_key_works_a_day_longer_at_most(end: timedelta | None) -> None:
    now = timezone.now()
    old, _ = AgentKey.objects.issue("bot", expires_at=now + end if end else None)
    AgentKey.objects.rotate(old)
    old.refresh_from_db()
    assert old.expires_at is not None
    assert abs(old.expires_at - now - min(end or GRACE, GRACE)) < timedelta(minutes=1)


def test_a_replaced_key_ends_at_once_on_demand_or_if_an_agent_sent_it(key: AgentKey, secret: str) -> None:
    other, other_secret = AgentKey.objects.issue("bot")
    AgentKey.objects.rotate(other, at_once=True)
    AgentKey.objects.mark_exposed([hash_secret(secret)], "run")
    key.refresh_from_db()
    AgentKey.objects.rotate(key)
    assert AgentKey.objects.find_by_secret(secret) is None and AgentKey.objects.find_by_secret(other_secret) is None


def test_a_key_that_an_agent_sent_is_marked_the_first_time(key: AgentKey, secret: str) -> None:
    AgentKey.objects.mark_exposed([hash_secret(secret), hash_secret("another")], "run-1")
    AgentKey.objects.mark_exposed([hash_secret(secret)], "run-2")
    key.refresh_from_db()
    assert key.exposed_at and key.exposed_run == "run-1" and acts().count("key.exposed") == 1
    assert read_last("key.exposed").details["run"] == "run-1"
    assert AgentKey.objects.find_by_secret(secret) == key  # it still works: a person decides


def test_a_key_that_is_not_live_is_not_marked(key: AgentKey, secret: str) -> None:
    AgentKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now())
    AgentKey.objects.mark_exposed([hash_secret(secret)], "run-1")
    assert "key.exposed" not in acts()


@loop_over("days, expires", [(None, False), (0, False), (1, True), (3650, True)])
def test_a_key_expires_in_so_many_days_or_never(days: int | None, expires: bool) -> None:
    moment = compute_key_expiry(days)
    assert (moment is not None) is expires
    if moment is not None and days:
        assert abs(moment - timezone.now() - timedelta(days=days)) < timedelta(minutes=1)


def test_a_change_of_a_source_is_audited_with_what_it_was(source: Source, an_approver: Any) -> None:
    count = len(acts())
    source.change(env="", name=source.name)
    assert len(acts()) == count  # nothing changed
    source.change(owner=an_approver, env="prod")
    source.refresh_from_db()
    assert (source.owner, source.env) == (an_approver, "prod") and acts()[count:] == ["source.changed"]
    assert read_last("source.changed").details["env"] == {"was": "", "is": "prod"}


def test_a_request_has_one_receipt_and_its_parts_go_with_it(source: Source) -> None:
    receipt = Receipt.objects.create(source=source, key="k", answer="")
    ReceiptPart.objects.create(receipt=receipt, body="{}")
    with pytest.raises(IntegrityError), transaction.atomic():
        Receipt.objects.create(source=source, key="k", answer="")
    receipt.delete()
    assert not ReceiptPart.objects.exists()
