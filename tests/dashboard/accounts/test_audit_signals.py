"""The audit of every change of people, groups and rights, and that none happens without its row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client

from dashboard.accounts import roles
from dashboard.environment import Environment
from dashboard.management import first_run
from tests.support.accounts import PASSWORD, in_admin, read_details, read_last
from toolcards.audit.rows import AuditRow
from toolcards.audit.trail import ACTOR
from toolcards.models import Source, Webhook

pytestmark = pytest.mark.django_db


def test_changes_in_the_django_admin_are_recorded(admin: Client, a_person: Any) -> None:
    bea = a_person("viewer", "bea")
    group = Group.objects.get(name="approver")
    response = in_admin(bea, groups=[group.pk], is_active="", username="beatrix")
    assert admin.post(f"/admin/auth/user/{bea.pk}/change/", response).status_code == 302
    assert read_last("person.changed").details == {
        "person": "bea", "name": {"was": "bea", "is": "beatrix"}, "active": {"was": True, "is": False},
    }  # fmt: skip
    assert read_details("person.groups")[-2:] == [
        {"person": "beatrix", "was": ["viewer"], "is": []}, {"person": "beatrix", "was": [], "is": ["approver"]},
    ]  # fmt: skip
    response = {"usable_password": "true", "password1": PASSWORD + "!", "password2": PASSWORD + "!"}
    assert admin.post(f"/admin/auth/user/{bea.pk}/password/", response).status_code == 302
    assert read_last("person.password").details == {"person": "beatrix", "how": "set"}
    assert admin.post("/admin/auth/user/add/", response | {"username": "carl"}).status_code == 302
    assert read_last("person.created").details["person"] == "carl" and read_last("person.created").actor == "a-admin"
    own = {"old_password": PASSWORD, "new_password1": PASSWORD + "!", "new_password2": PASSWORD + "!"}
    assert admin.get("/admin/password_change/")["Location"] == "/settings/password/"
    assert admin.post("/settings/password/", own).status_code == 302
    assert read_last("person.password").details == {"person": "a-admin", "how": "set"}
    assert PASSWORD not in str(list(AuditRow.objects.values_list("detail", flat=True)))


def test_groups_and_their_rights_are_recorded(admin: Client, a_person: Any) -> None:
    root = User.objects.create_superuser("root", password=PASSWORD)
    boss, right = Client(), Permission.objects.get(codename="vote")
    boss.force_login(root)
    boss.post("/admin/auth/group/add/", {"name": "sre", "permissions": [right.pk]})
    group = Group.objects.get(name="sre")
    assert read_last("group.created").details == {"group": "sre"}
    assert read_last("group.rights").details == {"group": "sre", "was": [], "is": ["vote"]}
    boss.post(f"/admin/auth/group/{group.pk}/change/", {"name": "ops", "permissions": []})
    assert read_last("group.renamed").details == {"group": "sre", "is": "ops"}
    assert read_last("group.rights").details == {"group": "ops", "was": ["vote"], "is": []}
    group.user_set.add(a_person("viewer", "bea"))
    assert read_last("person.groups").details == {"person": "bea", "was": ["viewer"], "is": ["ops", "viewer"]}
    group.user_set.clear()
    assert read_last("person.groups").details == {"person": "bea", "was": ["ops", "viewer"], "is": ["viewer"]}
    User.objects.get(username="bea").user_permissions.add(right)
    assert read_last("person.rights").details == {"person": "bea", "was": [], "is": ["vote"]}
    boss.post(f"/admin/auth/group/{group.pk}/delete/", {"post": "yes"})
    assert read_last("group.deleted").details["group"] == "ops" and read_last("group.deleted").actor == "root"
    role = Group.objects.get(name="viewer")
    assert boss.post(f"/admin/auth/group/{role.pk}/delete/", {"post": "yes"}).status_code == 403
    boss.post(f"/admin/auth/group/{role.pk}/change/", {"name": "guests"})
    assert Group.objects.filter(pk=role.pk, name="viewer").exists()


def test_changes_by_commands_are_recorded(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ACTOR.set(lambda: ("command", ""))  # a request of another test may have left its person here
    call_command("person", "create", "bea", "--role", "approver")
    assert (
        read_last("person.created").details["person"] == "bea" and read_last("person.created").actor_kind == "command"
    )
    call_command("person", "role", "bea", "admin")
    assert read_last("person.changed").details["groups"] == {"was": ["approver"], "is": ["admin"]}
    call_command("person", "link", "bea")
    assert read_last("person.link").details == {"person": "bea", "minutes": 15}
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    call_command("createsuperuser", "--no-input", "--username", "root", "--email", "")
    assert read_last("person.created").details["superuser"] is True
    monkeypatch.setattr("getpass.getpass", lambda prompt: PASSWORD + "!")
    call_command("changepassword", "root")
    assert read_last("person.password").details == {"person": "root", "how": "set"}
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
    assert read_last("person.changed").details == {"person": "bea", "staff": {"was": False, "is": True}}


def test_only_fields_that_are_saved_are_recorded(a_person: Any) -> None:
    bea, rows = a_person("viewer", "bea"), AuditRow.objects.count()
    bea.is_staff = bea.is_superuser = True
    bea.save(update_fields=["first_name"])
    assert AuditRow.objects.count() == rows
    bea.save(update_fields=["is_staff"])
    assert read_last("person.changed").details == {"person": "bea", "staff": {"was": False, "is": True}}


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
    assert read_last("source.changed").details["env"] == {"was": "", "is": "prod"}
    there = f"/admin/toolcards/source/{source.pk}/change/"
    assert admin.post(there, {"name": "robot", "env": "test", "owner": ""}).status_code == 302
    assert read_last("source.changed").details == {
        "source": source.name, "name": {"was": source.name, "is": "robot"}, "env": {"was": "prod", "is": "test"},
        "owner": {"was": "bea", "is": ""},
    }  # fmt: skip
    assert admin.post("/admin/toolcards/source/add/", {"name": "new", "env": "", "owner": ""}).status_code == 302
    assert read_last("source.created").details["source"] == "new"


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
    assert read_last("notify.added").details["url"].startswith("https://example.com/…")
    admin.post(at, expected | {"severity": "high", "url": "https://example.com/elsewhere"})
    changed = read_last("notify.changed").details
    assert changed["severity"] == {"was": "low", "is": "high"} and changed["url"]["was"] != changed["url"]["is"]
    assert "zone" not in changed
    for action in ("rotate", "switch", "remove"):
        admin.post(f"{at}{action}/")
        assert read_last(f"notify.{action}").actor == "a-admin"
    assert read_last("notify.switch").details["enabled"] == {"was": True, "is": False}
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
