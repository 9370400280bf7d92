"""Calls that wait for the answer to their twin: what an answer does, and that it runs one call, in any order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from tests.support.effort import draw
from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.gate.agents import results, run_commands
from toolcards.gate.approvals.permits import ClaimPermit, has_expired_unused
from toolcards.gate.maintenance import rebuild
from toolcards.gate.twins.settlement import GRACE, find_settled_twins
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.models import AgentKey, Approval, Run, Source, ToolCall
from toolcards.models.write_guard import allow_event_changes, allow_log_writes

pytestmark = pytest.mark.django_db
ARGS = {"branch": "main"}
ASK = {"id": "push", "effect": "ask", "match": {"tool": ["push"]}}


@pytest.fixture(autouse=True)
def _rules(policy: Any, an_approver: Any) -> None:
    policy({"default": "allow", "rules": [ASK | {"ask": {"editable": ["/branch"]}}]})


def ask(source: Source, call: str, run: str = "r", **more: Any) -> dict[str, Any]:
    return gate.decide(
        source, gate.DecisionRequest(run=run, call_id=call, tool="push", args=ARGS, **({"place": "here"} | more))
    )


def fetch(source: Source, decision: dict[str, Any]) -> dict[str, Any]:
    return dict(group_commit.execute(run_commands.FetchDecision(source, decision["approval"]["id"])))


def claim(source: Source, decision: dict[str, Any]) -> Any:
    body = {"call_id": decision["call_id"], "args_sha256": decision["args_sha256"]}
    answer = group_commit.execute(ClaimPermit(source, decision["permit"]["id"], body, decision["call_id"]))
    assert not isinstance(answer, gate.RequestRefused), answer
    return answer


def vote(person: Any, answer: str = "approve", **more: Any) -> None:
    row = Approval.objects.waiting().get()
    card = row.call.as_card()
    gate.vote(person, gate.Ballot(row.id, answer, card.rev, card.approval.args_sha256, **more))


def pass_time(seconds: float, **which: Any) -> None:
    """Let that much time pass for what waits and for what may be used."""
    clocks = ("expires_at", "permit_expires_at", "decided_at")
    for row in Approval.objects.filter(**which):
        for name in clocks:
            setattr(row, name, max(0.0, getattr(row, name) - seconds))
        with allow_log_writes():
            row.save(update_fields=clocks)
    gate.sweep()


def test_the_next_session_of_a_killed_agent_waits_for_the_same_question(source: Source, an_approver: Any) -> None:
    first = ask(source, "c1", "session 1")
    again = ask(source, "c2", "session 2")
    assert again["decision"] == "ask" and again["approval"]["twin"] == first["approval"]["id"]
    assert Approval.objects.waiting().count() == 1
    vote(an_approver, reason="go")
    assert fetch(source, again)["decision"] == "ask", "the agent that asked first comes first"
    pass_time(GRACE)
    answer = fetch(source, again)
    assert (answer["decision"], answer["by"]["name"]) == ("allow", "ann")
    claim(source, answer)
    assert fetch(source, first)["reason"]["code"] == "superseded" and Approval.objects.waiting().count() == 0
    approved = AuditRow.objects.get(act="approval.approved", approval=again["approval"]["id"])
    assert (approved.details["reason"], approved.details["twin"]) == ("go", first["approval"]["id"])


def test_a_call_that_was_approved_and_not_run_is_not_asked_about_twice(source: Source, an_approver: Any) -> None:
    first = ask(source, "c1", "session 1")
    vote(an_approver)
    late = fetch(source, first)
    pass_time(60)
    again = ask(source, "c2", "session 2")
    assert again["decision"] == "allow" and claim(source, again)["args"] == ARGS
    with pytest.raises(gate.TooLate):
        claim(source, late)


def test_the_permit_of_a_twin_lasts_no_longer(source: Source, an_approver: Any) -> None:
    ask(source, "c1", "session 1")
    vote(an_approver)
    pass_time(299)
    again = ask(source, "c2", "session 2")
    pass_time(2)
    with pytest.raises(gate.TooLate, match="expired"):
        claim(source, again)


def test_of_two_calls_at_once_one_runs_and_the_other_is_asked_about_then(source: Source, an_approver: Any) -> None:
    first, second, third = (ask(source, call) for call in ("c1", "c2", "c3"))
    vote(an_approver)
    claim(source, fetch(source, first))
    gate.sweep()
    waiting = Approval.objects.waiting().get()
    assert waiting.id == second["approval"]["id"] and Approval.objects.attached().get().id == third["approval"]["id"]
    vote(an_approver)
    claim(source, fetch(source, second))
    gate.sweep()
    vote(an_approver, "deny")
    assert fetch(source, third)["decision"] == "deny"


def test_a_denial_answers_all_of_them(source: Source, an_approver: Any) -> None:
    decisions = [ask(source, call) for call in ("c1", "c2", "c3")]
    vote(an_approver, "deny", reason="not on a Friday")
    gate.sweep()
    for decision in decisions:
        answer = fetch(source, decision)
        assert (answer["decision"], answer["by"]["name"]) == ("deny", "ann") and "Friday" in answer["reason"]["text"]


def test_what_a_person_changed_runs_changed(source: Source, an_approver: Any) -> None:
    ask(source, "c1", "session 1")
    again = ask(source, "c2", "session 2")
    vote(an_approver, "edit", edited_args={"branch": "dev"})
    pass_time(GRACE)
    answer = fetch(source, again)
    assert answer["args"] == {"branch": "dev"} and claim(source, answer)["args"] == {"branch": "dev"}


@pytest.mark.parametrize("how", ["withdrawn", "expired", "removed"])
def test_a_call_whose_twin_went_is_asked_about_with_its_whole_time(source: Source, how: str) -> None:
    first, again = ask(source, "c1", "session 1"), ask(source, "c2", "session 2")
    if how == "withdrawn":
        group_commit.execute(run_commands.WithdrawApproval(source, first["approval"]["id"]))
    elif how == "removed":
        with allow_log_writes(), allow_event_changes():
            Run.objects.filter(name="session 1").delete()
        run_cache.clear()
    pass_time(901, run__name="session 1")
    gate.sweep()
    row = Approval.objects.waiting().get()
    assert row.id == again["approval"]["id"] and not row.is_overdue(row.expires_at - row.clock_offset - 890)
    assert fetch(source, again)["approval"]["twin"] is None


@pytest.mark.parametrize(("effect", "answer"), [("deny", "deny"), ("allow", "allow")])
def test_policy_judges_again_before_it_asks(source: Source, policy: Any, effect: str, answer: str) -> None:
    first, again = ask(source, "c1"), ask(source, "c2")
    policy({"default": "ask", "rules": [ASK | {"effect": effect}]})
    group_commit.execute(run_commands.WithdrawApproval(source, first["approval"]["id"]))
    gate.sweep()
    assert fetch(source, again)["decision"] == answer


def test_the_kill_switch_stops_them_all(source: Source) -> None:
    decisions = [ask(source, call) for call in ("c1", "c2")]
    gate.set_kill_switch("ann", True)
    assert {fetch(source, decision)["by"]["kind"] for decision in decisions} == {"kill_switch"}


def test_an_approval_of_a_person_who_may_not_vote_anymore_moves_to_no_other_call(
    source: Source, an_approver: Any
) -> None:
    ask(source, "c1")
    again = ask(source, "c2")
    vote(an_approver)
    an_approver.groups.clear()
    pass_time(GRACE)
    assert fetch(source, again)["decision"] == "ask"


def test_an_approval_asked_for_with_a_revoked_key_moves_to_no_other_call(
    source: Source, key: AgentKey, an_approver: Any
) -> None:
    ask(source, "c1", key=key.pk)
    again = ask(source, "c2")
    vote(an_approver)
    AgentKey.objects.filter(pk=key.pk).update(revoked_at="2020-01-01T00:00:00Z")
    pass_time(GRACE)
    assert fetch(source, again)["decision"] == "ask"


def test_while_an_approval_can_be_undone_it_stays_where_it_is(source: Source, an_approver: Any, limits: Any) -> None:
    limits(handover_seconds=30)
    first, again = ask(source, "c1"), ask(source, "c2")
    vote(an_approver)
    pass_time(GRACE + 20)
    assert fetch(source, again)["decision"] == "ask"
    gate.revoke_approval(an_approver, first["approval"]["id"])
    gate.sweep()
    assert Approval.objects.waiting().get().id == again["approval"]["id"]


def test_a_person_answers_the_question_and_not_its_twin(source: Source, an_approver: Any, ballot: Any) -> None:
    ask(source, "c1")
    ask(source, "c2")
    with pytest.raises(gate.CallChanged, match="asked about already"):
        gate.vote(an_approver, ballot(ToolCall.objects.get(call_id="c2"), "approve"))


# ---------------------------------------------------------------- any order, against a small model


@dataclass
class Client:
    """A client that asks for one call at a time, and forgets all of it when it is killed."""

    name: str
    lives: int = 0
    calls: int = 0
    decision: dict[str, Any] | None = None

    @property
    def run(self) -> str:
        return f"{self.name} {self.lives}"


@dataclass
class World:
    """Clients that make the same call, a person, and the model: an approval runs one call."""

    source: Source
    person: Any
    place: str
    clients: list[Client] = field(default_factory=list)
    permits: list[dict[str, Any]] = field(default_factory=list)  # decisions with a permit, also of killed clients
    approvals: int = 0
    runs: int = 0

    def __post_init__(self) -> None:
        self.clients = [Client(f"{self.place} {name}") for name in "abc"]

    @property
    def waiting(self) -> list[Approval]:
        return list(Approval.objects.waiting().filter(place=self.place).select_related("call"))

    def act(self, name: str, number: int) -> None:
        getattr(self, name)(self.clients[number % len(self.clients)], number)
        assert self.runs <= self.approvals, "more calls ran than were approved"

    def ask(self, client: Client, number: int) -> None:
        """Ask; a client that has a question asks again under the same id."""
        if client.decision is None or client.decision["decision"] != "ask":
            client.calls += 1
        rows, unused = self.waiting, self.find_unused()
        client.decision = ask(self.source, f"c{client.calls}", client.run, place=self.place)
        if unused and client.decision["decision"] == "ask":
            assert not self.waiting, "an approved call that has not run is asked about again"
        assert len(self.waiting) <= max(1, len(rows)), "one call is two questions"
        self.keep(client.decision)

    def find_unused(self) -> list[Approval]:
        rows = Approval.objects.filter(place=self.place, state="approved", claimed_at=0)
        return [row for row in rows if not has_expired_unused(row, group_commit.Transaction(0).working)]

    def poll(self, client: Client, number: int) -> None:
        if client.decision is not None:
            client.decision = fetch(self.source, client.decision)
            self.keep(client.decision)

    def keep(self, decision: dict[str, Any]) -> None:
        if decision["permit"]:
            assert self.approvals, "a permit without an approval"
            self.permits.append(decision)

    def claim(self, client: Client, number: int) -> None:
        if not self.permits:
            return
        decision = self.permits[number % len(self.permits)]
        row = Approval.objects.get(permit=decision["permit"]["id"])
        try:
            claim(self.source, decision)
        except gate.RequestRefused:
            return
        self.runs += not row.claimed_at

    def finish(self, client: Client, number: int) -> None:
        if client.decision is None:
            return
        body = {"outcome": "ok", "output": 1}
        try:
            group_commit.execute(results.RecordResult(self.source, client.run, client.decision["call_id"], body))
        except gate.RequestRefused:
            return

    def withdraw(self, client: Client, number: int) -> None:
        if client.decision is None or not client.decision["approval"]:
            return
        try:
            group_commit.execute(run_commands.WithdrawApproval(self.source, client.decision["approval"]["id"]))
        except gate.RequestRefused:
            return

    def kill(self, client: Client, number: int) -> None:
        client.lives, client.decision = client.lives + 1, None

    def approve(self, client: Client, number: int) -> None:
        self.answer("approve", number)

    def deny(self, client: Client, number: int) -> None:
        self.answer("deny", number)

    def answer(self, answer: str, number: int) -> None:
        for row in self.waiting[:1]:
            card = row.call.as_card()
            gate.vote(self.person, gate.Ballot(row.id, answer, card.rev, card.approval.args_sha256))
            self.approvals += answer == "approve"

    def undo(self, client: Client, number: int) -> None:
        rows = Approval.objects.filter(place=self.place, state="approved", claimed_at=0)
        for row in rows[:1]:
            try:
                gate.revoke_approval(self.person, row.id)
            except gate.RequestRefused:
                return
            self.approvals -= 1

    def pause(self, client: Client, number: int) -> None:
        pass_time([0.0, 3.0, 400.0, 1000.0][number % 4], place=self.place)
        assert len(self.waiting) <= 1

    def restart(self, client: Client, number: int) -> None:
        run_cache.clear()

    def end(self) -> None:
        """Let all limits pass, several times: a twin can be the question after another one."""
        for _ in range(8):
            pass_time(1000.0, place=self.place)
        assert not Approval.objects.attached().filter(place=self.place), "a call waits for ever"
        assert not find_settled_twins()
        faults = [
            fault for run in Run.objects.filter(name__startswith=self.place) for fault in rebuild.find_differences(run)
        ]
        assert not faults


ACTS = ["ask", "ask", "ask", "poll", "poll", "claim", "claim", "approve", "approve", "deny", "kill", "withdraw"]
steps = st.tuples(st.sampled_from([*ACTS, "finish", "undo", "pause", "pause", "restart"]), st.integers(0, 5))
_places = iter(range(10**9))


@pytest.mark.slow
@draw(120, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(steps, min_size=4, max_size=24))
@example([("ask", 0), ("kill", 0), ("ask", 0), ("approve", 0), ("pause", 1), ("poll", 0), ("claim", 0), ("claim", 0)])
@example([("ask", 0), ("ask", 1), ("approve", 0), ("poll", 0), ("pause", 1), ("poll", 1), ("claim", 0), ("claim", 1)])
@example([("ask", 0), ("ask", 1), ("approve", 0), ("poll", 0), ("claim", 0), ("ask", 2), ("pause", 0), ("approve", 0)])
def test_one_approval_runs_one_call_in_any_order(source: Source, an_approver: Any, acts: list[tuple[str, int]]) -> None:
    world = World(source, an_approver, f"place {next(_places)}")
    for name, number in acts:
        world.act(name, number)
    world.end()
