"""Each command of a line that asks has a mark: allowed alone, or why it needs a person."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcards import gate
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate.questions.command_parts import MAX_PARTS, judge_parts
from toolcards.models import Source, ToolCall

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
