"""What changes of people and groups, told to the audit trail in the transaction that changes it, by whatever door.

Pages, commands and the Django admin all save through Django's models, so that is where it is watched. A door of ours
that changes several things of one person says so (`as_one`) and is told as one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save
from django.dispatch import receiver

from toolcards.audit.trail import Act, write_acts

FLAGS = {"username": "name", "is_active": "active", "is_staff": "staff", "is_superuser": "superuser"}
_grouped_person: ContextVar[str] = ContextVar("told", default="")  # whose changes somebody further out tells

# Django saves people and groups without a transaction around it. With one, the row of the trail and what it tells of
# are written together or not at all, in Django's own commands and admin too.
User.save = transaction.atomic(User.save)  # type: ignore[method-assign]
Group.save = transaction.atomic(Group.save)  # type: ignore[method-assign]


@contextmanager
def record_as_one_act(act: str, name: str) -> Iterator[None]:
    """Tell what happens inside to the person of that name as one act, with what was and is, if anything changed."""
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
    """The names of groups or rights, in order."""
    return sorted(row.codename if hasattr(row, "codename") else row.name for row in rows)


# ---------------------------------------------------------------- people


@receiver(pre_save, sender=User)
def _remember_stored_person(sender: Any, instance: User, update_fields: Any = None, **rest: Any) -> None:
    """Remember what is stored, for whoever is about to be saved; a sign-in alone changes nothing of who may do what."""
    concerned = update_fields is None or {*FLAGS, "password"} & set(update_fields)
    has_stored_row = concerned and instance.pk and instance.get_username() != _grouped_person.get()
    instance._before = User.objects.filter(pk=instance.pk).first() if has_stored_row else None  # type: ignore[attr-defined]


@receiver(post_save, sender=User)
def record_person_saved(sender: Any, instance: User, created: bool, **rest: Any) -> None:
    """A person is new, or was changed."""
    name, before = instance.get_username(), instance._before  # type: ignore[attr-defined]
    if name == _grouped_person.get():
        return
    if created:
        write_acts(
            Act(
                "person.created",
                detail={"person": name, "signs_in": _describe_sign_in_method(instance)}
                | _without_name(_read_flags(instance)),
            )
        )
    elif before is not None:
        changed = _find_differences(_read_flags(before), _read_flags(instance))
        if changed:
            write_acts(Act("person.changed", detail={"person": before.get_username()} | changed))
        if before.password != instance.password:
            write_acts(Act("person.password", detail={"person": name, "how": _describe_password_change(instance)}))


def _describe_password_change(person: User) -> str:
    """A sign-in hashes a password anew that was hashed the old way: then nobody has typed a new one."""
    if not person.has_usable_password():
        return "taken away"
    return "set" if getattr(person, "_password", None) is not None else "hashed anew"


# ---------------------------------------------------------------- groups


@receiver(pre_save, sender=Group)
def _remember_stored_group(sender: Any, instance: Group, **rest: Any) -> None:
    instance._before = Group.objects.filter(pk=instance.pk).first() if instance.pk else None  # type: ignore[attr-defined]


@receiver(post_save, sender=Group)
def record_group_saved(sender: Any, instance: Group, created: bool, **rest: Any) -> None:
    """A group is new, or has another name: rules name it."""
    before = instance._before  # type: ignore[attr-defined]
    if created:
        write_acts(Act("group.created", detail={"group": instance.name}))
    elif before is not None and before.name != instance.name:
        write_acts(Act("group.renamed", detail={"group": before.name, "is": instance.name}))


@receiver(pre_delete, sender=Group)
def record_group_deleted(sender: Any, instance: Group, **rest: Any) -> None:
    """A group is gone, and with it what its members might do."""
    members = sorted(instance.user_set.values_list("username", flat=True))
    write_acts(Act("group.deleted", detail={"group": instance.name, "members": members}))


# ---------------------------------------------------------------- who is in which group, and what it may do

# What is told, of whom, and the name of that one's side of the relation.
_RELATIONS = {
    User.groups.through: ("person.groups", "person", "groups"),
    User.user_permissions.through: ("person.rights", "person", "user_permissions"),
    Group.permissions.through: ("group.rights", "group", "permissions"),
}


def record_membership_change(
    sender: Any, instance: Any, action: str, reverse: bool, model: Any, pk_set: Any, **rest: Any
) -> None:
    """Somebody joined or left, or was given or lost rights, from whichever end of the relation."""
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
        changed = set(_sort_names(other_model.objects.filter(pk__in=changed_pks[owner.pk])))
        write_acts(
            Act(
                act,
                detail={word: str(owner)}
                | _describe_membership_change(set(_sort_names(getattr(owner, side).all())), changed, action),
            )
        )


def _describe_membership_change(now: set[str], changed: set[str], action: str) -> dict[str, Any]:
    """What was and what is; of rights, of which there are many, only what moved."""
    was, then = (now - changed, now) if action == "post_add" else (now, now - changed)
    if len(now) > 20:
        return {"added": sorted(then - was), "removed": sorted(was - then)}
    return {"was": sorted(was), "is": sorted(then)}


for _through in _RELATIONS:
    m2m_changed.connect(record_membership_change, sender=_through)
