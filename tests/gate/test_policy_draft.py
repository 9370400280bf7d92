"""The first policy, and its copy in the draft."""

from __future__ import annotations

import json

import pytest

from toolcards.core.policy.decision import PolicyRequest, decide
from toolcards.gate import policy_draft, policy_store

pytestmark = pytest.mark.django_db


def test_first_run_activates_the_starter_policy_and_copies_it_to_the_draft(db: None) -> None:
    version = policy_draft.ensure_first_version("deny")
    assert version is not None and (version.number, version.author, version.active) == (1, "setup", True)
    document = json.loads(version.document)
    assert document["default"] == "deny"
    assert policy_draft.load_draft() == document
    assert policy_draft.ensure_first_version() is None


FIRST = [
    (None, "Read", "allow"), (None, "frob", "ask"), (None, "Edit", "ask"), (None, "mcp__evil__view", "ask"),
    ("allow", "Read", "allow"), ("allow", "frob", "allow"), ("allow", "Edit", "ask"), ("allow",
    "mcp__evil__delete_it", "ask"),
    ("ask", "Read", "ask"), ("ask", "frob", "ask"), ("deny", "Read", "deny"), ("deny", "frob", "deny"), ("deny",
    "Edit", "ask"),
]  # fmt: skip


@pytest.mark.parametrize(("default", "tool", "effect"), FIRST)
def test_the_first_policy_has_the_default_that_was_set_also_for_unknown_tools(
    default: str | None, tool: str, effect: str, db: None
) -> None:
    policy_draft.ensure_first_version(default)
    assert decide(policy_store.get_active_policy(), PolicyRequest.for_tool(tool, is_known=False)).effect == effect
