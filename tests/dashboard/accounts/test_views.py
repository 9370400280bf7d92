"""The pages of people: invitation by link, roles, groups, deactivation, and the limits of each admin."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from dashboard.accounts import roles, sign_in_links
from tests.support.accounts import PASSWORD, in_admin, read_details, read_last
from toolcards.audit.rows import AuditRow
from toolcards.gate.decisions.eligibility import list_identities

pytestmark = pytest.mark.django_db


def page_of(person: User) -> str:
    return f"/settings/people/{person.pk}/"


def read_seen_state(client: Client, person: User) -> str:
    """What the person's page says of their state."""
    return re.findall(r'name="seen" value="(\w+)"', client.get(page_of(person)).content.decode())[0]


def link_in(answer: Any) -> str:
    return re.findall(r"data-link[^>]*>([^<]+)<", answer.content.decode())[0]


def test_the_page_lists_all_people_with_role_groups_and_last_sign_in(admin: Client, a_person: Any) -> None:
    bea = roles.create_person("bea", role="approver", groups=["sre"])
    roles.set_active(bea, False, seen_digest=roles.compute_state_digest(bea), editor=bea)
    page = admin.get("/settings/people/").content.decode()
    row = page.split('data-person-row="bea"')[1].split("</tr>")[0]
    assert "approver" in row and "<code>sre</code>" in row and "never" in row and "off" in row
    mine = page.split('data-person-row="a-admin"')[1].split("</tr>")[0]
    assert "admin" in mine and "never" not in mine and "active" in mine


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_only_admins_see_and_change_people(client: Client, a_person: Any, role: str) -> None:
    other = a_person("approver", "other")
    assert client.get("/settings/people/").status_code == 302
    client.force_login(a_person(role))
    assert client.get("/settings/people/").status_code == 403
    assert client.post("/settings/people/", {"name": "eve", "role": "admin"}).status_code == 403
    for path in (page_of(other), f"{page_of(other)}off/", f"{page_of(other)}link/"):
        assert client.post(path, {"role": "admin", "seen": roles.compute_state_digest(other)}).status_code == 403
    assert roles.get_role(User.objects.get(pk=other.pk)) == "approver" and not User.objects.filter(username="eve")


def test_an_invited_person_signs_in_once_by_the_link_and_sets_a_password(admin: Client) -> None:
    answer = admin.post("/settings/people/", {"name": "bea", "role": "approver", "groups": "sre, group:night shift"})
    link = link_in(answer)
    assert answer.status_code == 200 and "no-store" in answer["Cache-Control"]
    bea = User.objects.get(username="bea")
    assert set(list_identities(bea)) == {"bea", "group:approver", "group:sre", "group:night shift"}
    assert read_last("person.created").details["groups"] == ["approver", "night shift", "sre"]
    assert read_last("person.created").actor == "a-admin" and read_last("person.link").details["person"] == "bea"
    assert link not in admin.get(page_of(bea)).content.decode() and link not in str(read_details("person.link"))
    guest, other = Client(), Client()
    path = link.removeprefix("http://testserver")
    assert guest.post(path).status_code == 302 and guest.get("/approvals/").status_code == 200
    assert other.get(path).status_code == 410 and b"person link" in other.get(path).content
    expected = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    assert guest.post("/settings/password/", expected).status_code == 302
    assert guest.get("/approvals/").status_code == 200 and other.login(username="bea", password=PASSWORD)
    assert (read_last("person.password").actor, read_last("person.password").details) == (
        "bea",
        {"person": "bea", "how": "set"},
    )


def test_a_first_password_needs_a_fresh_link_and_the_next_one_the_old(client: Client, a_person: Any) -> None:
    bea = roles.create_person("bea", role="viewer")
    client.force_login(bea)
    User.objects.filter(pk=bea.pk).update(last_login=timezone.now() - timedelta(hours=1))
    expected = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    assert client.post("/settings/password/", expected).status_code == 401
    assert not User.objects.get(pk=bea.pk).has_usable_password()
    client.force_login(a_person("viewer", "cleo"))
    assert client.post("/settings/password/", expected | {"old_password": "wrong"}).status_code == 422
    new = {"new_password1": "quite another one", "new_password2": "quite another one"}
    assert client.post("/settings/password/", new | {"old_password": PASSWORD}).status_code == 302
    assert client.get("/").status_code == 200


@pytest.mark.parametrize("payload", [
    {"name": ""}, {"name": "a-admin"}, {"name": "group:sre"}, {"name": "two words"}, {"role": "king"}, {"role": ""},
    {"name": "\uff41-admin"}, {"name": "A-Admin"}, {"groups": "admin"}, {"groups": "x" * 200},
    {"groups": "a\u202eb"}, {"name": "x" * 151},
])  # fmt: skip
def test_an_invalid_invitation_shows_the_error_at_its_field(admin: Client, payload: dict[str, str]) -> None:
    answer = admin.post("/settings/people/", {"name": "bea", "role": "viewer"} | payload)
    assert answer.status_code == 422 and set(answer.context["form"].errors) == set(payload)
    assert User.objects.count() == 1


def test_role_and_groups_are_changed_in_one_act(admin: Client, a_person: Any) -> None:
    bea = a_person("viewer", "bea")
    answer = admin.post(page_of(bea), {"role": "admin", "groups": "sre", "seen": read_seen_state(admin, bea)})
    assert answer.status_code == 302
    bea = User.objects.get(pk=bea.pk)
    assert roles.get_role(bea) == "admin" and roles.list_other_groups(bea) == ["sre"] and bea.is_staff
    row = read_last("person.changed")
    assert row.actor == "a-admin" and row.details == {
        "person": "bea", "staff": {"was": False, "is": True},
        "groups": {"was": ["viewer"], "is": ["admin", "sre"]},
    }  # fmt: skip
    assert not read_details("person.groups")


def test_who_is_switched_off_is_out_at_once_and_can_come_back(admin: Client, a_person: Any) -> None:
    bea, guest = a_person("approver", "bea"), Client()
    guest.force_login(bea)
    link = sign_in_links.make_link(User.objects.get(pk=bea.pk), "")
    assert guest.get("/approvals/").status_code == 200
    assert admin.post(f"{page_of(bea)}off/", {"seen": read_seen_state(admin, bea)}).status_code == 302
    assert guest.get("/approvals/").status_code == 302 and guest.get(link).status_code == 410
    assert read_last("person.changed").details["active"] == {"was": True, "is": False}
    assert admin.post(f"{page_of(bea)}link/", {"seen": read_seen_state(admin, bea)}).status_code == 412
    assert admin.post(f"{page_of(bea)}on/", {"seen": read_seen_state(admin, bea)}).status_code == 302
    assert link_in(admin.post(f"{page_of(bea)}link/", {"seen": read_seen_state(admin, bea)}))
    assert admin.post(f"{page_of(bea)}fly/", {"seen": read_seen_state(admin, bea)}).status_code == 404
    assert admin.post("/settings/people/999/off/").status_code == 404


def test_the_last_admin_stays(admin: Client, a_person: Any) -> None:
    me = User.objects.get(username="a-admin")
    for path, value in ((page_of(me), {"role": "viewer", "groups": ""}), (f"{page_of(me)}off/", {})):
        answer = admin.post(path, {"seen": read_seen_state(admin, me)} | value)
        assert answer.status_code == 409 and "only admin" in answer.content.decode()
    me.refresh_from_db()
    assert roles.get_role(me) == "admin" and me.is_active and not read_details("person.changed")
    with pytest.raises(CommandError, match="only admin"):
        call_command("person", "role", "a-admin", "viewer")
    a_person("admin", "second")
    assert admin.post(page_of(me), {"role": "viewer", "seen": read_seen_state(admin, me)}).status_code == 302
    assert roles.is_only_admin(User.objects.get(username="second"))


def test_changed_rights_of_a_role_are_recorded_also_in_a_change_of_a_person(admin: Client) -> None:
    Group.objects.get(name="approver").permissions.clear()
    before = len(read_details("group.rights"))
    bea = roles.create_person("bea", role="viewer")  # which gives the roles what they lack
    (row,) = read_details("group.rights")[before:]
    assert row["group"] == "approver" and row["was"] == [] and "vote" in row["is"]
    assert not read_details("person.groups") and read_last("person.created").details["person"] == bea.username


def test_a_superuser_who_is_no_admin_any_more_has_no_rights_left(admin: Client, boss: Client) -> None:
    root = User.objects.create_superuser("root", password=PASSWORD)
    assert roles.get_role(root) == "admin"
    assert boss.post(page_of(root), {"role": "viewer", "seen": roles.compute_state_digest(root)}).status_code == 302
    root = User.objects.get(pk=root.pk)
    assert not root.is_superuser and not root.has_perm("toolcards.vote") and roles.get_role(root) == "viewer"


def test_an_admin_who_is_no_superuser_changes_nothing_of_one(admin: Client, boss: Client) -> None:
    root = User.objects.get(username="boss")
    before, audited = (root.password, roles.compute_state_digest(root)), AuditRow.objects.count()
    html = admin.get(page_of(root)).content.decode()
    assert "Only a superuser can change this account" in html and "New sign-in link" not in html
    posts = [
        (page_of(root), {"role": "viewer", "groups": "sre"}), (page_of(root), {"role": "admin", "groups": "sre"}),
        (f"{page_of(root)}off/", {}), (f"{page_of(root)}on/", {}), (f"{page_of(root)}link/", {}),
    ]  # fmt: skip
    for path, value in posts:
        answer = admin.post(path, {"seen": roles.compute_state_digest(root)} | value)
        assert answer.status_code == 403 and "Only a superuser" in answer.content.decode(), path
        assert b"data-link" not in answer.content
    in_admin_pages = f"/admin/auth/user/{root.pk}"
    password = {"usable_password": "true", "password1": PASSWORD + "!", "password2": PASSWORD + "!"}
    change = in_admin(root, username="fallen", groups=[], is_active="", is_staff="")
    for path, value in (("change/", change), ("password/", password), ("delete/", {"post": "yes"})):
        assert admin.post(f"{in_admin_pages}/{path}", value).status_code == 403, path
    assert admin.get(f"{in_admin_pages}/change/").status_code == 200
    root = User.objects.get(pk=root.pk)
    assert (root.password, roles.compute_state_digest(root)) == before and root.username == "boss"
    assert AuditRow.objects.count() == audited


def test_a_superuser_changes_superusers(admin: Client, boss: Client) -> None:
    root = User.objects.create_superuser("root", password=PASSWORD)
    assert "New sign-in link" in boss.get(page_of(root)).content.decode()
    assert link_in(boss.post(f"{page_of(root)}link/", {"seen": roles.compute_state_digest(root)}))
    assert boss.post(f"{page_of(root)}off/", {"seen": roles.compute_state_digest(root)}).status_code == 302
    password = {"usable_password": "true", "password1": PASSWORD + "!", "password2": PASSWORD + "!"}
    assert boss.post(f"/admin/auth/user/{root.pk}/password/", password).status_code == 302


def test_a_link_to_an_account_dies_when_that_becomes_a_superuser(admin: Client, a_person: Any) -> None:
    bea = a_person("viewer", "bea")
    path = link_in(admin.post(f"{page_of(bea)}link/", {"seen": read_seen_state(admin, bea)})).removeprefix(
        "http://testserver"
    )
    User.objects.filter(pk=bea.pk).update(is_superuser=True)
    assert Client().get(path).status_code == 410


def test_who_saw_something_else_changes_nothing(admin: Client, a_person: Any) -> None:
    bea = a_person("viewer", "bea")
    old = read_seen_state(admin, bea)
    roles.change_person(bea, role="approver", groups=[], seen_digest=old, editor=bea)
    for path, value in ((page_of(bea), {"role": "admin"}), (f"{page_of(bea)}off/", {}), (f"{page_of(bea)}link/", {})):
        answer = admin.post(path, {"seen": old} | value)
        assert answer.status_code == 412 and "Someone else has changed" in answer.content.decode()
        assert admin.post(path, value).status_code == 412
    bea = User.objects.get(pk=bea.pk)
    assert roles.get_role(bea) == "approver" and bea.is_active and not read_details("person.link")


def test_changing_people_needs_a_fresh_sign_in(tired: Client, a_person: Any) -> None:
    bea = a_person("viewer", "bea")
    posts = ((page_of(bea), {"role": "admin"}), (f"{page_of(bea)}off/", {}), (f"{page_of(bea)}link/", {}))
    for path, value in (*posts, ("/settings/people/", {"name": "eve", "role": "admin"})):
        answer = tired.post(path, {"seen": roles.compute_state_digest(bea)} | value)
        assert answer.status_code == 401 and "recent sign-in" in answer.content.decode()
    assert "Sign in again" in tired.get("/settings/people/").content.decode()
    assert roles.get_role(User.objects.get(pk=bea.pk)) == "viewer" and User.objects.count() == 2
