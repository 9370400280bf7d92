"""People from the command line."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.accounts import roles
from dashboard.management.commands import person

pytestmark = pytest.mark.django_db


def run(*words: str) -> str:
    output = io.StringIO()
    call_command("person", *words, stdout=output)
    return output.getvalue()


def test_a_person_without_a_password_signs_in_by_the_link_that_is_printed(client: Client) -> None:
    lines = run("create", "bea", "--role", "approver", "--url", "http://testserver/").splitlines()
    assert lines[0] == "bea is approver." and lines[-1].startswith("http://testserver/login/link/")
    bea = User.objects.get(username="bea")
    assert roles.get_role(bea) == "approver" and not bea.has_usable_password()
    assert client.post(lines[-1].removeprefix("http://testserver")).status_code == 302


def test_a_password_is_taken_from_the_environment_and_no_link_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCARDS_PERSON_PASSWORD", "a password of bea")
    assert run("create", "bea") == "bea is viewer.\n"
    assert User.objects.get(username="bea").check_password("a password of bea")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["create", "ANN"], "a person named ann already exists"),
        (["create", "a b"], "valid username"),
        (["create", ""], "."),
        (["create", "bea", "--role", "king"], "invalid choice"),
        (["role", "norman", "admin"], "No person is named norman"),
        (["link", "norman"], "No person is named norman"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_no_one(an_approver: Any, words: list[str], reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        run(*words)
    assert [user.username for user in User.objects.all()] == ["ann"] and roles.get_role(an_approver) == "approver"


def test_the_only_admin_stays_one(a_person: Any) -> None:
    a_person("admin", "bea")
    with pytest.raises(CommandError, match="make someone else admin first"):
        run("role", "bea", "viewer")
    a_person("admin", "cleo")
    assert run("role", "bea", "viewer") == "bea is viewer.\n"


def test_all_are_listed_with_their_roles(a_person: Any) -> None:
    a_person("viewer", "cleo")
    bea = a_person("admin", "bea")
    User.objects.create_user("dan")
    User.objects.filter(pk=bea.pk).update(is_active=False)
    assert run("list").splitlines() == ["bea  admin, deactivated", "cleo  viewer", "dan  no role"]
    with pytest.raises(CommandError, match="bea is deactivated"):
        run("link", "bea")


def test_a_link_has_the_address_that_people_use(limits: Any, tmp_path: Path) -> None:
    limits(data_dir=tmp_path, port=8123, origins=())
    assert person._get_base_url() == "http://127.0.0.1:8123"
    for text, url in ((b"http://127.0.0.1:9\n", "http://127.0.0.1:9"), (b"", ""), (b"\n", ""), (b"\xff", "")):
        (tmp_path / "address").write_bytes(text)  # `serve` leaves its address there
        assert person._get_base_url() == (url or "http://127.0.0.1:8123")
    limits(origins=("https://cards.example", "https://other.example"))
    assert person._get_base_url() == "https://cards.example"
