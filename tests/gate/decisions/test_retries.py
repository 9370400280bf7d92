"""A refused call that a person lets try again: the same call of the same agent, once, and never against policy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gate_commands import RecordFacts
from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.core.calls import facts as f
from toolcards.gate.decisions.evaluation import evaluate_call
from toolcards.gate.writer import group_commit
from toolcards.models import Source, ToolCall

pytestmark = pytest.mark.django_db
OPEN = {"v": 1, "default": "allow", "rules": []}
HOST = f.Actor("host", "Claude Code")


class JudgeCall(RecordFacts):
    """A call of a hook is judged; then its own reviewer may refuse it."""

    def __init__(self, source: Source, ready: f.InputReady, refusal: f.OutputDenied | None) -> None:
        super().__init__(source, "r", [ready])
        self.ready, self.refusal = ready, refusal

    def apply(self, tx: Any) -> None:
        super().apply(tx)
        memory = tx.load_run(self.answer)
        card = memory.board.find(self.ready.call_id)
        evaluate_call(tx, memory, card, channel="hook", now=tx.now)
        if self.refusal:
            tx.record(memory, self.refusal)


@pytest.fixture
def call(source: Source) -> Any:
    """Give `call(id, command)`: a call of a hook, as its card."""

    def judge(
        call_id: str, command: str = "git push", *, tool: str = "Bash", is_refused: bool = False, **more: Any
    ) -> Any:
        ready = f.InputReady(call_id, tool, {"command": command}, True, **more)
        group_commit.execute(JudgeCall(source, ready, f.OutputDenied(call_id, "risky", HOST) if is_refused else None))
        return ToolCall.objects.get(call_id=call_id).as_card()

    return judge


def answer(person: Any, *, may_retry: bool = True, call_id: str = "c1") -> Any:
    row = ToolCall.objects.get(call_id=call_id)
    return gate.answer_refusal(person, gate.RefusalAnswer(row.run_id, row.ordinal, may_retry, row.rev))


def test_the_same_call_runs_once_by_the_person_who_let_it_try_again(call: Any, policy: Any, an_approver: Any) -> None:
    policy(OPEN)
    assert call("c1", is_refused=True).denied_by == HOST
    assert answer(an_approver).retry == "granted"
    again, twice = call("c2").decision, call("c3").decision
    assert (again.effect, again.code, again.by) == ("allow", "retry", f.Actor("human", "ann"))
    assert (twice.effect, twice.by.kind) == ("allow", "default")
    assert ToolCall.objects.get(call_id="c1").as_card().retry == "used"
    assert AuditRow.objects.filter(act="retry.granted").count() == 1


@pytest.mark.parametrize("change", [
    {"command": "git push --force-with-lease"}, {"tool": "bash2"}, {"folder": "/elsewhere"}, {"source": "server"},
])  # fmt: skip
def test_another_call_does_not_use_the_retry(call: Any, policy: Any, an_approver: Any, change: Any) -> None:
    policy(OPEN)
    call("c1", is_refused=True)
    answer(an_approver)
    assert call("c2", **change).decision.by.kind == "default"
    assert ToolCall.objects.get(call_id="c1").as_card().retry == "granted"


@pytest.mark.parametrize("effect", ["deny", "ask"])
def test_a_retry_loosens_no_policy(call: Any, policy: Any, an_approver: Any, effect: str) -> None:
    policy(OPEN)
    call("c1", is_refused=True)
    answer(an_approver)
    policy(OPEN | {"rules": [{"id": "r", "effect": effect, "match": {"tool": ["Bash"]}}]})
    assert call("c2").decision.effect == effect


def test_a_retry_loosens_no_kill_switch(call: Any, policy: Any, an_approver: Any) -> None:
    policy(OPEN)
    call("c1", is_refused=True)
    answer(an_approver)
    gate.set_kill_switch("ann", True)
    assert (call("c2").decision.effect, call("c2").decision.code) == ("deny", "kill_switch")


def test_a_dismissed_refusal_changes_nothing(call: Any, policy: Any, an_approver: Any) -> None:
    policy(OPEN)
    call("c1", is_refused=True)
    assert answer(an_approver, may_retry=False).retry == "dismissed"
    assert call("c2").decision.by.kind == "default"
