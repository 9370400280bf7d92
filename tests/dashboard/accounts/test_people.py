"""People: invitation by link, roles, groups, deactivation, and the audit of every change of permissions."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from dashboard.accounts import roles, sign_in_links
from dashboard.environment import Environment
from dashboard.management import first_run
from tests.support.server import PATIENCE
from toolcards.audit.rows import AuditRow
from toolcards.audit.trail import ACTOR
from toolcards.gate.decisions.eligibility import list_identities
from toolcards.models import Source, Webhook

pytestmark = pytest.mark.django_db
PASSWORD = "a password for tests"


@pytest.fixture
def admin(a_person: Callable[..., Any], client: Client) -> Client:
    """The only admin, who has just signed in."""
    client.force_login(a_person("admin"))
    return client


@pytest.fixture
def tired(admin: Client) -> Client:
    """The same, whose sign-in is an hour old."""
    User.objects.filter(username="a-admin").update(last_login=timezone.now() - timedelta(hours=1))
    return admin


def test_a_session_is_no_fresher_for_a_sign_in_elsewhere(tired: Client) -> None:
    Client().force_login(User.objects.get(username="a-admin"))
    session = tired.session
    session["signed_in_at"] -= 3600
    session.save()
    assert tired.post("/settings/people/", {"name": "bea", "role": "viewer"}).status_code == 401


def last(act: str) -> AuditRow:
    return AuditRow.objects.filter(act=act).latest("seq")


def read_details(act: str) -> list[dict[str, Any]]:
    return [row.details for row in AuditRow.objects.filter(act=act).order_by("seq")]


@pytest.fixture
def boss(db: None) -> Client:
    """A superuser, called boss."""
    client = Client()
    client.force_login(User.objects.create_superuser("boss", password=PASSWORD))
    return client


def page_of(person: User) -> str:
    return f"/settings/people/{person.pk}/"


def seen(client: Client, person: User) -> str:
    """What the person's page says of their state."""
    return re.findall(r'name="seen" value="(\w+)"', client.get(page_of(person)).content.decode())[0]


def link_in(answer: Any) -> str:
    return re.findall(r"data-link[^>]*>([^<]+)<", answer.content.decode())[0]


# ---------------------------------------------------------------- the page


def test_the_page_lists_everybody_with_role_groups_and_last_sign_in(admin: Client, a_person: Any) -> None:
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
    assert last("person.created").details["groups"] == ["approver", "night shift", "sre"]
    assert last("person.created").actor == "a-admin" and last("person.link").details["person"] == "bea"
    assert link not in admin.get(page_of(bea)).content.decode() and link not in str(read_details("person.link"))
    guest, other = Client(), Client()
    path = link.removeprefix("http://testserver")
    assert guest.post(path).status_code == 302 and guest.get("/approvals/").status_code == 200
    assert other.get(path).status_code == 410 and b"person link" in other.get(path).content
    expected = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    assert guest.post("/settings/password/", expected).status_code == 302
    assert guest.get("/approvals/").status_code == 200 and other.login(username="bea", password=PASSWORD)
    assert (last("person.password").actor, last("person.password").details) == ("bea", {"person": "bea", "how": "set"})


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
    answer = admin.post(page_of(bea), {"role": "admin", "groups": "sre", "seen": seen(admin, bea)})
    assert answer.status_code == 302
    bea = User.objects.get(pk=bea.pk)
    assert roles.get_role(bea) == "admin" and roles.list_other_groups(bea) == ["sre"] and bea.is_staff
    row = last("person.changed")
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
    assert admin.post(f"{page_of(bea)}off/", {"seen": seen(admin, bea)}).status_code == 302
    assert guest.get("/approvals/").status_code == 302 and guest.get(link).status_code == 410
    assert last("person.changed").details["active"] == {"was": True, "is": False}
    assert admin.post(f"{page_of(bea)}link/", {"seen": seen(admin, bea)}).status_code == 412
    assert admin.post(f"{page_of(bea)}on/", {"seen": seen(admin, bea)}).status_code == 302
    assert link_in(admin.post(f"{page_of(bea)}link/", {"seen": seen(admin, bea)}))
    assert admin.post(f"{page_of(bea)}fly/", {"seen": seen(admin, bea)}).status_code == 404
    assert admin.post("/settings/people/999/off/").status_code == 404


def test_the_last_admin_stays(admin: Client, a_person: Any) -> None:
    me = User.objects.get(username="a-admin")
    for path, value in ((page_of(me), {"role": "viewer", "groups": ""}), (f"{page_of(me)}off/", {})):
        answer = admin.post(path, {"seen": seen(admin, me)} | value)
        assert answer.status_code == 409 and "only admin" in answer.content.decode()
    me.refresh_from_db()
    assert roles.get_role(me) == "admin" and me.is_active and not read_details("person.changed")
    with pytest.raises(CommandError, match="only admin"):
        call_command("person", "role", "a-admin", "viewer")
    a_person("admin", "second")
    assert admin.post(page_of(me), {"role": "viewer", "seen": seen(admin, me)}).status_code == 302
    assert roles.is_only_admin(User.objects.get(username="second"))


def test_changed_rights_of_a_role_are_recorded_also_in_a_change_of_a_person(admin: Client, a_person: Any) -> None:
    Group.objects.get(name="approver").permissions.clear()
    before = len(read_details("group.rights"))
    bea = a_person("viewer", "bea")  # which gives the roles what they lack
    (row,) = read_details("group.rights")[before:]
    assert row["group"] == "approver" and row["was"] == [] and "vote" in row["is"]
    assert not read_details("person.groups") and last("person.created").details["person"] == bea.username


@pytest.mark.django_db(transaction=True)
def test_of_two_admins_who_switch_each_other_off_one_stays(a_person: Any) -> None:
    both = [a_person("admin", "ann"), a_person("admin", "bob")]
    ready, refusal = threading.Barrier(2, timeout=PATIENCE), []

    def off(person: User) -> None:
        try:
            state_digest = roles.compute_state_digest(person)
            ready.wait()
            roles.set_active(person, False, seen_digest=state_digest, editor=person)
        except roles.LastAdmin:
            refusal.append(person)
        finally:
            connection.close()

    threads = [threading.Thread(target=off, args=[person]) for person in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(refusal) == 1 and list(roles.list_admins()) == refusal


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


def test_a_superuser_changes_superusers(admin: Client, boss: Client) -> None:
    root = User.objects.create_superuser("root", password=PASSWORD)
    assert "New sign-in link" in boss.get(page_of(root)).content.decode()
    assert link_in(boss.post(f"{page_of(root)}link/", {"seen": roles.compute_state_digest(root)}))
    assert boss.post(f"{page_of(root)}off/", {"seen": roles.compute_state_digest(root)}).status_code == 302
    password = {"usable_password": "true", "password1": PASSWORD + "!", "password2": PASSWORD + "!"}
    assert boss.post(f"/admin/auth/user/{root.pk}/password/", password).status_code == 302


def test_a_link_to_an_account_dies_when_that_becomes_a_superuser(admin: Client, a_person: Any) -> None:
    bea = a_person("viewer", "bea")
    path = link_in(admin.post(f"{page_of(bea)}link/", {"seen": seen(admin, bea)})).removeprefix("http://testserver")
    User.objects.filter(pk=bea.pk).update(is_superuser=True)
    assert Client().get(path).status_code == 410


def test_who_saw_something_else_changes_nothing(admin: Client, a_person: Any) -> None:
    bea = a_person("viewer", "bea")
    old = seen(admin, bea)
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
    for path in ("/admin/auth/user/add/", "/admin/auth/group/add/"):
        assert tired.get(path).status_code == 403
    change = f"/admin/auth/user/{bea.pk}/change/"
    assert b'name="_save"' not in tired.get(change).content and tired.post(change, {}).status_code == 403


# ---------------------------------------------------------------- by other doors


def in_admin(person: User, **changed: Any) -> dict[str, Any]:
    """What the Django admin's form of a person sends."""
    fields = {
        "username": person.username, "is_active": "on" if person.is_active else "",
        "is_staff": "on" if person.is_staff else "", "is_superuser": "on" if person.is_superuser else "",
        "groups": list(person.groups.values_list("pk", flat=True)), "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
    } | changed  # fmt: skip
    return {name: value for name, value in fields.items() if value != ""}


def test_changes_in_the_django_admin_are_recorded(admin: Client, a_person: Any) -> None:
    bea = a_person("viewer", "bea")
    group = Group.objects.get(name="approver")
    sent = in_admin(bea, groups=[group.pk], is_active="", username="beatrix")
    assert admin.post(f"/admin/auth/user/{bea.pk}/change/", sent).status_code == 302
    assert last("person.changed").details == {
        "person": "bea", "name": {"was": "bea", "is": "beatrix"}, "active": {"was": True, "is": False},
    }  # fmt: skip
    assert read_details("person.groups")[-2:] == [
        {"person": "beatrix", "was": ["viewer"], "is": []}, {"person": "beatrix", "was": [], "is": ["approver"]},
    ]  # fmt: skip
    sent = {"usable_password": "true", "password1": PASSWORD + "!", "password2": PASSWORD + "!"}
    assert admin.post(f"/admin/auth/user/{bea.pk}/password/", sent).status_code == 302
    assert last("person.password").details == {"person": "beatrix", "how": "set"}
    assert admin.post("/admin/auth/user/add/", sent | {"username": "carl"}).status_code == 302
    assert last("person.created").details["person"] == "carl" and last("person.created").actor == "a-admin"
    own = {"old_password": PASSWORD, "new_password1": PASSWORD + "!", "new_password2": PASSWORD + "!"}
    assert admin.get("/admin/password_change/")["Location"] == "/settings/password/"
    assert admin.post("/settings/password/", own).status_code == 302
    assert last("person.password").details == {"person": "a-admin", "how": "set"}
    assert PASSWORD not in str(list(AuditRow.objects.values_list("detail", flat=True)))


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


def test_groups_and_their_rights_are_recorded(admin: Client, a_person: Any) -> None:
    root = User.objects.create_superuser("root", password=PASSWORD)
    boss, right = Client(), Permission.objects.get(codename="vote")
    boss.force_login(root)
    boss.post("/admin/auth/group/add/", {"name": "sre", "permissions": [right.pk]})
    group = Group.objects.get(name="sre")
    assert last("group.created").details == {"group": "sre"}
    assert last("group.rights").details == {"group": "sre", "was": [], "is": ["vote"]}
    boss.post(f"/admin/auth/group/{group.pk}/change/", {"name": "ops", "permissions": []})
    assert last("group.renamed").details == {"group": "sre", "is": "ops"}
    assert last("group.rights").details == {"group": "ops", "was": ["vote"], "is": []}
    group.user_set.add(a_person("viewer", "bea"))
    assert last("person.groups").details == {"person": "bea", "was": ["viewer"], "is": ["ops", "viewer"]}
    group.user_set.clear()
    assert last("person.groups").details == {"person": "bea", "was": ["ops", "viewer"], "is": ["viewer"]}
    User.objects.get(username="bea").user_permissions.add(right)
    assert last("person.rights").details == {"person": "bea", "was": [], "is": ["vote"]}
    boss.post(f"/admin/auth/group/{group.pk}/delete/", {"post": "yes"})
    assert last("group.deleted").details["group"] == "ops" and last("group.deleted").actor == "root"
    role = Group.objects.get(name="viewer")
    assert boss.post(f"/admin/auth/group/{role.pk}/delete/", {"post": "yes"}).status_code == 403
    boss.post(f"/admin/auth/group/{role.pk}/change/", {"name": "guests"})
    assert Group.objects.filter(pk=role.pk, name="viewer").exists()


def test_changes_by_commands_are_recorded(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ACTOR.set(lambda: ("command", ""))  # a request of another test may have left its person here
    call_command("person", "create", "bea", "--role", "approver")
    assert last("person.created").details["person"] == "bea" and last("person.created").actor_kind == "command"
    call_command("person", "role", "bea", "admin")
    assert last("person.changed").details["groups"] == {"was": ["approver"], "is": ["admin"]}
    call_command("person", "link", "bea")
    assert last("person.link").details == {"person": "bea", "minutes": 15}
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    call_command("createsuperuser", "--no-input", "--username", "root", "--email", "")
    assert last("person.created").details["superuser"] is True
    monkeypatch.setattr("getpass.getpass", lambda prompt: PASSWORD + "!")
    call_command("changepassword", "root")
    assert last("person.password").details == {"person": "root", "how": "set"}
    with pytest.raises(CommandError, match="valid username"):
        call_command("person", "create", "group:sre")
    roles.assign_role(User.objects.get(username="root"), "admin")
    bea = User.objects.get(username="bea")
    roles.set_active(bea, False, seen_digest=roles.compute_state_digest(bea), editor=bea)
    with pytest.raises(CommandError, match="deactivated"):
        call_command("person", "link", "bea")


def test_a_sign_in_is_no_change_of_the_password(client: Client, a_person: Any, settings: Any) -> None:
    a_person("viewer", "bea")
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher", *settings.PASSWORD_HASHERS]
    assert client.login(username="bea", password=PASSWORD)
    assert read_details("person.password") == [{"person": "bea", "how": "hashed anew"}]
    client.logout()
    client.login(username="bea", password=PASSWORD)
    assert len(read_details("person.password")) == 1 and not read_details("person.changed")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", ["flag", "password", "group", "door"])
def test_a_change_that_cannot_be_recorded_does_not_happen(a_person: Any, change: str) -> None:
    bea = a_person("viewer", "bea")
    before = (bea.password, roles.compute_state_digest(bea))
    group = Group.objects.create(name="sre")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE toolcards_audithead RENAME TO hidden")
    try:
        with pytest.raises(Exception, match="audithead"):
            if change == "flag":
                bea.is_active = False
                bea.save()
            elif change == "password":
                bea.set_password(PASSWORD + "!")
                bea.save()
            elif change == "group":
                bea.groups.add(group)
            else:
                roles.assign_role(bea, "admin")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE hidden RENAME TO toolcards_audithead")
    bea = User.objects.get(pk=bea.pk)
    assert (bea.password, roles.compute_state_digest(bea)) == before


@pytest.fixture
def no_saves(transactional_db: None) -> Callable[[], Any]:
    """Make the database refuse to change people, as a full disk or an outage does."""

    @contextmanager
    def refuse() -> Iterator[None]:
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE TRIGGER refuse_people BEFORE UPDATE ON auth_user WHEN new.last_login IS old.last_login "
                "BEGIN SELECT RAISE(ABORT, 'nothing is saved'); END"
            )
        try:
            yield
        finally:
            with connection.cursor() as cursor:
                cursor.execute("DROP TRIGGER refuse_people")

    return refuse


@pytest.mark.parametrize("way", ["own page", "admin", "admin's password page", "start", "role"])
def test_a_change_that_is_not_saved_is_not_recorded(admin: Client, a_person: Any, no_saves: Any, way: str) -> None:
    bea, me = a_person("viewer", "bea"), User.objects.get(username="a-admin")
    password = {"password1": PASSWORD + "!", "password2": PASSWORD + "!", "usable_password": "true"}
    own = {"new_password1": PASSWORD + "!", "new_password2": PASSWORD + "!", "old_password": PASSWORD}
    form = {"username": "beatrix", "is_active": "on", "date_joined_0": "2026-01-01", "date_joined_1": "00:00"}
    User.objects.filter(pk=me.pk).update(username="admin")
    changes = {
        "own page": lambda: admin.post("/settings/password/", own),
        "admin": lambda: admin.post(f"/admin/auth/user/{bea.pk}/change/", form),
        "admin's password page": lambda: admin.post(f"/admin/auth/user/{bea.pk}/password/", password),
        "start": lambda: first_run.prepare(Environment(admin_password="another password")),
        "role": lambda: roles.assign_role(bea, "admin"),
    }
    rows = AuditRow.objects.filter(act__startswith="person.").exclude(act="person.created")
    with no_saves(), pytest.raises(IntegrityError, match="nothing is saved"):
        changes[way]()
    assert not rows.exists()
    changes[way]()
    assert rows.exists()


def test_a_plain_save_that_fails_has_left_a_row_of_the_attempt(a_person: Any, no_saves: Any) -> None:
    bea = a_person("viewer", "bea")
    bea.is_staff = True
    with no_saves(), pytest.raises(IntegrityError, match="nothing is saved"):
        bea.save()
    assert last("person.changed").details == {"person": "bea", "staff": {"was": False, "is": True}}


def test_only_fields_that_are_saved_are_recorded(a_person: Any) -> None:
    bea, rows = a_person("viewer", "bea"), AuditRow.objects.count()
    bea.is_staff = bea.is_superuser = True
    bea.save(update_fields=["first_name"])
    assert AuditRow.objects.count() == rows
    bea.save(update_fields=["is_staff"])
    assert last("person.changed").details == {"person": "bea", "staff": {"was": False, "is": True}}


# ---------------------------------------------------------------- sources and notifications


def test_a_new_owner_of_a_source_is_recorded_with_the_old_one(admin: Client, source: Source, a_person: Any) -> None:
    a_person("approver", "bea")
    page = f"/sources/{source.pk}/owner/"
    for name in ("bea", "bea", ""):
        assert admin.post(page, {"owner": name}).status_code == 302
    assert [row["owner"] for row in read_details("source.changed")] == [
        {"was": "", "is": "bea"},
        {"was": "bea", "is": ""},
    ]
    call_command("agentkey", "create", source.name, "--owner", "bea", "--env", "prod")
    assert last("source.changed").details["env"] == {"was": "", "is": "prod"}
    there = f"/admin/toolcards/source/{source.pk}/change/"
    assert admin.post(there, {"name": "robot", "env": "test", "owner": ""}).status_code == 302
    assert last("source.changed").details == {
        "source": source.name, "name": {"was": source.name, "is": "robot"}, "env": {"was": "prod", "is": "test"},
        "owner": {"was": "bea", "is": ""},
    }  # fmt: skip
    assert admin.post("/admin/toolcards/source/add/", {"name": "new", "env": "", "owner": ""}).status_code == 302
    assert last("source.created").details["source"] == "new"


def test_changed_notifications_are_recorded_without_secrets(admin: Client) -> None:
    path = "/services/T0/B0/verysecretpath"
    expected = {
        "name": "ops",
        "format": "webhook",
        "url": f"https://example.com{path}",
        "severity": "low",
        "zone": "UTC",
    }
    admin.post("/settings/notify/", expected)
    hook = Webhook.objects.get()
    at = f"/settings/notify/{hook.pk}/"
    assert last("notify.added").details["url"].startswith("https://example.com/…")
    admin.post(at, expected | {"severity": "high", "url": "https://example.com/elsewhere"})
    changed = last("notify.changed").details
    assert changed["severity"] == {"was": "low", "is": "high"} and changed["url"]["was"] != changed["url"]["is"]
    assert "zone" not in changed
    for what in ("rotate", "switch", "remove"):
        admin.post(f"{at}{what}/")
        assert last(f"notify.{what}").actor == "a-admin"
    assert last("notify.switch").details["enabled"] == {"was": True, "is": False}
    rows = str(list(AuditRow.objects.values_list("detail", flat=True)))
    assert path not in rows and hook.secret not in rows


def test_a_webhook_stays_unchanged_if_its_change_cannot_be_recorded(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {"name": "ops", "format": "webhook", "url": "https://example.com/", "severity": "low", "zone": "UTC"}
    admin.post("/settings/notify/", expected)
    hook = Webhook.objects.get()
    admin.raise_request_exception = False
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE toolcards_audithead RENAME TO hidden")
    try:
        assert admin.post(f"/settings/notify/{hook.pk}/remove/").status_code == 500
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE hidden RENAME TO toolcards_audithead")
    assert Webhook.objects.filter(pk=hook.pk).exists()


# ---------------------------------------------------------------- the first person


def test_a_server_without_any_sign_in_prints_a_link_at_every_start(client: Client) -> None:
    first, second = first_run.prepare(Environment()), first_run.prepare(Environment())
    assert first.admin == second.admin and second.admin is not None
    assert (
        read_details("person.created") == [read_details("person.created")[0]]
        and read_details("person.created")[0]["superuser"] is True
    )
    assert client.post(sign_in_links.make_link(second.admin, "")).status_code == 302


def test_a_link_is_printed_for_the_admin_if_no_person_is_named(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    first_run.prepare(Environment())
    call_command("person", "link", "--url", "http://testserver")
    link = capsys.readouterr().out.splitlines()[-1]
    assert client.post(link.removeprefix("http://testserver")).status_code == 302


def test_a_link_fits_into_one_line_of_a_terminal() -> None:
    admin = roles.create_person("admin", role="admin")
    assert len(f"  Sign in      {sign_in_links.make_link(admin, 'http://127.0.0.1:8000')}") <= 80


@pytest.mark.parametrize("change", ["person", "until", "signature", "form"])
def test_a_changed_link_does_not_sign_in(client: Client, change: str) -> None:
    roles.create_person("bea", role="viewer")
    link = sign_in_links.make_link(roles.create_person("admin", role="admin"), "")
    person, until, signature = link.removeprefix("/login/link/").removesuffix("/").split(".")
    tokens = {
        "person": f"{User.objects.get(username='bea').pk}.{until}.{signature}",
        "until": f"{person}.z{until[1:]}.{signature}",
        "signature": f"{person}.{until}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}",
        "form": f"0{person}.{until}.{signature}",
    }
    assert client.post(f"/login/link/{tokens[change]}/").status_code == 410
    assert client.post(link).status_code == 302


def test_an_old_link_does_not_let_in_and_says_what_to_type(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = first_run.prepare(Environment()).admin
    assert admin is not None
    link = sign_in_links.make_link(admin, "", -1)
    answer = client.get(link)
    assert answer.status_code == 410 and "manage.py person link" in answer.content.decode()
    assert "manage.py person link" in client.get("/login/").content.decode()


def test_only_the_newest_invitation_lets_in_and_none_after_switching_off(client: Client, a_person: Any) -> None:
    a_person("admin")
    bea = roles.create_person("bea", role="viewer")
    first, second = sign_in_links.make_link(bea, ""), sign_in_links.make_link(User.objects.get(pk=bea.pk), "")
    assert client.get(first).status_code == 410
    for active in (False, True):
        bea = User.objects.get(pk=bea.pk)
        roles.set_active(bea, active, seen_digest=roles.compute_state_digest(bea), editor=bea)
    assert client.get(second).status_code == 410
    assert client.post(sign_in_links.make_link(User.objects.get(pk=bea.pk), "")).status_code == 302
    again = sign_in_links.make_link(User.objects.get(pk=bea.pk), "")
    assert client.get("/").status_code == 200  # a new link ends no session
    assert Client().post(again).status_code == 302 and not read_details("person.password")


def test_an_admin_who_was_switched_off_is_offered_no_link(a_person: Any) -> None:
    first_run.prepare(Environment())
    a_person("admin", "bea")
    first = User.objects.get(username="admin")
    roles.set_active(first, False, seen_digest=roles.compute_state_digest(first), editor=first)
    assert first_run.prepare(Environment()).admin is None
