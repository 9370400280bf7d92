"""What is gone for good, told to the audit trail in the transaction that deletes it, by whatever door it went.

Keys are revoked and people switched off as a rule; whoever has the right to delete them all the same leaves a trace.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models.signals import post_delete
from django.dispatch import receiver

from toolcards.audit.trail import Act, write_acts
from toolcards.models import AgentKey, Source


@receiver(post_delete, sender=AgentKey)
def record_key_deleted(sender: Any, instance: AgentKey, **rest: Any) -> None:
    """A key is gone; its source may be gone with it."""
    source = Source.objects.filter(pk=instance.source_id).values_list("name", flat=True).first()
    detail = {"source": source or str(instance.source_id), "prefix": f"{instance.prefix}…", "scopes": instance.scopes}
    write_acts(Act("key.deleted", detail=detail))


@receiver(post_delete, sender=Source)
def record_source_deleted(sender: Any, instance: Source, **rest: Any) -> None:
    """A source is gone, with its runs and keys."""
    write_acts(Act("source.deleted", detail={"source": instance.name, "env": instance.env}))


@receiver(post_delete, sender=get_user_model())
def record_person_deleted(sender: Any, instance: Any, **rest: Any) -> None:
    """A person is gone."""
    write_acts(Act("person.deleted", detail={"person": instance.get_username()}))
