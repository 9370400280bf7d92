"""What applies to the calls of a source, in a sentence."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import Client

from dashboard.sources.control import describe_control, load_yesterday
from toolcards.core.calls.identity import DAY_SECONDS
from toolcards.core.policy.language.presets import PRESETS
from toolcards.models import Source, SourceDay

pytestmark = pytest.mark.django_db
COUNTS = {"allowed": 412, "refused": 3, "asked": 5}
RULES = len(PRESETS["follow-the-agent"].document["rules"])
YESTERDAY = "yesterday 412 allowed, 3 refused, 5 asked"
HOOKS, CODE = ["claude-code"], ["Claude Code"]


@pytest.mark.parametrize(("policy_name", "gates", "agents", "protocols", "sentence"), [
    ("follow-the-agent", "gates", CODE, HOOKS,
     f"Claude Code decides, Toolcards asks what it asks; {RULES} rules on top; {YESTERDAY}"),
    ("watch", "gates", CODE, HOOKS, f"Claude Code decides; {YESTERDAY}"),
    ("follow-the-agent", "gates", ["a", "b"], ["native"], f"The agent decides; {RULES} rules on top; {YESTERDAY}"),
    ("watch", "observes", CODE, HOOKS, f"Claude Code decides, Toolcards only watches; {YESTERDAY}"),
    ("watch", "not seen yet", CODE, HOOKS, ""),
])  # fmt: skip
def test_the_sentence_names_who_decides(
    policy: Any, policy_name: str, gates: str, agents: list[str], protocols: list[str], sentence: str
) -> None:
    policy(policy_name)
    assert describe_control(gates, agents, protocols, SourceDay(**COUNTS)) == sentence


@pytest.mark.parametrize(("default", "verb"), [("ask", "asks about"), ("deny", "denies")])
def test_a_policy_that_allows_little_decides_itself(policy: Any, default: str, verb: str) -> None:
    policy({"default": default, "rules": [{"id": "r", "effect": "allow", "match": {"tool": ["read"]}}]})
    sentence = f"Toolcards {verb} every call that no rule allows; 1 rule"
    assert describe_control("gates", CODE, HOOKS, None) == sentence


def test_without_a_policy_nothing_is_allowed() -> None:
    assert "denies every call" in describe_control("gates", CODE, HOOKS, None)


def test_both_pages_have_the_sentence_with_the_counts_of_yesterday(
    admin: Client, policy: Any, a_call: Any, source: Source
) -> None:
    policy({"default": "ask"})
    a_call("approval-requested")
    day = int(time.time() // DAY_SECONDS) - 1
    SourceDay.objects.create(source=source.pk, day=day, **COUNTS)
    SourceDay.objects.create(source=source.pk, day=day - 1, allowed=9)
    assert load_yesterday([source.pk])[source.pk].allowed == 412
    for page in ("/sources/", f"/sources/{source.pk}/"):
        text = admin.get(page).content.decode()
        assert "data-control" in text and "yesterday 412 allowed, 3 refused, 5 asked" in text
