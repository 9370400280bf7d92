"""Agent keys from the command line: made, listed and revoked."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from tests.support.tables import loop_over
from toolcards.models import EVERY_SCOPE, SCOPES, AgentKey, Source

pytestmark = pytest.mark.django_db


def test_the_last_line_is_the_secret_and_no_other_line_has_it(run: Callable[..., str]) -> None:
    *lines, secret = run("agentkey", "create", " robot ").splitlines()
    key = AgentKey.objects.find_by_secret(secret)
    assert key is not None and key.source.name == "robot" and key.scopes == " ".join(SCOPES)
    assert secret not in "".join(lines) and secret not in run("agentkey", "list")


@loop_over(
    "words, scopes",
    [
        (["read", "ingest"], "ingest read"),
        (["read,ingest", "read"], "ingest read"),
        (["read ingest"], "ingest read"),
        ([*reversed(EVERY_SCOPE)], " ".join(EVERY_SCOPE)),
    ],
)
def test_scopes_are_kept_in_one_order_however_they_are_typed(words: list[str], scopes: str) -> None:
    call_command("agentkey", "create", "robot", "--scopes", *words, stdout=io.StringIO())
    assert AgentKey.objects.latest("pk").scopes == scopes


@loop_over(
    "words, reason",
    [
        (["robot", "--scopes", "admin"], "unknown scopes: admin. The scopes are: ingest"),
        (["robot", "--scopes", ","], "at least one scope"),
        ([" "], "needs a name"),
        (["x" * 201], "at most 200 characters"),
        (["robot", "--owner", "nobody"], "No active person is named nobody"),
        (["robot", "--env", "x" * 101], "at most 100 characters"),
    ],
)
def test_a_key_that_cannot_be_made_leaves_nothing(words: list[str], reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        call_command("agentkey", "create", *words)
    assert not AgentKey.objects.exists() and not Source.objects.exists()


def test_a_key_from_the_command_line_can_expire() -> None:
    output = io.StringIO()
    call_command("agentkey", "create", "robot", "--expires-in", "90", stdout=output)
    key = AgentKey.objects.get()
    assert key.expires_at is not None and 89 < (key.expires_at - timezone.now()) / timedelta(days=1) <= 90
    assert f"until {key.expires_at:%Y-%m-%d}" in output.getvalue()
    call_command("agentkey", "list", stdout=output)
    assert f"active until {key.expires_at:%Y-%m-%d}" in output.getvalue()
    for days in ("0", "4000"):
        with pytest.raises(CommandError, match="1 to 3650 days"):
            call_command("agentkey", "create", "robot", "--expires-in", days)


def test_the_owner_and_the_environment_are_those_of_the_source(run: Callable[..., str], an_approver: Any) -> None:
    run("agentkey", "create", "robot", "--owner", "ann", "--env", "prod")
    run("agentkey", "create", "robot")  # says nothing of them
    source = Source.objects.get()
    assert (source.owner, source.env, source.keys.count()) == (an_approver, "prod", 2)
    an_approver.is_active = False
    an_approver.save()
    with pytest.raises(CommandError, match="No active person"):
        run("agentkey", "create", "robot", "--owner", "ann")


def test_each_key_is_listed_with_its_state(run: Callable[..., str]) -> None:
    past = timezone.now() - timedelta(days=1)
    for name, columns in {
        "active": {}, "used": {"used_at": past}, "expired": {"expires_at": past}, "revoked": {"revoked_at": past}
    }.items():  # fmt: skip
        AgentKey.objects.filter(pk=AgentKey.objects.issue(name)[0].pk).update(**columns)
    lines = {line.split()[1]: line for line in run("agentkey", "list").splitlines()}
    assert lines["active"].endswith("active, never used") and lines["expired"].endswith("expired, never used")
    assert f"active, used {past:%Y-%m-%d}" in lines["used"] and "revoked, never" in lines["revoked"]


def test_keys_are_revoked_by_name_or_by_the_beginning_that_the_list_shows(run: Callable[..., str]) -> None:
    keys = [AgentKey.objects.issue(name)[0] for name in ("robot", "robot", "other")]
    assert "Revoked: 1" in run("agentkey", "revoke", f"{keys[2].prefix}…")
    assert "Revoked: 2" in run("agentkey", "revoke", "robot")
    assert not AgentKey.objects.live()
    for name in ("robot", "nobody", "", "tck_"):
        with pytest.raises(CommandError, match="No active key is named"):
            run("agentkey", "revoke", name)
