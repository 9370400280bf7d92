"""Acts as sentences; a row that no sentence fits says its act and actor."""

from __future__ import annotations

from typing import Any

from dashboard.audit.act_sentences import describe_act
from tests.support.tables import loop_over
from toolcards.audit.rows import AuditRow


@loop_over(
    ("act", "kind", "name", "details", "call", "sentence"),
    [
        ("approval.approved", "human", "admin", {"tool": "Bash"}, "Push main to origin",
         "admin approved “Push main to origin”"),
        ("approval.denied", "human", "zoë", {"tool": "Bash"}, "", "zoë denied Bash"),
        ("approval.approved", "reviewer", "guard", {"tool": "Bash"}, "", "The reviewer guard approved Bash"),
        ("approval.expired", "timeout", "", {"tool": "Bash"}, "", "No one answered in time: Bash"),
        ("decision", "rule", "pushes", {"effect": "ask", "tool": "Bash"}, "Run ls", "Rule pushes asked about “Run ls”"),
        ("decision", "default", "", {"effect": "allow"}, "", "The policy’s default allowed a call"),
        ("decision", "rule", "x", {"effect": ["ask"]}, "", "Rule x: decision"),
        ("claim", "agent", "laptop", {"tool": "Bash"}, "", "Laptop took the permission for Bash"),
        ("key.created", "command", "", {"prefix": "tck_a…", "source": "laptop"}, "",
         "A command created key tck_a… for laptop"),
        ("key.created", "command", "", {}, "", "A command created key … for …"),
        ("policy.draft.switched", "human", "ann", {}, "", "ann changed the policy draft"),
        ("policy.activated", "human", "ann", {"version": 3}, "", "ann activated policy version 3"),
        ("never.heard_of", "human", "ann", {}, "", "ann: never heard of"),
        ("signin", "human", "{call.__class__}", {}, "", "{call.__class__} signed in"),
        ("person.created", "human", "", {"person": "{who}"}, "", "Someone added {who}"),
    ],
)  # fmt: skip
def test_an_act_has_a_sentence(
    act: str, kind: str, name: str, details: dict[str, Any], call: str, sentence: str
) -> None:
    assert describe_act(AuditRow(act=act, actor_kind=kind, actor=name), details, call) == sentence
