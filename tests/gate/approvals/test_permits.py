"""What a permit hands out was drawn to a person who approved it, or was allowed by a rule: in every order of events.

A small reference model watches every way in. It knows nothing of cards, routing or facts: only what was asked, what was
drawn, who approved what, and what was handed out.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import strategies as st

from tests.support.effort import draw
from toolcards import gate
from toolcards.adapters import ADAPTERS
from toolcards.client.common.canonical_json import digest
from toolcards.core.calls.card import TERMINAL, Card
from toolcards.gate.agents import results, run_commands
from toolcards.gate.approvals import permits
from toolcards.gate.maintenance import rebuild
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.models import AgentKey, Approval, Run, Source, ToolCall
from toolcards.models.write_guard import allow_log_writes

POLICY = {
    "default": "ask",
    "rules": [
        {"id": "look", "effect": "allow", "match": {"tool": ["lookup"]}},
        {"id": "wipe", "effect": "deny", "match": {"tool": ["wipe"]}},
        {"id": "deploy", "effect": "ask", "match": {"tool": ["deploy"]},
         "ask": {"editable": ["/target"], "grants": ["once", "run"]}},
    ],
}  # fmt: skip
TOOLS = ["lookup", "deploy", "wipe"]
INPUTS: list[Any] = [{"target": "staging"}, {"target": "production"}, {"target": "staging", "n": 1}, "staging"]
CALLS = ["c", "c", "d"]
WAYS_TO_CLAIM = ["right", "other digest", "other call"]
PIECES = ['{"target":', '"staging"}', ' "production"}', "{", "}", "x"]

MORE: dict[str, Any] = {"available": {}, "repaired": {"original": {}, "method": "x"}, "invalid": {"error": "x"}}

calls, tools, inputs = st.sampled_from(CALLS), st.sampled_from(TOOLS), st.sampled_from(INPUTS)
numbers = st.integers(0, 5)
identities = st.one_of(
    st.builds(lambda c, t: {"type": "tool.input.started", "call_id": c, "tool": t}, calls, tools),
    st.builds(lambda c, d: {"type": "tool.input.delta", "call_id": c, "delta": d}, calls, st.sampled_from(PIECES)),
    st.builds(
        lambda kind, c, t, i: {"type": f"tool.input.{kind}", "call_id": c, "tool": t, "input": i} | MORE[kind],
        st.sampled_from(["available", "available", "repaired", "invalid"]), calls, tools, inputs,
    ),
)  # fmt: skip
others = st.one_of(
    st.builds(lambda c: {"type": "approval.requested", "call_id": c, "approval_id": "theirs"}, calls),
    st.builds(lambda c, yes: {"type": "approval.responded", "call_id": c, "approved": yes}, calls, st.booleans()),
    st.builds(lambda c: {"type": "tool.output.partial", "call_id": c, "output": 1}, calls),
    st.builds(lambda c: {"type": "tool.output.available", "call_id": c, "output": 1}, calls),
    st.builds(lambda c: {"type": "tool.output.error", "call_id": c, "error": {"message": "x"}}, calls),
    st.builds(lambda c: {"type": "tool.output.denied", "call_id": c}, calls),
    st.just({"type": "step.started", "step": 2}),
    st.just({"type": "run.started", "agent": "x", "tools": [{"name": "deploy", "input_schema": {"type": "object"}}]}),
    st.just({"type": "run.finished", "outcome": "success"}),
)  # fmt: skip
modes = st.sampled_from(["observe", "observe", "gate"])
people = st.one_of(
    st.tuples(st.just("draw"), numbers),
    st.tuples(st.just("vote"), numbers, st.sampled_from(["approve", "approve", "deny", "edit", "grant"])),
    st.tuples(st.just("undo"), numbers),
    st.tuples(st.just("stop")),
    st.tuples(st.just("clock"), st.sampled_from([1.0, 400.0, 1000.0])),
    st.tuples(st.just("restart")),
)
agents_do = st.one_of(
    st.tuples(st.just("decide"), calls, tools, inputs, st.sampled_from([None, None, 1, 2])),
    st.tuples(st.just("look"), numbers),
    st.tuples(st.just("claim"), numbers, st.sampled_from(WAYS_TO_CLAIM), st.sampled_from("ab")),
    st.tuples(st.just("result"), calls, st.sampled_from(["ok", "error", "aborted"]), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("withdraw"), numbers),
    st.tuples(st.just("end")),
    st.tuples(st.just("revoke key")),
)
steps = st.one_of(
    st.tuples(st.just("frame"), modes, identities), st.tuples(st.just("frame"), modes, others), people, agents_do
)
noise = st.lists(steps, max_size=3)
# The way that a call usually takes, with anything in between: without it few stories come as far as a claim.
way = st.tuples(
    st.tuples(st.just("decide"), st.just("c"), st.sampled_from(["deploy", "deploy", "lookup"]), inputs, st.just(None)),
    st.just(("draw", 0)),
    st.tuples(st.just("vote"), st.just(0), st.sampled_from(["approve", "approve", "edit", "grant"])),
    st.just(("look", 0)),
    st.tuples(st.just("claim"), numbers, st.just("right"), st.just("a")),
    st.tuples(st.just("claim"), numbers, st.just("right"), st.sampled_from("ab")),
)
stories = st.tuples(way, st.tuples(*[noise] * 6)).map(
    lambda parts: [step for main_step, between in zip(*parts, strict=True) for step in (*between, main_step)]
)
Value = tuple[str, str, str]


class Inline(gate.Stream):
    """A stream whose frames are committed here and now."""

    def _enqueue(self) -> None:
        """Wait for `group_commit.commit`."""


def value_of(tool: str, server: str, args: Any) -> Value:
    return tool, server, digest(args)


def drawn_value(card: Card) -> Value:
    return value_of(card.tool.name, card.tool.source, card.shown_input)


@dataclass
class World:
    """A gate, one run, and the model of what may be handed out."""

    source: Source
    key: AgentKey
    person: Any
    run: str
    streams: dict[str, Inline] = field(default_factory=dict)
    ballots: list[tuple[gate.Ballot, Value]] = field(default_factory=list)  # what a person saw, kept for later
    permits: list[dict[str, Any]] = field(default_factory=list)  # decisions that carried one
    approvals: list[str] = field(default_factory=list)
    approved: dict[str, set[Value]] = field(default_factory=dict)  # approval -> what a person said yes to
    claimers: dict[str, str] = field(default_factory=dict)  # permit -> client
    judged_values: dict[int, Value] = field(default_factory=dict)  # card -> what was judged
    revoked: bool = False

    def act(self, step: tuple[Any, ...]) -> None:
        name, *rest = step
        getattr(self, name.replace(" ", "_"))(*rest)
        self.check_cards()

    # ------------------------------------------------------------ ways in

    def frame(self, mode: str, frame: dict[str, Any]) -> None:
        stream = self.streams[mode]
        stream.push(list(ADAPTERS["native"].decode(json.dumps(frame)) or []))
        group_commit.commit([stream])
        assert stream.error is None
        self.keep_decisions(stream._decisions)

    def decide(self, call: str, tool: str, args: Any, attempt: int | None) -> None:
        more = {} if attempt is None else {"attempt": attempt}
        request = gate.DecisionRequest(run=self.run, call_id=call, tool=tool, args=args, key=self.key.pk, **more)
        try:
            decision = gate.decide(self.source, request)
        except gate.RequestRefused:
            return
        if decision["decision"] != "deny":
            assert decision["args_sha256"] == digest(args) or decision["by"]["kind"] == "human"
            assert decision["tool"]["name"] == tool, "one tool was asked about and another one answered for"
            if decision["approval"] is not None:
                row = Approval.objects.select_related("call").get(id=decision["approval"]["id"])
                assert row.call.as_card().tool.name == tool, "the approval is another tool's"
        self.keep_decisions([decision])

    def keep_decisions(self, decisions: list[dict[str, Any]]) -> None:
        for decision in decisions:
            if decision["permit"]:
                self.permits.append(decision)
            if decision["approval"]:
                self.approvals.append(decision["approval"]["id"])

    def draw(self, number: int) -> None:
        """A person looks at a waiting call and keeps the form as it is drawn."""
        rows = list(Approval.objects.waiting().filter(run__name=self.run).select_related("call"))
        if rows:
            row = rows[number % len(rows)]
            card = row.call.as_card()
            ask = card.approval
            assert ask is not None and ask.id == row.id
            ballot = gate.Ballot(approval=row.id, decision="approve", rev=card.rev, args_sha256=ask.args_sha256)
            self.ballots.append((ballot, drawn_value(card)))

    def vote(self, number: int, decision: str) -> None:
        if not self.ballots:
            self.draw(number)
        if not self.ballots:
            return
        ballot, value = self.ballots[number % len(self.ballots)]
        by_name = {name: getattr(ballot, name) for name in gate.Ballot.__slots__}
        if decision == "edit":
            by_name |= {"decision": "edit", "edited_args": {"target": "canary"}}
            value = value_of(value[0], value[1], {"target": "canary"})
        elif decision == "grant":
            by_name |= {"grant": {"kind": "run"}}
        else:
            by_name["decision"] = decision
        try:
            card = gate.vote(self.person, gate.Ballot(**by_name))
        except gate.RequestRefused:
            return
        if by_name["decision"] != "deny":
            assert card.approval is not None
            self.approved.setdefault(card.approval.id, set()).add(value)

    def undo(self, number: int) -> None:
        if self.approvals:
            try:
                gate.revoke_approval(self.person, self.approvals[number % len(self.approvals)])
            except gate.RequestRefused:
                return

    def look(self, number: int) -> None:
        if not self.approvals:
            return
        pk = self.approvals[number % len(self.approvals)]
        work = run_commands.FetchDecision(self.source, pk)
        try:
            decision = group_commit.execute(work)
        except gate.RequestRefused:
            return
        if decision["decision"] == "allow" and Approval.objects.get(id=pk).opener == "gate":
            assert pk in self.approved or decision["by"]["kind"] == "grant", "an approval without a yes reads allow"
        self.keep_decisions([decision])

    def claim(self, number: int, how: str, client: str) -> None:
        if not self.permits:
            return
        decision = self.permits[number % len(self.permits)]
        permit = decision["permit"]["id"]
        body = {"call_id": decision["call_id"], "args_sha256": decision["args_sha256"]}
        if how == "other digest":
            body["args_sha256"] = digest({"target": "elsewhere"})
        elif how == "other call":
            body["call_id"] = "elsewhere"
        row = Approval.objects.select_related("call").get(permit=permit)
        before = row.call.as_card()
        try:
            handed = group_commit.execute(permits.ClaimPermit(self.source, permit, body, client))
        except gate.RequestRefused as refused:
            assert refused.code != "integrity", "the page and the permit are about different bytes"
            return
        if isinstance(handed, gate.RequestRefused):
            return
        assert how == "right"
        assert not before.finished, "a permit worked after the end of its call"
        asked_by_key = row.key_id is not None  # what a frame made of a call was asked for by no key
        assert permit in self.claimers or not (self.revoked and asked_by_key), "a permit outlived its key"
        assert self.claimers.setdefault(permit, client) == client, "a permit worked for two clients"
        value = value_of(before.tool.name, before.tool.source, handed["args"])
        allowed = before.tool.name == "lookup" or self.is_granted(value)
        assert allowed or value in self.approved.get(row.id, set()), "nobody approved what was handed out"
        assert digest(handed["args"]) == handed["args_sha256"] == body["args_sha256"]

    def is_granted(self, value: Value) -> bool:
        return any(value in values for values in self.approved.values())

    def result(self, call: str, outcome: str, attempt: int | None) -> None:
        body = {"outcome": outcome, "output": "x"} | ({} if attempt is None else {"attempt": attempt})
        try:
            group_commit.execute(results.RecordResult(self.source, self.run, call, body))
        except gate.RequestRefused:
            return

    def withdraw(self, number: int) -> None:
        if self.approvals:
            try:
                group_commit.execute(
                    run_commands.WithdrawApproval(self.source, self.approvals[number % len(self.approvals)])
                )
            except gate.RequestRefused:
                return

    def end(self) -> None:
        group_commit.execute(run_commands.EndRun(self.source, self.run, "success", ""))

    def clock(self, seconds: float) -> None:
        """Let that much time pass for what waits and for what may be used."""
        clocks = ("expires_at", "permit_expires_at", "decided_at")
        for row in Approval.objects.filter(run__name=self.run):
            for name in clocks:
                if getattr(row, name):
                    setattr(row, name, getattr(row, name) - seconds)
            with allow_log_writes():
                row.save(update_fields=clocks)
        gate.sweep()

    def restart(self) -> None:
        run_cache.clear()

    def stop(self) -> None:
        gate.set_kill_switch("ann", True, "drill")
        gate.set_kill_switch("ann", False)

    def revoke_key(self) -> None:
        AgentKey.objects.filter(pk=self.key.pk).update(revoked_at="2020-01-01T00:00:00Z")
        self.revoked = True

    # ------------------------------------------------------------ what must hold

    def check_cards(self) -> None:
        calls = {call.pk: call for call in ToolCall.objects.filter(run__name=self.run)}
        rows = list(Approval.objects.filter(run__name=self.run))
        open_questions = Counter(call.call_id for call in calls.values() if call.waiting)
        assert max(open_questions.values(), default=0) <= 1, "two inputs of one call wait for an answer"
        args_sha256 = {row.id: row.args_sha256 for row in rows}
        for call in calls.values():
            card = call.as_card()
            if card.decision is not None:
                self.check_frozen(card)
            if card.waiting and card.approval is not None and card.has_input:
                assert card.approval.args_sha256 == digest(card.shown_input), "the page shows the digest of other bytes"
                assert args_sha256[card.approval.id] == card.approval.args_sha256
        by_permit = {row.permit: row for row in rows}
        for decision in self.permits:
            row = by_permit[decision["permit"]["id"]]
            if row.state == "approved" and calls[row.call_id].state in TERMINAL:
                pytest.fail("a permit lives on after its call")

    def check_frozen(self, card: Card) -> None:
        value = drawn_value(card)
        judged_value = self.judged_values.setdefault(card.ordinal, value)
        edited = card.repair == "edited" and card.original_input is not None
        original_value = value_of(card.tool.name, card.tool.source, card.original_input) if edited else value
        assert judged_value in {original_value, value}, "a judged call changed"


@pytest.fixture
def person(an_approver: Any) -> Any:
    return an_approver


@pytest.mark.slow
@draw(
    200, suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)  # fmt: skip
@example(story=[
    ("decide", "c", "lookup", {"target": "staging"}, None), ("look", 0), ("claim", 0, "right", "a"),
    ("frame", "observe", {"type": "approval.requested", "call_id": "c", "approval_id": "theirs"}),
    ("frame", "observe", {"type": "tool.input.available", "call_id": "c", "tool": "deploy", "input": {"target": "x"}}),
])  # fmt: skip
@example(story=[  # the call that was seen first is the one that is asked about, though another one came in between
    ("frame", "observe", {"type": "tool.input.available", "call_id": "c", "tool": "deploy", "input": {"target": "x"}}),
    ("decide", "c", "lookup", {"target": "x"}, None), ("decide", "c", "deploy", {"target": "x"}, None),
])  # fmt: skip
@given(story=stories)
def test_a_permit_hands_out_what_was_approved_and_once(
    db: None, key: AgentKey, policy: Any, person: Any, story: list[Any]
) -> None:
    play(key, policy, person, story)


_played = iter(range(10**9))


def play(key: AgentKey, policy: Any, person: Any, story: list[Any]) -> World:
    """Play the story in a run of its own, checking after every step; return the world."""
    run_cache.clear()
    if not gate.get_active_version_number():
        policy(POLICY)
    AgentKey.objects.filter(pk=key.pk).update(revoked_at=None)
    world = World(key.source, key, person, f"r{next(_played)}")
    loop = asyncio.new_event_loop()

    async def connect() -> None:
        for mode in ("observe", "gate"):
            world.streams[mode] = Inline(key.source, world.run, protocol="native", mode=mode, channel="http")

    try:
        loop.run_until_complete(connect())
        world.frame("observe", {"type": "run.started", "agent": "bot"})
        for step in story:
            world.act(step)
        for run in Run.objects.filter(name=world.run):
            assert not list(rebuild.find_differences(run))
    finally:
        loop.close()
    return world
