"""Records changes of people and groups in the audit trail, so that none happens without its row.

Pages, commands and the Django admin all save through Django's models, whose signals this module receives. The row is
written before the change (`pre_save`): if it cannot be written, Django does not begin to save. Code of ours saves in a
transaction (`save_person`, `record_as_one_act`, the admin's views), which keeps the row and the change together also if
the save fails. Django's own commands save without a transaction, since no signal surrounds a save: if the save fails
after its row was written, the command reports an error, and the trail has a row of an attempt.

A function that changes several things of one person uses `record_as_one_act`, which writes one row.

Deletions are recorded in the transaction that deletes. Usually keys are revoked and people deactivated; deleting them
needs its own permission.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models.signals import m2m_changed, post_delete, pre_delete, pre_save
from django.dispatch import receiver

from toolcards.audit.trail import Act, write_acts
from toolcards.gate import revoke_grants_of
from toolcards.models import AgentKey, PersonalToken, Source

FLAGS = {"username": "name", "is_active": "active", "is_staff": "staff", "is_superuser": "superuser"}
_grouped_person: ContextVar[str] = ContextVar("grouped_person", default="")  # whose changes the caller records


def save_person(person: User, **options: Any) -> None:
    """Save the person and the row of the trail together, or neither."""
    with transaction.atomic():
        person.save(**options)


@contextmanager
def record_as_one_act(act: str, name: str) -> Iterator[None]:
    """Record all changes of the person in the block as one act.

    The row has the old and new values. No row is written if nothing changed.
    """
    with transaction.atomic():
        before = _read_state(name)
        token = _grouped_person.set(name)
        try:
            yield
        finally:
            _grouped_person.reset(token)
        after = _read_state(name)
        if before != after:
            write_acts(
                Act(
                    act,
                    detail={"person": name} | (_find_differences(before, after) if before else _without_name(after)),
                )
            )


def _read_state(name: str) -> dict[str, Any]:
    person = User.objects.filter(username=name).first()
    if person is None:
        return {}
    return _read_flags(person) | {
        "groups": _sort_names(person.groups.all()),
        "rights": _sort_names(person.user_permissions.all()),
        "signs_in": _describe_sign_in_method(person),
    }


def _read_flags(person: User) -> dict[str, Any]:
    return {word: getattr(person, field) for field, word in FLAGS.items()}


def _describe_sign_in_method(person: User) -> str:
    return "by password" if person.has_usable_password() else "by link"


def _find_differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {name: {"was": before.get(name), "is": value} for name, value in after.items() if before.get(name) != value}


def _without_name(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name != "name"}


def _sort_names(rows: Iterable[Any]) -> list[str]:
    """Return the sorted names of groups or rights."""
    return sorted(row.codename if hasattr(row, "codename") else row.name for row in rows)


# ---------------------------------------------------------------- people


@receiver(pre_save, sender=User)
def revoke_rights_of_inactive(
    sender: Any, instance: User, update_fields: Iterable[str] | None = None, **kwargs: Any
) -> None:
    """Revoke a person's grants and tokens on deactivation and activation.

    Another process may have written a vote in the moment of the deactivation. Called before `record_person_saved`,
    because the writer locks grants before the end of the trail.
    """
    if instance.pk is None or (update_fields is not None and "is_active" not in update_fields):
        return
    if User.objects.filter(pk=instance.pk).exclude(is_active=instance.is_active).exists():
        revoke_grants_of(instance)
        PersonalToken.objects.filter(person=instance).revoke()


@receiver(pre_save, sender=User)
def record_person_saved(sender: Any, instance: User, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
    """Record a new or changed person; sign-in times are not recorded."""
    name, saved_fields = instance.get_username(), {*FLAGS, "password"}
    if update_fields is not None:
        saved_fields &= set(update_fields)
    if name != _grouped_person.get() and saved_fields:
        with transaction.atomic():
            # The person is locked before the end of the trail, in the order of all other changes.
            before = User.objects.select_for_update(no_key=True).filter(pk=instance.pk).first()
            write_acts(*(_list_acts(before, instance, saved_fields) if before else [_describe_creation(instance)]))


def _describe_creation(person: User) -> Act:
    state = {"signs_in": _describe_sign_in_method(person)} | _without_name(_read_flags(person))
    return Act("person.created", detail={"person": person.get_username()} | state)


def _list_acts(before: User, after: User, saved_fields: set[str]) -> list[Act]:
    saved_words = {FLAGS[field] for field in saved_fields if field in FLAGS}
    differences = _find_differences(_read_flags(before), _read_flags(after))
    differences = {word: difference for word, difference in differences.items() if word in saved_words}
    acts = [Act("person.changed", detail={"person": before.get_username()} | differences)] if differences else []
    if "password" in saved_fields and before.password != after.password:
        detail = {"person": after.get_username(), "how": _describe_password_change(after)}
        acts.append(Act("person.password", detail=detail))
    return acts


def _describe_password_change(person: User) -> str:
    """Return how the password changed; a sign-in can rehash it without a new one."""
    if not person.has_usable_password():
        return "taken away"
    return "set" if getattr(person, "_password", None) is not None else "hashed anew"


# ---------------------------------------------------------------- groups


@receiver(pre_save, sender=Group)
def record_group_saved(sender: Any, instance: Group, **kwargs: Any) -> None:
    """Record a new or renamed group, since rules name groups."""
    with transaction.atomic():
        before = Group.objects.select_for_update().filter(pk=instance.pk).first()
        if before is None:
            write_acts(Act("group.created", detail={"group": instance.name}))
        elif before.name != instance.name:
            write_acts(Act("group.renamed", detail={"group": before.name, "is": instance.name}))


@receiver(pre_delete, sender=Group)
def record_group_deleted(sender: Any, instance: Group, **kwargs: Any) -> None:
    """Record a deleted group with its members, who lose its rights."""
    members = sorted(instance.user_set.values_list("username", flat=True))
    write_acts(Act("group.deleted", detail={"group": instance.name, "members": members}))


# ---------------------------------------------------------------- memberships and rights

# For each relation: the act, the word for its owner, and the field of the owner.
_RELATIONS = {
    User.groups.through: ("person.groups", "person", "groups"),
    User.user_permissions.through: ("person.rights", "person", "user_permissions"),
    Group.permissions.through: ("group.rights", "group", "permissions"),
}


def record_membership_change(
    sender: Any, instance: Any, action: str, reverse: bool, model: Any, pk_set: Any, **kwargs: Any
) -> None:
    """Record changed memberships or rights, from either end of the relation."""
    if action not in {"post_add", "pre_remove", "pre_clear"}:
        return
    act, word, side = _RELATIONS[sender]
    through = {field.related_model: field.name for field in sender._meta.fields if field.related_model}
    rows = sender.objects.filter(**{through[type(instance)]: instance})
    rows = rows.filter(**{f"{through[model]}__in": pk_set}) if pk_set is not None else rows
    own_model, other_model = (model, type(instance)) if reverse else (type(instance), model)
    changed_pks: dict[int, set[int]] = {}
    for own_pk, other_pk in rows.values_list(through[own_model], through[other_model]):
        changed_pks.setdefault(own_pk, set()).add(other_pk)
    for owner in own_model.objects.filter(pk__in=changed_pks):
        if word == "person" and str(owner) == _grouped_person.get():
            continue
        changed_names = set(_sort_names(other_model.objects.filter(pk__in=changed_pks[owner.pk])))
        write_acts(
            Act(
                act,
                detail={word: str(owner)}
                | _describe_membership_change(set(_sort_names(getattr(owner, side).all())), changed_names, action),
            )
        )


def _describe_membership_change(now: set[str], changed_names: set[str], action: str) -> dict[str, Any]:
    """Return old and new names; of more than 20 names, only those that changed."""
    was, after = (now - changed_names, now) if action == "post_add" else (now, now - changed_names)
    if len(now) > 20:
        return {"added": sorted(after - was), "removed": sorted(was - after)}
    return {"was": sorted(was), "is": sorted(after)}


for _through in _RELATIONS:
    m2m_changed.connect(record_membership_change, sender=_through)


@receiver(post_delete, sender=AgentKey)
def record_key_deleted(sender: Any, instance: AgentKey, **kwargs: Any) -> None:
    """Record a deleted key; its source may be deleted, too."""
    source = Source.objects.filter(pk=instance.source_id).values_list("name", flat=True).first()
    detail = {"source": source or str(instance.source_id), "prefix": f"{instance.prefix}…", "scopes": instance.scopes}
    write_acts(Act("key.deleted", detail=detail))


@receiver(post_delete, sender=Source)
def record_source_deleted(sender: Any, instance: Source, **kwargs: Any) -> None:
    """Write the source's name and environment to the audit trail."""
    write_acts(Act("source.deleted", detail={"source": instance.name, "env": instance.env}))


@receiver(post_delete, sender=get_user_model())
def record_person_deleted(sender: Any, instance: Any, **kwargs: Any) -> None:
    """Write the account name to the audit trail."""
    write_acts(Act("person.deleted", detail={"person": instance.get_username()}))
