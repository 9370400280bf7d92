"""Personal tokens from the command line."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from toolcards.models import PersonalToken

pytestmark = pytest.mark.django_db


def run(*words: str) -> list[str]:
    output = io.StringIO()
    call_command("token", *words, stdout=output)
    return output.getvalue().splitlines()


def test_a_token_is_created_listed_and_revoked(an_approver: Any) -> None:
    name = an_approver.get_username()
    secret = run("create", name, "--scopes", "read,vote", "--name", "laptop")[-1]
    token = PersonalToken.objects.find_by_secret(secret)
    assert token is not None and token.scopes == "read vote"
    assert [("laptop" in line, "never used" in line) for line in run("list")] == [(True, True)]
    assert run("revoke", name) == ["Revoked: 1."]
    assert not run("list")


def test_a_scope_beyond_the_role_is_mentioned(an_approver: Any) -> None:
    lines = run("create", an_approver.get_username(), "--scopes", "vote", "policy")
    assert "does not permit: policy" in lines[0]


@pytest.mark.parametrize(
    "words",
    [
        ("create", "eve"), ("create", "ann", "--scopes", "all"), ("create", "ann", "--expires-in", "0"),
        ("create", "ann", "--name", " "), ("revoke", "tcp_none"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_says_why(an_approver: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match=r"\.$"):
        run(*words)


def test_one_token_is_revoked_by_its_prefix(an_approver: Any) -> None:
    run("create", an_approver.get_username())
    prefix = PersonalToken.objects.get().prefix
    assert run("revoke", f"{prefix}…") == ["Revoked: 1."]
