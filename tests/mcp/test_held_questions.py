"""A question outlives its request: the same call again gets the answer, once, and no other call does."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import gating
from tests.support.fake_gate import Answer, Gate, plain
from tests.support.server import PATIENCE, Server, until
from tests.support.voter import Voter
from toolcards.client import Toolcards
from toolcards.mcp.session import Session

SHORT = 0.1  # seconds after which a request answers that the agent asks again


class Person:
    """Says which questions of the fake gate wait, and how the others were answered."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}  # by approval: allow or deny
        self.away = False

    def tamper(self, stage: str, honest: Any) -> Answer | None:
        if self.away:
            return Answer([], close=True)
        approval = (honest.get("approval") or {}).get("id", "")
        if stage not in {"decide", "poll"} or not approval:
            return None
        effect = self.answers.get(approval, "ask")
        permit = {"id": f"prm_{approval.removeprefix('apr_')}"} if effect == "allow" else None
        return plain(honest | {"decision": effect, "permit": permit})


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.fixture
def gate(person: Person) -> Iterator[Gate]:
    with Gate({"read": "allow", "mail": "ask", "post": "ask"}, tamper=person.tamper) as running:
        yield running


numbers = itertools.count(1)


def begin(gate: Gate, seconds: float = SHORT) -> Session:
    return Session(Toolcards(gate.url, "key", timeout=PATIENCE), server="files", answer_within=seconds)


@pytest.fixture
def session(gate: Gate) -> Iterator[Session]:
    created = begin(gate)
    yield created
    created.end()


def call(session: Session, tool: str = "mail", args: Any = None) -> str:
    """Return `runs`, or the code of the answer."""
    number = next(numbers)
    params = {"name": tool, "arguments": {} if args is None else args}
    request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    request_call = session.begin_call(request)
    assert request_call is not None
    result = session.decide(request_call, request)
    if result.request is not None:
        session.note_message({"jsonrpc": "2.0", "id": number, "result": {"content": []}})
        return "runs"
    assert result.answer is not None
    return str(result.answer["result"]["_meta"]["toolcards"]["code"])


def test_a_call_that_waits_too_long_says_that_the_same_call_gets_the_answer(session: Session, gate: Gate) -> None:
    request = {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "mail", "arguments": {}}}
    request_call = session.begin_call(request)
    assert request_call is not None
    answer = session.decide(request_call, request).answer
    assert answer is not None and answer["result"]["isError"]
    text = answer["result"]["content"][0]["text"]
    assert "apr_1" in text and "call the same tool again with exactly the same arguments" in text
    assert not {"withdraw", "claim", "result"} & set(gate.stages())


def test_the_same_call_gets_the_approval_that_came_between_and_runs_once(
    session: Session, gate: Gate, person: Person
) -> None:
    assert [call(session), call(session)] == ["waiting", "waiting"] and len(gate.calls) == 1
    person.answers["apr_1"] = "allow"
    assert call(session) == "runs" and gate.stages().count("claim") == 1
    assert call(session) == "waiting" and [each.approval for each in gate.calls] == ["apr_1", "apr_2"]


def test_the_same_call_gets_the_denial_and_the_next_one_is_a_new_question(
    session: Session, gate: Gate, person: Person
) -> None:
    assert call(session) == "waiting"
    person.answers["apr_1"] = "deny"
    assert call(session) == "rule_ask" and "claim" not in gate.stages()
    assert call(session) == "waiting" and len(gate.calls) == 2


@pytest.mark.parametrize(
    ("tool", "args"), [("mail", {"to": "b"}), ("post", {"to": "a"}), ("mail", {"to": "a", "x": None})]
)
def test_a_changed_call_is_a_new_question(session: Session, gate: Gate, person: Person, tool: str, args: Any) -> None:
    assert call(session, "mail", {"to": "a"}) == "waiting"
    person.answers["apr_1"] = "allow"
    assert call(session, tool, args) == "waiting" and len(gate.calls) == 2 and "claim" not in gate.stages()


def test_another_session_gets_no_answer_of_this_one(session: Session, gate: Gate, person: Person) -> None:
    assert call(session) == "waiting"
    person.answers["apr_1"] = "allow"
    other = begin(gate)
    assert call(other) == "waiting" and len(gate.calls) == 2
    other.end()


def test_a_gate_that_is_away_keeps_the_question_for_a_later_call(session: Session, gate: Gate, person: Person) -> None:
    assert call(session) == "waiting"
    person.answers["apr_1"], person.away = "allow", True
    assert call(session) == "gate_error"
    person.away = False
    assert call(session) == "runs" and len(gate.calls) == 1


def test_the_end_of_the_session_withdraws_what_waits(gate: Gate) -> None:
    session = begin(gate)
    assert call(session) == "waiting"
    session.end()
    assert "withdraw" in gate.stages()


def run_at_once(count: int, do: Callable[[], str]) -> tuple[list[threading.Thread], list[str]]:
    results: list[str] = []
    threads = [threading.Thread(target=lambda: results.append(do())) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, results


def test_twins_share_one_question_and_one_approval_runs_one_of_them(gate: Gate, person: Person) -> None:
    session = begin(gate, 0)
    threads, results = run_at_once(3, lambda: call(session))
    until(lambda: gate.stages().count("decide") == 3)
    until(lambda: gate.stages().count("poll") >= 3)
    assert len(gate.calls) == 1
    person.answers["apr_1"] = "allow"
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(results) == ["runs", "used", "used"] and gate.stages().count("claim") == 1
    session.end()


def test_a_canceled_twin_leaves_the_question_to_the_other(gate: Gate, person: Person) -> None:
    session = begin(gate, 0)
    threads, results = run_at_once(1, lambda: call(session))
    until(lambda: "poll" in gate.stages())
    request = {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "mail", "arguments": {}}}
    request_call = session.begin_call(request)
    assert request_call is not None
    request_call.cancel()
    assert session.decide(request_call, request).answer is None and "withdraw" not in gate.stages()
    person.answers["apr_1"] = "allow"
    threads[0].join(PATIENCE)
    assert results == ["runs"]
    session.end()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.sampled_from(["mail", "post", "read"]), st.sampled_from([1, 1.0, 2, "1"])),
        st.tuples(st.sampled_from(["allow", "deny"]), st.integers(1, 4)),
        st.tuples(st.just("race"), st.sampled_from(["mail", "post"]), st.just(1)),
    ),
    max_size=8,
)


@pytest.mark.slow
@given(steps=STEPS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_each_approval_runs_its_own_call_at_most_once_in_any_order_of_answers_and_calls(steps: list[Any]) -> None:
    person = Person()
    with Gate({"read": "allow", "mail": "ask", "post": "ask"}, tamper=person.tamper) as gate:
        session = begin(gate, 0.02)
        for step, *rest in steps:
            if step in {"allow", "deny"}:
                person.answers.setdefault(f"apr_{rest[0]}", step)
                continue
            tool, value = rest
            earlier = {each.approval for each in gate.calls}
            claims = gate.stages().count("claim")
            if step == "race":
                threads, results = run_at_once(2, lambda tool=tool, value=value: call(session, tool, {"n": value}))  # type: ignore[misc]
                for thread in threads:
                    thread.join(PATIENCE)
            else:
                results = [call(session, tool, {"n": value})]
            for each in gate.calls:
                if each.approval and each.claim_holder:
                    assert person.answers.get(each.approval) == "allow"
            asked_runs = results.count("runs") if tool != "read" else 0
            approved = [each for each in gate.calls if person.answers.get(each.approval) == "allow"]
            assert asked_runs <= gate.stages().count("claim") - claims
            assert asked_runs <= sum((each.tool, each.args) == (tool, {"n": value}) for each in approved)
            assert tool != "read" or results == ["runs"]
            assert len({each.approval for each in gate.calls} - earlier) <= 1 + (step == "race")
        session.end()


def build_policy(effect: str) -> dict[str, Any]:
    return {"v": 1, "default": "allow", "rules": [{"id": "mail", "effect": effect, "match": {"tool": ["mail"]}}]}


@pytest.mark.slow
def test_an_answer_survives_a_kill_of_the_server_and_a_policy_that_denies_meanwhile_wins(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        gating.activate(server, build_policy("ask"))
        session = Session(Toolcards(server.base, server.key, timeout=PATIENCE), server="files", answer_within=SHORT)
        assert call(session, "mail", {"to": "a"}) == "waiting"
        gating.vote(server, session.run, "approve")
        server.kill()
        assert call(session, "mail", {"to": "a"}) == "gate_error"
        server.start()
        assert until(lambda: (code := call(session, "mail", {"to": "a"})) != "waiting" and code) == "runs"
        (card,) = until(lambda: [c for c in gating.calls(server, session.run).values() if "output" in c["state"]])
        assert card["approval"]["state"] == "succeeded" and len(gating.calls(server, session.run)) == 1
        assert call(session, "mail", {"to": "a"}) == "waiting"
        gating.vote(server, session.run, "approve")
        gating.activate(server, build_policy("deny"))
        assert until(lambda: (code := call(session, "mail", {"to": "a"})) != "waiting" and code) != "runs"
        session.end()


# ---------------------------------------------------------------- with a real server


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Server]:
    """A server that asks about `mail`."""
    with Server(tmp_path) as server:
        gating.activate(server, build_policy("ask"))
        yield server


def begin_at(server: Server, place: str = "here", seconds: float = SHORT) -> Session:
    cards = Toolcards(server.base, server.key, timeout=PATIENCE)
    return Session(cards, server="files", agent="bot", answer_within=seconds, place=place)


def list_waiting(server: Server) -> list[str]:
    return [row["run"] for row in server.request("GET", "/api/v1/approvals?state=waiting")[1]["approvals"]]


@pytest.mark.slow
def test_the_question_of_a_killed_gateway_is_answered_for_its_next_session(stage: Server) -> None:
    killed, following, elsewhere = begin_at(stage), begin_at(stage), begin_at(stage, "there")
    assert call(killed, "mail", {"to": "a"}) == "waiting"  # and it never comes back
    assert call(following, "mail", {"to": "a"}) == "waiting"
    assert list_waiting(stage) == [killed.run]
    page = Voter(stage).get("/approvals/")
    assert "After 0 s, the agent asks again by itself" in page
    assert call(elsewhere, "mail", {"to": "a"}) == "waiting"
    assert list_waiting(stage) == [killed.run, elsewhere.run], "another folder is another question"
    gating.vote(stage, killed.run, "approve")
    assert until(lambda: (code := call(following, "mail", {"to": "a"})) != "waiting" and code) == "runs"
    assert call(killed, "mail", {"to": "a"}) == "superseded" and list_waiting(stage) == [elsewhere.run]
    for session in (killed, following, elsewhere):
        session.end()


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["decide_ttl", "use_ttl"])
def test_what_expires_between_a_call_and_its_retry_runs_nothing(stage: Server, limit: str) -> None:
    rule = build_policy("ask")["rules"][0]
    gating.activate(stage, {"v": 1, "default": "allow", "rules": [rule | {"ask": {limit: "1s"}}]})
    session = begin_at(stage)
    assert call(session, "mail", {"to": "a"}) == "waiting"
    if limit == "use_ttl":
        gating.vote(stage, session.run, "approve")
    until(lambda: [c for c in gating.calls(stage, session.run).values() if c["approval"]["state"] == "expired"])
    code = call(session, "mail", {"to": "a"})
    assert code == ("approval_expired" if limit == "decide_ttl" else "waiting"), code
    session.end()


@pytest.mark.slow
def test_of_retries_that_race_one_runs(stage: Server) -> None:
    first, second = begin_at(stage, seconds=PATIENCE), begin_at(stage, seconds=PATIENCE)
    threads, results = run_at_once(3, lambda: call(first, "mail", {"to": "a"}))
    more, more_results = run_at_once(3, lambda: call(second, "mail", {"to": "a"}))
    until(lambda: len(gating.calls(stage, first.run)) == 1 and len(gating.calls(stage, second.run)) == 1)
    approvals = 0
    while any(thread.is_alive() for thread in (*threads, *more)):
        for run in list_waiting(stage)[:1]:
            gating.vote(stage, run, "approve")
            approvals += 1
        assert [*results, *more_results].count("runs") <= approvals
    assert sorted([*results, *more_results]) == ["runs", "runs", "used", "used", "used", "used"] and approvals == 2
    first.end()
    second.end()
