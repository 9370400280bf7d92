"""A question opens with the terms of its rules and the shortest time limit: the rule's, the server's or the agent's."""

from __future__ import annotations

import random
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from hypothesis import given
from hypothesis import strategies as st

from tests.support.gated_calls import ASK, DECIDE, PUSH, QUESTION
from tests.support.rules import find_effect, policy, rule
from tests.support.tables import loop_over
from toolcards import gate
from toolcards.core.calls import elicitation
from toolcards.core.calls.facts import Actor
from toolcards.core.policy.decision import AskTerms, Effect, PolicyDecision, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate.agents import run_commands
from toolcards.gate.questions import opening
from toolcards.gate.questions.opening import MAX_PARTS, USE_TTL, build_card_terms, judge_parts
from toolcards.gate.writer import group_commit
from toolcards.models import AgentKey, Approval, Source, ToolCall

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("terms", "seconds", "use_ttl"),
    [({}, 900, USE_TTL), ({"decide_ttl": "1m"}, 60, USE_TTL), ({"use_ttl": "30s"}, 900, 30)],
)
def test_the_time_limits_are_those_of_the_rule_else_of_the_server(
    source: Source, policy: Any, an_approver: Any, terms: dict[str, Any], seconds: int, use_ttl: float
) -> None:
    policy({"rules": [{"effect": "ask", "match": {"tool": "bash"}, "ask": terms}]})
    gate.decide(source, gate.DecisionRequest("r", "c", "bash", {}))
    row = Approval.objects.get()
    assert (round(row.expires_at - row.requested_at), row.use_ttl) == (seconds, use_ttl)


def test_without_terms_a_card_offers_no_special_buttons() -> None:
    assert build_card_terms(None) == {}


TOO_MANY = elicitation.MAX_FIELDS + 1
FORM = {
    "message": "Which branch?",
    "requestedSchema": {"type": "object", "properties": {"branch": {"type": "string"}}},
}


def require_answer(decision: PolicyDecision, form: Any = FORM, *, source: str = "git", voters: int = 1) -> Any:
    """Return the decision about a form, and the terms under which voters were counted."""
    counts: list[AskTerms] = []

    def count(terms: AskTerms) -> int:
        counts.append(terms)
        return voters

    request = PolicyRequest.for_tool("elicitation", source=source, input=form)
    return opening.require_answer(decision, request, form, count), counts


def decide_form(effect: str, **more: Any) -> PolicyDecision:
    match = {"tool": "elicitation"}
    result: PolicyDecision = find_effect(policy(rule(effect, match, **more)), "elicitation", input=FORM)
    return result


@loop_over("source, reason", [("git", opening.REASON), ("", opening.REASON_OF_AGENT)])
def test_what_a_rule_allows_is_asked_under_the_terms_of_forms(source: str, reason: str) -> None:
    decision, counts = require_answer(decide_form("allow"), source=source)
    assert (decision.effect, decision.code, decision.reason) == (Effect.ASK, "question", reason)
    assert (decision.rule, decision.rules, decision.grants, decision.by) == ("", (), (), Actor("default"))
    assert decision.ask == opening.TERMS and counts == [opening.TERMS]
    assert decision.ask.allow_requester and decision.ask.grants == ("once",) and decision.ask.editable == ()
    assert decision.version == 7


def test_what_the_default_asks_is_asked_under_the_terms_of_forms_too() -> None:
    question = find_effect(policy(default="ask"), "elicitation", input=FORM)
    assert question.effect is Effect.ASK and not question.rules
    decision, _ = require_answer(question)
    assert (decision.code, decision.ask) == ("question", opening.TERMS)


def test_the_terms_of_a_rule_that_asks_stay() -> None:
    question = decide_form("ask", ask={"quorum": 2})
    decision, counts = require_answer(question, voters=2)
    assert decision == question and decision.ask is not None and decision.ask.quorum == 2
    assert [terms.quorum for terms in counts] == [2]


def test_a_form_that_no_one_may_answer_is_denied() -> None:
    decision, _ = require_answer(decide_form("allow"), voters=0)
    assert (decision.effect, decision.ask) == (Effect.DENY, None)


@loop_over("form", [
    None, [], "text", {}, {"requestedSchema": {"type": "object", "properties": {"a": {"type": "of tomorrow"}}}},
    {"requestedSchema": {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(TOO_MANY)}}},
])  # fmt: skip
def test_a_form_that_cannot_be_shown_is_refused_whatever_policy_says(form: Any) -> None:
    for effect in ("allow", "ask"):
        decision, counts = require_answer(decide_form(effect), form)
        assert (decision.effect, decision.code, decision.ask, counts) == (Effect.DENY, "invalid_args", None, [])
        assert (decision.by, decision.reason) == (Actor("validation"), opening.UNREADABLE)


LIMIT = 3
REFUSAL_CODE = "slow_down"


def ask(source: Source, run: str, call_id: str) -> str:
    """Return the decision about the call, or the code of the refusal."""
    request = gate.DecisionRequest(run=run, call_id=call_id, tool="bash", args={"command": f"git push {call_id}"})
    try:
        return str(gate.decide(source, request)["decision"])
    except gate.RequestRefused as refusal:
        return refusal.code


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(12))
def test_questions_are_refused_exactly_while_as_many_wait(
    seed: int, source: Source, policy: Any, an_approver: Any, ballot: Any, limits: Any
) -> None:
    policy({"rules": [ASK]})
    limits(max_waiting=LIMIT)
    other = AgentKey.objects.ensure("tck_" + "o" * 43, name="another agent")
    sources, chance = [source, other.source], random.Random(seed)
    waiting: list[set[tuple[str, str]]] = [set(), set()]  # the model: (run, call id) of each agent
    for step in range(40):
        number = chance.randrange(2)
        one, mine = sources[number], waiting[number]
        act = chance.choice(["ask", "ask", "ask again", "vote", "end"])
        if act == "ask":
            run, call_id = f"r{chance.randrange(2)}", f"c{step}"
            assert ask(one, run, call_id) == ("ask" if len(mine) < LIMIT else REFUSAL_CODE)
            if len(mine) < LIMIT:
                mine.add((run, call_id))
            else:
                assert not ToolCall.objects.filter(run__source=one, call_id=call_id).exists()
        elif mine and act == "ask again":
            assert ask(one, *chance.choice(sorted(mine))) == "ask"
        elif mine and act == "vote":
            run, call_id = chance.choice(sorted(mine))
            call = ToolCall.objects.get(run__source=one, run__name=run, call_id=call_id)
            gate.vote(an_approver, ballot(call, chance.choice(["approve", "deny"])))
            mine.remove((run, call_id))
        elif mine and act == "end":
            run, _ = chance.choice(sorted(mine))
            group_commit.execute(run_commands.EndRun(one, run, "success", ""))
            mine.difference_update([entry for entry in mine if entry[0] == run])
        for source_waiting, entry in zip(waiting, sources, strict=True):
            waiting_approvals = Approval.objects.waiting().filter(run__source=entry)
            assert {(row.run.name, row.call.call_id) for row in waiting_approvals} == source_waiting


@pytest.mark.django_db(transaction=True)
async def test_the_refusal_says_when_to_ask_again(call: Any, policy: Any, an_approver: Any, limits: Any) -> None:
    await in_thread(lambda: policy({"rules": [ASK]}))()
    limits(max_waiting=1)
    assert (await call("POST", DECIDE, QUESTION))[0] == 200
    status, body, headers = await call("POST", DECIDE, QUESTION | {"call_id": "d"})
    assert (status, body["error"]["code"]) == (429, REFUSAL_CODE)
    assert "1 call" in body["error"]["message"] and int(headers["retry-after"]) > 0


@pytest.mark.django_db(transaction=True)
async def test_sockets_receive_a_denial(agent: Any, policy: Any, an_approver: Any, limits: Any) -> None:
    await in_thread(lambda: policy({"rules": [ASK]}))()
    limits(max_waiting=1)
    async with agent(run="s") as socket:
        await socket.say([PUSH])
        assert (await socket.hear("decision"))["decision"] == "ask"
        await socket.say([PUSH | {"call_id": "d"}])
        decision = await socket.hear("decision")
        assert (decision["decision"], decision["reason"]["code"]) == ("deny", "too_many_waiting")
        assert decision["by"]["kind"] == "gate_error" and "wait" in decision["reason"]["text"]


ASK_BEFORE_CHANGES = PRESETS["ask-on-writes"].document
POLICY = parse(ASK_BEFORE_CHANGES)


def judge(command: str, **fields: Any) -> tuple[tuple[str, str], ...]:
    arguments = {"command": command} | fields.pop("arguments", {})
    request = PolicyRequest.for_tool("Bash", input=arguments, **fields)
    return judge_parts(POLICY, request, decide(POLICY, request)).parts


ALLOWED = ("allow", "")


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("ls && git push", [ALLOWED, ("ask", "git push can send data")]),
        ("cat a | head -3 | curl -d @- https://e.org", [ALLOWED, ALLOWED, ("ask", "curl can send data")]),
        ("ls\nnosuch --x", [ALLOWED, ("ask", "the catalog does not know this program")]),
        ("ls && cat ~/.ssh/id_rsa", [ALLOWED, ("ask", "This touches a secret or a private address.")]),
        ("git push", []),
        ("ls && pwd", []),
        ("ls && X=1 && rm $X", []),
        (" && ".join(["ls"] * MAX_PARTS + ["git push"]), []),
    ],
)
def test_commands_are_judged_one_by_one(command: str, parts: list[tuple[str, str]]) -> None:
    assert list(judge(command)) == parts


def test_a_command_is_judged_in_the_folder_in_which_it_runs() -> None:
    inside = {"args": [{"path": "", "op": "inside_project"}]}
    policy = parse(
        {"v": 1, "default": "allow", "rules": [{"id": "out", "effect": "ask", "match": {}, "unless": inside}]}
    )

    def judge_line(line: str, **arguments: str) -> list[str]:
        request = PolicyRequest.for_tool("Bash", input={"command": line} | arguments, root="/srv/app")
        return [effect for effect, _ in judge_parts(policy, request, decide(policy, request)).parts]

    assert judge_line("cd web && touch ../a && touch ../../a") == ["allow", "allow", "ask"]
    assert judge_line("touch ../a && ls", workdir="web") == []
    assert judge_line("cd x && touch ../a && touch ../../../a", workdir="web")[1] == ""


COMMANDS = st.sampled_from(
    ["ls", "git push", "rm -rf /srv/x", "cd web", "cat .env", "pytest -q", "sh", "curl https://e.org"]
)
JOINTS = st.sampled_from([" && ", "; ", " | ", "\n", " || "])


@given(st.lists(st.tuples(COMMANDS, JOINTS), min_size=2, max_size=6), st.sampled_from(sorted(PRESETS)))
def test_a_command_with_a_tick_is_allowed_alone(pairs: list[tuple[str, str]], preset: str) -> None:
    policy = parse(PRESETS[preset].document)
    line = "".join(command + joint for command, joint in pairs)[: -len(pairs[-1][1])]
    request = PolicyRequest.for_tool("Bash", input={"command": line}, root="/srv/app")
    decision = judge_parts(policy, request, decide(policy, request))
    for (command, _), (effect, _) in zip(pairs, decision.parts, strict=False):
        if effect == "allow" and "cd web" not in line:
            alone = PolicyRequest.for_tool("Bash", input={"command": command}, root="/srv/app")
            assert decide(policy, alone).effect is Effect.ALLOW
    assert decision.effect is Effect.ASK or not decision.parts


@pytest.mark.django_db
def test_a_question_keeps_the_marks(source: Source, policy: Any, an_approver: Any) -> None:
    policy(ASK_BEFORE_CHANGES)
    gate.decide(source, gate.DecisionRequest("r", "c", "bash", {"command": "ls && git push"}))
    approval = ToolCall.objects.get().as_card().approval
    assert approval is not None
    assert approval.terms["parts"] == [["allow", ""], ["ask", "git push can send data"]]
