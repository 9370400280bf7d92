"""A grant covers what was shown: these arguments, tool, server and schema, for this agent."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.support.gate_commands import RecordFacts
from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.gate import policy_store
from toolcards.gate.decisions import grants
from toolcards.gate.writer import group_commit
from toolcards.models import AgentKey, Grant, Source, ToolCall

pytestmark = pytest.mark.django_db
ASK = {"id": "r", "effect": "ask", "match": {"tool": ["deploy"]}}
ASKING_POLICY: dict[str, Any] = {"default": "allow", "rules": [ASK]}
ARGS = {"target": "staging"}


def decide(source: Source, call_id: str, run: str = "r", **more: Any) -> dict[str, Any]:
    request = {"tool": "deploy", "args": ARGS, "place": f"{run} {call_id}", **more}  # none has a twin
    return gate.decide(source, gate.DecisionRequest(run=run, call_id=call_id, **request))


def granted(person: Any, call_id: str = "c", kind: Any = "until", **more: Any) -> Grant:
    """Approve the waiting call, and allow the same in advance."""
    vote(person, call_id, kind, **more)
    return Grant.objects.get()


def vote(person: Any, call_id: str, kind: Any, decision: str = "approve", **more: Any) -> None:
    call = ToolCall.objects.get(call_id=call_id)
    card = call.as_card()
    edited = {"edited_args": more.pop("edited")} if "edited" in more else {}
    ballot = gate.Ballot(
        card.approval.id, decision, card.rev, card.approval.args_sha256, grant={"kind": kind, **more}, **edited
    )
    gate.vote(person, ballot)


CALL_DETAILS = {"tool_source": "ci", "schema_sha256": "a" * 64, "agent_path": ("boss", "deployer")}
OTHERS: dict[str, tuple[dict[str, Any], bool]] = {
    "the same": ({}, True), "the same, spelled otherwise": ({"args": {"target": "\u0073taging"}}, True),
    "other arguments": ({"args": {"target": "production"}}, False), "more arguments": ({"args": ARGS | {"x": None}},
    False),
    "no arguments": ({"args": {}}, False), "another tool": ({"tool": "Deploy"}, False),
    "another server": ({"tool_source": "evil"}, False), "no server": ({"tool_source": ""}, False),
    "another schema": ({"schema_sha256": "b" * 64}, False), "no schema": ({"schema_sha256": ""}, False),
    "another agent": ({"agent_path": ("boss", "intern")}, False), "another parent": ({"agent_path": ("boss", "x",
    "deployer")}, False),
    "a sub-agent": ({"agent_path": ("boss", "deployer", "sub")}, False), "the parent": ({"agent_path": ("boss",)},
    False),
    "the leaf alone": ({"agent_path": ("deployer",)}, False), "a joined name": ({"agent_path": ("boss/deployer",)},
    False),
    "another run": ({"run": "other"}, True),
}  # fmt: skip


@pytest.mark.parametrize(("other", "covered"), OTHERS.values(), ids=OTHERS)
def test_a_grant_covers_the_call_that_was_shown_and_no_other(
    other: dict[str, Any], covered: bool, policy: Any, source: Source, an_approver: Any
) -> None:
    policy(ASKING_POLICY)
    assert decide(source, "c", **CALL_DETAILS)["decision"] == "ask"
    granted(an_approver)
    result = decide(source, "d", **(CALL_DETAILS | other))
    assert (result["decision"], result["by"]["kind"]) == (("allow", "grant") if covered else ("ask", "rule"))


@pytest.mark.parametrize("path", [("",), ("sha256:" + hashlib.sha256(b"/".join([b"a" * 150] * 2)).hexdigest(),)])
def test_a_grant_for_an_oddly_named_agent_covers_no_other(
    path: tuple[str, ...], policy: Any, source: Source, an_approver: Any
) -> None:
    """An empty name was any agent, and one like a digest was the agent whose long path has this digest."""
    policy(ASKING_POLICY)
    assert decide(source, "c", agent_path=path)["decision"] == "ask"
    granted(an_approver)
    assert decide(source, "d", agent_path=path)["decision"] == "allow"
    for number, other in enumerate([("intern",), ("a" * 150, "a" * 150)]):
        assert decide(source, f"o{number}", agent_path=other)["decision"] == "ask"


def test_a_grant_for_a_run_ends_with_it_and_one_for_a_source_counts_for_no_other(
    policy: Any, source: Source, an_approver: Any
) -> None:
    policy(ASKING_POLICY)
    other = AgentKey.objects.ensure("tck_of_another_agent_0123456789abcdefghij", name="another").source
    decide(source, "c")
    granted(an_approver, kind="run")
    assert decide(source, "d")["decision"] == "allow" and decide(source, "e", run="other")["decision"] == "ask"
    assert decide(other, "f", run="r")["decision"] == "ask"


def test_a_grant_that_came_with_an_edit_covers_what_the_person_wrote(
    policy: Any, source: Source, an_approver: Any
) -> None:
    policy(ASKING_POLICY)
    decide(source, "c", args={"target": "production"})
    granted(an_approver, decision="edit", edited=ARGS)
    assert decide(source, "d", args=ARGS)["decision"] == "allow"
    assert decide(source, "e", args={"target": "production"})["decision"] == "ask"


def test_a_grant_answers_the_rule_that_asked_as_it_was_then(policy: Any, source: Source, an_approver: Any) -> None:
    stricter = {"default": "allow", "rules": [ASK | {"severity": "high"}]}
    policy(ASKING_POLICY)
    decide(source, "c")
    decide(source, "d")
    policy(stricter)  # between the question and its answer
    granted(an_approver)
    assert decide(source, "e")["decision"] == "ask"
    policy(ASKING_POLICY)  # a rollback: the very rule that the person saw
    assert decide(source, "f")["decision"] == "allow"
    policy({"default": "allow", "rules": [ASK, {"id": "s", "effect": "ask"}]})
    assert decide(source, "g")["decision"] == "ask"  # one rule of two
    policy({"default": "allow", "rules": [ASK, {"id": "no", "effect": "deny"}]})
    assert decide(source, "h")["decision"] == "deny"


def test_a_grant_counts_until_its_time_is_over_and_until_it_is_revoked(
    policy: Any, source: Source, an_approver: Any
) -> None:
    policy(ASKING_POLICY)
    decide(source, "c")
    row = granted(an_approver)
    assert decide(source, "d")["decision"] == "allow" and Grant.objects.get().used == 1
    Grant.objects.update(expires_at=row.created_at)
    assert decide(source, "e")["decision"] == "ask"
    Grant.objects.update(expires_at=row.expires_at)
    for _ in range(2):
        grants.revoke_grant(row.pk, "ann")
    assert decide(source, "f")["decision"] == "ask"


def test_the_same_vote_twice_gives_one_grant(policy: Any, source: Source, an_approver: Any) -> None:
    policy(ASKING_POLICY)
    decide(source, "c")
    for _ in range(2):
        vote(an_approver, "c", "until")
    assert Grant.objects.count() == 1


def test_a_tool_announced_with_another_schema_is_not_the_tool_that_was_shown(
    policy: Any, source: Source, an_approver: Any, a_run: Any
) -> None:
    policy(ASKING_POLICY)

    def announce(**properties: Any) -> None:
        schema = {"type": "object", "properties": properties}
        group_commit.execute(
            RecordFacts(source, "r", [f.RunStarted(agent="bot", tools=[{"name": "deploy", "input_schema": schema}])])
        )

    announce(target={"type": "string"})
    assert decide(source, "c")["decision"] == "ask"
    granted(an_approver)
    assert decide(source, "d")["decision"] == "allow"
    announce(target={"type": "string"}, force={"type": "boolean"})
    assert decide(source, "e")["decision"] == "ask"


def test_many_other_grants_do_not_crowd_one_out(policy: Any, source: Source, an_approver: Any) -> None:
    policy(ASKING_POLICY)
    decide(source, "c")
    row = granted(an_approver)
    fields = {name: getattr(row, name) for name in ("rule", "rule_sha256", "tool", "source", "agent", "created_by")}
    Grant.objects.bulk_create(
        Grant(id=f"gra_{n}", args_sha256=f"{n:064}", created_at=row.created_at + n, **fields) for n in range(600)
    )
    assert decide(source, "d")["decision"] == "allow"


def test_a_grant_can_answer_a_rule_with_the_longest_name(policy: Any, source: Source, an_approver: Any) -> None:
    policy({"default": "allow", "rules": [ASK | {"id": "r" * 100}]})
    decide(source, "c")
    assert Grant._meta.get_field("rule").max_length >= 100 and granted(an_approver).rule == "r" * 100


MINUTES: list[Any] = [
    0,
    -1,
    "nan",
    "inf",
    "-inf",
    1e9,
    "1e999",
    True,
    False,
    [],
    {},
    "15m",
    10**400,
    float("nan"),
    480.01,
]


def test_a_clock_that_is_set_back_prolongs_no_grant(
    policy: Any, source: Source, an_approver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy(ASKING_POLICY)
    decide(source, "c")
    row, elapsed, wall = granted(an_approver, minutes=60), clock.elapsed, clock.wall
    for seconds, ahead, is_live in ((0, 0, True), (3_500, -7_200, True), (3_700, -7_200, False)):
        monkeypatch.setattr(clock, "elapsed", lambda seconds=seconds: elapsed() + seconds)
        monkeypatch.setattr(clock, "wall", lambda seconds=seconds, ahead=ahead: wall() + seconds + ahead)
        now = clock.wall()
        assert (row.is_live(now), Grant.objects.live(now).exists()) == (is_live, is_live), (seconds, ahead)


@pytest.mark.parametrize("minutes", MINUTES, ids=repr)
def test_minutes_that_are_none_are_refused(minutes: Any, policy: Any, source: Source, an_approver: Any) -> None:
    policy(ASKING_POLICY)
    decide(source, "c")
    with pytest.raises(gate.InvalidRequest) as error:
        vote(an_approver, "c", "until", minutes=minutes)
    assert error.value.code == "invalid_grant" and error.value.status == 422
    assert not Grant.objects.exists() and ToolCall.objects.get().state == "approval-requested"


@pytest.mark.parametrize("minutes", [None, "", 0.01, "480", 480])
def test_minutes_within_the_limits_are_kept(minutes: Any, policy: Any, source: Source, an_approver: Any) -> None:
    policy(ASKING_POLICY)
    decide(source, "c")
    row = granted(an_approver, minutes=minutes)
    assert abs(row.expires_at - row.created_at - float(minutes or 15) * 60) < 1


def test_versions_of_the_policy_are_found_for_a_grant(policy: Any, source: Source, an_approver: Any) -> None:
    policy(ASKING_POLICY)
    decide(source, "c")
    row = granted(an_approver)
    assert row.rule_sha256 == policy_store.get_active_policy().rule_sha256("r") and row.agent == source.name


def test_a_grant_of_a_person_who_may_not_vote_any_more_does_not_count(
    policy: Any, source: Source, an_approver: Any
) -> None:
    policy(ASKING_POLICY)
    decide(source, "c")
    granted(an_approver)
    assert decide(source, "d")["decision"] == "allow"
    groups = list(an_approver.groups.all())
    an_approver.groups.clear()
    assert decide(source, "e")["decision"] == "deny"  # no one is left to ask
    an_approver.groups.set(groups)
    assert decide(source, "f")["decision"] == "allow"
    type(an_approver).objects.filter(pk=an_approver.pk).update(is_active=False)  # past all signals
    assert decide(source, "g")["decision"] == "deny"


@pytest.mark.parametrize("kind", ["until", "run"])
def test_the_grants_of_a_deactivated_person_are_revoked_and_stay_so(
    policy: Any, source: Source, a_person: Any, kind: str
) -> None:
    policy(ASKING_POLICY)
    ann, bob = a_person("approver", "ann"), a_person("approver", "bob")
    decide(source, "c")
    granted(ann, kind=kind)
    ann.is_active = False
    ann.save()
    assert decide(source, "d")["decision"] == "ask"
    row = AuditRow.objects.get(act="grant.revoked")
    assert row.details == {"grant": Grant.objects.get().pk, "rule": "r", "tool": "deploy", "given_by": "ann"}
    ann.is_active = True
    ann.save()
    assert decide(source, "e")["decision"] == "ask" and AuditRow.objects.filter(act="grant.revoked").count() == 1
    vote(bob, "d", kind)
    bob.first_name = "Bob"
    bob.save()
    assert decide(source, "f")["decision"] == "allow"
