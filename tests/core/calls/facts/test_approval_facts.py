"""Facts about decisions: what a line of the log means that has only what is required.

The log leaves out what is a default, so another default would change what stored lines mean.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any, get_args

import pytest

from tests.support.log_lines import read_line
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.calls.facts.approval_facts import ApprovalFact

SHORTEST = [
    ('{"type":"decided","call_id":"c","effect":"ask"}', f.PolicyDecided,
     {"call_id": "c", "effect": "ask", "code": "", "reason": "", "rule": "", "version": 0,
      "by": {"kind": "default", "name": ""}, "suggest": "", "would": [], "args_sha256": "", "schema_sha256": "",
      "known": True, "changed": False, "moment": {}}),
    ('{"type":"permit-moved","call_id":"c","state":"issued"}', f.PermitChanged,
     {"call_id": "c", "state": "issued", "id": ""}),
    ('{"type":"approval-asked","call_id":"c"}', f.ApprovalRequested,
     {"call_id": "c", "source_id": "", "id": "", "reason": "", "automatic": False, "opener": "agent", "expires_at": 0.0,
      "reply_to": None, "votable": False, "args_sha256": "", "terms": {}, "tool": "", "kind": "", "input": None,
      "parent_call": "", "twin": "", "former_ids": []}),
    ('{"type":"approval-answered","call_id":"c","approved":false}', f.ApprovalAnswered,
     {"call_id": "c", "approved": False, "source_id": "", "id": "", "reason": "", "by": {"kind": "host", "name": ""},
      "input": None, "has_input": False, "args_sha256": "", "lasting_rule": "", "policy_version": 0}),
    ('{"type":"voted","call_id":"c","have":1}', f.VoteCounted,
     {"call_id": "c", "have": 1, "id": "", "by": {"kind": "human", "name": ""}, "edited": None, "has_edited": False,
      "args_sha256": ""}),
    ('{"type":"approval-rebound","call_id":"c","args_sha256":"0a"}', f.ApprovalInputChanged,
     {"call_id": "c", "args_sha256": "0a", "id": ""}),
    ('{"type":"approval-moved","call_id":"c","state":"claimed"}', f.ApprovalChanged,
     {"call_id": "c", "state": "claimed", "id": ""}),
    ('{"type":"approval-fetched","call_id":"c"}', f.ApprovalFetched, {"call_id": "c", "id": ""}),
    ('{"type":"escalated","call_id":"c","to":["group:lead"]}', f.ApprovalEscalated,
     {"call_id": "c", "to": ["group:lead"], "id": ""}),
    ('{"type":"reviewed","call_id":"c","by":{"kind":"reviewer","name":"guard"}}', f.CallReviewed,
     {"call_id": "c", "by": {"kind": "reviewer", "name": "guard"}, "answer": "", "reason": "", "note": "", "id": "",
      "args_sha256": "", "prompt_sha256": ""}),
    ('{"type":"agent-moved","call_id":"c"}', f.AgentPresenceChanged, {"call_id": "c", "away": True}),
]  # fmt: skip


@loop_over(("line", "kind", "fields"), SHORTEST)
def test_a_short_line_keeps_its_meaning(line: str, kind: type, fields: dict[str, Any]) -> None:
    assert read_line(line) == (kind, fields)


def test_every_fact_about_approvals_is_in_the_table() -> None:
    assert {kind for _, kind, _ in SHORTEST} == set(get_args(ApprovalFact))


def test_a_line_names_the_person_or_the_rule() -> None:
    line = '{"type":"voted","call_id":"c","have":2,"id":"apr_1","by":{"kind":"human","name":"ann"},"has_edited":true}'
    kind, fields = read_line(line)
    assert kind is f.VoteCounted and fields["by"] == {"kind": "human", "name": "ann"}
    assert f.load(line).by == f.Actor("human", "ann")  # type: ignore[union-attr]


def test_an_approval_without_an_edit_differs_from_one_of_nothing() -> None:
    unedited, emptied = f.ApprovalAnswered("c", True), f.ApprovalAnswered("c", True, has_input=True)
    assert unedited != emptied and f.load(f.dump(emptied)) == emptied


def test_the_author_of_a_decision_cannot_be_changed_and_is_one_of_a_set() -> None:
    ann = f.Actor("human", "ann")
    with pytest.raises(FrozenInstanceError):
        ann.name = "bob"  # type: ignore[misc]
    assert {ann, f.Actor("human", "ann"), f.Actor("rule", "ann")} == {ann, f.Actor("rule", "ann")}


def test_two_facts_share_no_list_and_no_object() -> None:
    first, second = f.PolicyDecided("c", "ask"), f.PolicyDecided("d", "ask")
    first.would.append({"rule": "r"})
    first.moment["x"] = 1
    assert (second.would, second.moment) == ([], {})
    assert f.ApprovalRequested("c").terms is not f.ApprovalRequested("d").terms
