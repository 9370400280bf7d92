"""Records deletions in the audit trail, in the transaction that deletes.

Usually keys are revoked and people deactivated; deleting them needs its own permission.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models.signals import post_delete
from django.dispatch import receiver

from toolcards.audit.trail import Act, write_acts
from toolcards.models import AgentKey, Source


@receiver(post_delete, sender=AgentKey)
def record_key_deleted(sender: Any, instance: AgentKey, **kwargs: Any) -> None:
    """Record a deleted key; its source may be deleted, too."""
    source = Source.objects.filter(pk=instance.source_id).values_list("name", flat=True).first()
    detail = {"source": source or str(instance.source_id), "prefix": f"{instance.prefix}…", "scopes": instance.scopes}
    write_acts(Act("key.deleted", detail=detail))


@receiver(post_delete, sender=Source)
def record_source_deleted(sender: Any, instance: Source, **kwargs: Any) -> None:
    """Record a deleted source."""
    write_acts(Act("source.deleted", detail={"source": instance.name, "env": instance.env}))


@receiver(post_delete, sender=get_user_model())
def record_person_deleted(sender: Any, instance: Any, **kwargs: Any) -> None:
    """Record a deleted person."""
    write_acts(Act("person.deleted", detail={"person": instance.get_username()}))
