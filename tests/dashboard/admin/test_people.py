"""People and groups in the admin: an admin always stays, superusers are out of reach, and sign-ins are fresh."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib import admin as django_admin
from django.contrib.auth.models import Group, Permission, User
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.utils import timezone

from dashboard.accounts import roles
from dashboard.accounts.sign_in_log import FRESH_SECONDS, SIGN_IN_TIME_KEY
from dashboard.admin.people import SUPERUSER_FIELDS, ProtectedForm, RecordedPasswordForm
from tests.support.accounts import PASSWORD, in_admin, read_details, read_last
from toolcards.audit.rows import AuditRow

pytestmark = pytest.mark.django_db


def test_no_one_is_renamed_to_look_like_another(admin: Client, boss: Client, a_person: Any) -> None:
    bea = a_person("viewer", "bea")
    for name in ("BOSS", "Boss", "boss"):
        answer = admin.post(f"/admin/auth/user/{bea.pk}/change/", in_admin(bea, username=name))
        assert answer.status_code == 200 and User.objects.get(pk=bea.pk).username == "bea"
    assert admin.post(f"/admin/auth/user/{bea.pk}/change/", in_admin(bea, username="BEA")).status_code == 302


def test_an_admin_cannot_delete_or_rename_a_group_of_a_superuser(admin: Client, boss: Client) -> None:
    me = User.objects.get(username="a-admin")
    me.user_permissions.add(*Permission.objects.filter(codename__in=["delete_group", "change_group"]))
    sre, ops = (Group.objects.create(name=name) for name in ("sre", "ops"))
    User.objects.get(username="boss").groups.add(sre)
    assert admin.post(f"/admin/auth/group/{sre.pk}/delete/", {"post": "yes"}).status_code == 403
    assert admin.post(f"/admin/auth/group/{sre.pk}/change/", {"name": "other"}).status_code == 403
    assert admin.post(f"/admin/auth/group/{ops.pk}/delete/", {"post": "yes"}).status_code == 302


def test_the_admin_is_read_only_without_a_fresh_sign_in(tired: Client, a_person: Any) -> None:
    bea = a_person("viewer", "bea")
    for path in ("/admin/auth/user/add/", "/admin/auth/group/add/"):
        assert tired.get(path).status_code == 403
    change = f"/admin/auth/user/{bea.pk}/change/"
    assert b'name="_save"' not in tired.get(change).content and tired.post(change, {}).status_code == 403


def test_the_django_admin_keeps_the_last_admin_and_grants_no_superuser_flag(admin: Client, a_person: Any) -> None:
    me, bea = User.objects.get(username="a-admin"), a_person("viewer", "bea")
    for changed in ({"groups": []}, {"is_active": ""}):
        answer = admin.post(f"/admin/auth/user/{me.pk}/change/", in_admin(me, **changed))
        assert answer.status_code == 200 and "only admin" in answer.content.decode()
    admin.post(f"/admin/auth/user/{bea.pk}/change/", in_admin(bea, is_superuser="on"))
    assert not User.objects.get(pk=bea.pk).is_superuser and roles.is_only_admin(me)
    root = User.objects.create_superuser("root", password=PASSWORD)
    roles.assign_role(User.objects.get(pk=me.pk), "viewer")
    boss = Client()
    boss.force_login(root)
    assert boss.post(f"/admin/auth/user/{root.pk}/delete/", {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": root.pk, "post": "yes"}
    boss.post("/admin/auth/user/", chosen)
    assert User.objects.filter(pk=root.pk).exists()


def make_request(person: User, age: float = 0.0) -> HttpRequest:
    """Return a request of this person, who signed in that many seconds ago."""
    request = RequestFactory().get("/admin/")
    person.last_login = timezone.now()
    request.user, request.session = person, {SIGN_IN_TIME_KEY: time.time() - age}  # type: ignore[assignment]
    return request


@pytest.fixture
def root(a_person: Any) -> User:
    roles.ensure_roles()
    return User.objects.create_superuser("root", password=PASSWORD)


def test_people_and_groups_change_only_after_a_fresh_sign_in(root: User, a_person: Any) -> None:
    bea, sre = a_person("viewer", "bea"), Group.objects.create(name="sre")
    a_person("admin")
    for model, row in ((User, bea), (Group, sre)):
        pages: Any = django_admin.site._registry[model]
        for age, may in ((0.0, True), (FRESH_SECONDS - 5, True), (FRESH_SECONDS + 5, False)):
            request = make_request(root, age)
            assert pages.has_add_permission(request) is pages.has_change_permission(request, row) is may
            assert pages.has_delete_permission(request, row) is pages.has_change_permission(request) is may
            assert pages.has_view_permission(request, row)


def test_roles_and_the_only_admin_cannot_be_deleted_or_all_at_once(root: User, a_person: Any) -> None:
    people: Any = django_admin.site._registry[User]
    groups: Any = django_admin.site._registry[Group]
    request = make_request(root)
    assert not people.has_delete_permission(request, root)
    assert [groups.has_delete_permission(request, group) for group in Group.objects.order_by("name")] == [False] * 3
    other = a_person("admin", "other")
    assert people.has_delete_permission(request, root) and people.has_delete_permission(request, other)
    assert "delete_selected" not in people.get_actions(request) and "delete_selected" not in groups.get_actions(request)


def test_an_admin_without_all_rights_cannot_give_them(root: User, a_person: Any) -> None:
    pages: Any = django_admin.site._registry[User]
    fixed_for_admin = pages.get_readonly_fields(make_request(a_person("admin")), root)
    assert set(SUPERUSER_FIELDS) <= set(fixed_for_admin)
    assert not set(SUPERUSER_FIELDS) & set(pages.get_readonly_fields(make_request(root), root))


def test_the_names_of_roles_stay_and_other_names_change(root: User) -> None:
    pages: Any = django_admin.site._registry[Group]
    request = make_request(root)
    for name in roles.ROLES:
        assert "name" in pages.get_readonly_fields(request, Group.objects.get(name=name))
    assert "name" not in pages.get_readonly_fields(request, Group.objects.create(name="viewers"))
    assert "name" not in pages.get_readonly_fields(request)


def test_the_only_admin_keeps_one_of_both_ways_to_be_one(root: User) -> None:
    def find_errors(**changed: Any) -> str:
        fields = in_admin(root, date_joined="2026-01-01 00:00:00", **changed)
        return str(ProtectedForm(fields, instance=User.objects.get(pk=root.pk)).errors)

    admins = Group.objects.get(name="admin")
    assert find_errors() == find_errors(is_superuser="", groups=[admins.pk]) == ""
    assert "only admin" in find_errors(is_superuser="") and "only admin" in find_errors(
        is_active="", groups=[admins.pk]
    )
    viewers = Group.objects.get(name="viewer")
    assert "only admin" in find_errors(is_superuser="", groups=[viewers.pk])


def test_a_new_password_is_saved_with_its_row_in_the_audit_trail_or_not_at_all(root: User) -> None:
    def fill_form() -> RecordedPasswordForm:
        fields = {"usable_password": "true", "password1": PASSWORD + "!", "password2": PASSWORD + "!"}
        form = RecordedPasswordForm(User.objects.get(pk=root.pk), fields)
        assert form.is_valid(), form.errors
        return form

    fill_form().save(commit=False)
    assert not read_details("person.password") and User.objects.get(pk=root.pk).check_password(PASSWORD)
    fill_form().save()
    assert read_last("person.password").details == {"person": "root", "how": "set"}
    assert User.objects.get(pk=root.pk).check_password(PASSWORD + "!") and AuditRow.objects.exists()
