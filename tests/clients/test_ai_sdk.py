"""The real AI SDK, 7.0.173 and 6.0.326, with our module: its server, its own chat client, a scripted model."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import npm
from tests.clients.nodeapp import ZOD, App
from tests.support import gating
from tests.support.server import Server, until
from tests.support.silent_server import Hole

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
VERSIONS = {"7": "7.0.173", "6": "6.0.326"}
Starts = Callable[..., App]


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="shell", field="/command"))
        yield running


@pytest.fixture
def run() -> str:
    return f"chat-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def app(version: str, server: Server, run: str, tmp_path: Path) -> Iterator[Starts]:
    """Give `app(scenario, gate=…, answers=…, abort=…)`: a chat that has begun."""
    modules = npm.installed(f"ai-sdk-{version}", ai=VERSIONS[version], zod=ZOD)
    created = App(modules, "ai_sdk.mjs", tmp_path)

    def start(scenario: str, **options: Any) -> App:
        return created.start(scenario, **({"url": server.base, "key": server.key, "run": run, "watch": True} | options))

    yield start
    created.stop()


@pytest.fixture
def only(version: str) -> Callable[[str], None]:
    def skip(of: str) -> None:
        if of != version:
            pytest.skip(f"of version {of}")

    return skip


def await_states(server: Server, run: str, *states: str) -> dict[str, Any]:
    """The run's calls, once they are in these states: the copy may be a moment behind the chat."""

    def look() -> Any:
        cards = gating.calls(server, run)
        return cards if [card["state"] for card in cards.values()] == list(states) else None

    cards: dict[str, Any] = until(look)
    assert [card["anomalies"] for card in cards.values()] == [[]] * len(cards)
    return cards


def await_state(server: Server, run: str, state: str) -> None:
    """Wait until the run's only call is in this state."""
    until(lambda: [card["state"] for card in gating.calls(server, run).values()] == [state])


def text(payload: dict[str, Any], call: str) -> str:
    """What the model read of the call."""
    return str(payload["saw"].get(call, {}))


# ---------------------------------------------------------------- watching


def test_a_success(server: Server, app: Starts, run: str) -> None:
    result = app("success").finish()
    card = await_states(server, run, "output-available")["call_ok"]
    assert (card["input"], card["output"]) == ({"city": "Paris"}, {"city": "Paris", "temp": 21})
    assert until(lambda: server.get(f"/api/v1/runs/{run}")["status"] == "finished")
    assert result["ran"] == [["weather", {"city": "Paris"}]]


@pytest.mark.parametrize(
    ("scenario", "call", "message"),
    [
        ("error", "call_err", "disk on fire"),
        ("empty-error", "call_empty", ""),
        ("unknown", "call_u", "no_such_tool"),
        ("invalid", "call_i", "Invalid input"),
        ("broken", "call_b", "JSON parsing failed"),
    ],
)
def test_failures(server: Server, app: Starts, run: str, version: str, scenario: str, call: str, message: str) -> None:
    result = app(scenario).finish()
    card = await_states(server, run, "output-error")[call]
    # Version 6 masks every error on its stream; the model reads the real one.
    assert (message if version == "7" else "An error occurred.") in card["error"]["message"]
    assert message in text(result, call)


def test_parallel_calls_end_each_in_its_own_way(server: Server, app: Starts, run: str) -> None:
    app("parallel").finish()
    await_states(server, run, "output-available", "output-error", "output-available")


def test_one_id_in_two_steps_is_two_calls(server: Server, app: Starts, run: str) -> None:
    app("again").finish()
    until(lambda: server.get(f"/api/v1/runs/{run}")["status"] == "finished")
    calls = server.get(f"/api/v1/runs/{run}/calls")["calls"]
    assert [call["input"]["city"] for call in calls] == ["A", "B"]


@pytest.mark.parametrize("options", [{}, {"second": True}, {"keeper": True}], ids=["left", "second", "kept"])
def test_a_resumed_stream_doubles_nothing(server: Server, app: Starts, run: str, options: dict[str, bool]) -> None:
    """A page is closed during a run and opened again, or opened twice. The read or stored stream is observed."""
    result = app("resume", **options).finish()
    cards = await_states(server, run, "output-available", "output-available", "output-available")
    assert list(cards) == ["call_r1", "call_r2", "call_r3"] and len(result["ran"]) == 3
    assert [json.loads(card["input_text"]) for card in cards.values()] == [card["input"] for card in cards.values()]
    until(lambda: server.get(f"/api/v1/runs/{run}")["status"] == "finished")
    assert len(server.get(f"/api/v1/runs/{run}/calls")["calls"]) == 3
    assert result["errors"] == [] and set(result["states"].values()) == {"output-available"}


@pytest.mark.parametrize("abort", ["client", "server"])
def test_a_chat_that_is_stopped_is_aborted(server: Server, app: Starts, run: str, abort: str) -> None:
    chat = app("hang", abort=abort)
    await_state(server, run, "input-available")
    chat.stop_it()
    chat.finish()
    card = await_states(server, run, "output-error")["call_hang"]
    assert (card["cause"], server.get(f"/api/v1/runs/{run}")["status"]) == ("aborted", "aborted")


def test_a_stream_that_is_passed_on_and_cut_by_its_own_signal_is_aborted(server: Server, app: Starts, run: str) -> None:
    chat = app("hang", abort="client", relay=True)
    await_state(server, run, "input-available")
    chat.stop_it()
    chat.finish()
    card = await_states(server, run, "output-error")["call_hang"]
    assert (card["cause"], server.get(f"/api/v1/runs/{run}")["status"]) == ("aborted", "aborted")


def test_a_chat_that_is_stopped_while_arguments_stream_is_aborted(server: Server, app: Starts, run: str) -> None:
    chat = app("midargs", abort="client")
    await_state(server, run, "input-streaming")
    chat.stop_it()
    chat.finish()
    assert await_states(server, run, "output-error")["call_half"]["cause"] == "aborted"


def test_answers_given_in_the_chat_are_the_hosts(server: Server, app: Starts, run: str) -> None:
    answers = [{"approved": True}, {"approved": False, "reason": "not on my watch"}]
    result = app("chat", answers=answers).finish()
    cards = await_states(server, run, "output-available", "output-denied")
    assert {card["approval"]["by"]["kind"] for card in cards.values()} == {"host"}
    assert cards["call_c2"]["denied"]["reason"] == "not on my watch"
    assert result["ran"] == [["delete_file", {"path": "/a"}]]


def test_a_clients_own_tool_is_answered_by_it(server: Server, app: Starts, run: str) -> None:
    app("client").finish()
    assert await_states(server, run, "output-available")["call_cl"]["output"] == {"answer": "yes"}


def test_the_stream_is_the_same_to_the_byte(app: Starts) -> None:
    """Watched, not watched, and watched by a server that is not there."""
    watched_app = app("large").finish()
    plain = app("large", watch=False).finish()
    nobody = app("large", url="http://127.0.0.1:9").finish()
    assert watched_app["sent"] == plain["sent"] == nobody["sent"]
    assert len(plain["sent"][0]) > 200_000


@pytest.mark.parametrize(
    "options", [{}, {"gate": "gated"}, {"gate": "gated", "watch": False}], ids=["watched", "both", "gated"]
)
def test_a_result_beyond_every_limit_is_cut(server: Server, app: Starts, run: str, options: dict[str, Any]) -> None:
    outcome = app("huge", **options).finish()
    assert outcome["errors"] == [] and outcome["told"] == 0
    card = await_states(server, run, "output-available")["call_h"]
    assert card["output"].startswith("xxx") and card["output"].endswith("[cut by Toolcards: 3000000 characters]")
    assert len(card["output"]) < 200_000
    if options.get("watch", True):
        assert until(lambda: server.get(f"/api/v1/runs/{run}")["status"] == "finished")


@pytest.mark.parametrize("reads", [True, False])
def test_a_server_that_never_answers_is_not_waited_for(app: Starts, only: Any, reads: bool) -> None:
    """The copy is given up some seconds after the chat was over, not before."""
    only("7")
    plain = app("large", watch=False).finish()
    with Hole(reads=reads) as hole:
        result = app("large", telemetry=True, held=True, url=hole.url).finish()
    assert (result["sent"], result["ran"], result["errors"]) == (plain["sent"], plain["ran"], [])
    assert hole.swallowed and result["told"] == 0


def test_telemetry_shows_what_is_executed(server: Server, app: Starts, run: str, version: str) -> None:
    if version == "6":
        pytest.skip("of version 7")
    app("parallel", watch=False, telemetry=True).finish()
    cards = await_states(server, run, "output-available", "output-available", "output-error")  # in the order they began
    assert cards["call_p2"]["error"]["message"] == "boom"
    assert until(lambda: server.get(f"/api/v1/runs/{run}")["status"] == "finished")


# ---------------------------------------------------------------- gating


GATES = [("toolApproval", "7"), ("gated", "7"), ("gated", "6")]


@pytest.mark.parametrize(("gate", "of"), GATES)
def test_a_rules_no_reaches_the_model(server: Server, app: Starts, run: str, only: Any, gate: str, of: str) -> None:
    only(of)
    result = app("deny", gate=gate).finish()
    assert result["ran"] == [] and "Not allowed here. Try something else." in text(result, "call_no")
    card = await_states(server, run, "output-denied")["call_no"]
    assert (card["denied"]["reason"], card["denied"]["by"]["kind"]) == ("Not allowed here.", "rule")


@pytest.mark.parametrize(("gate", "of"), GATES)
def test_a_persons_yes_lets_it_run(server: Server, app: Starts, run: str, only: Any, gate: str, of: str) -> None:
    only(of)
    chat = app("ask", gate=gate)
    gating.vote(server, run, "approve")
    result = chat.finish()
    assert result["ran"] == [["shell", {"command": "echo ask"}]], result
    card = await_states(server, run, "output-available")["call_ask"]
    assert (card["approval"]["by"]["kind"], card["output"]) == ("human", {"ran": "echo ask"})
    assert card["approval"]["state"] == "succeeded"


@pytest.mark.parametrize(("gate", "of"), GATES)
def test_a_persons_no_reaches_the_model(server: Server, app: Starts, run: str, only: Any, gate: str, of: str) -> None:
    only(of)
    chat = app("ask", gate=gate)
    gating.vote(server, run, "deny", reason="not on a Friday")
    result = chat.finish()
    assert result["ran"] == [] and "A person declined: not on a Friday" in text(result, "call_ask")
    assert await_states(server, run, "output-denied")["call_ask"]["denied"]["by"]["kind"] == "human"


def test_what_a_person_edited_is_what_runs(server: Server, app: Starts, run: str) -> None:
    chat = app("ask", gate="gated")
    gating.vote(server, run, "edit", edited={"command": "echo edited"})
    assert chat.finish()["ran"] == [["shell", {"command": "echo edited"}]]
    card = await_states(server, run, "output-available")["call_ask"]
    assert (card["input"], card["original_input"]) == ({"command": "echo edited"}, {"command": "echo ask"})


def test_an_edit_that_cannot_be_delivered_counts_as_a_denial(server: Server, app: Starts, run: str, only: Any) -> None:
    only("7")
    chat = app("ask", gate="toolApproval")
    gating.vote(server, run, "edit", edited={"command": "echo edited"})
    result = chat.finish()
    assert result["ran"] == [] and '{"command":"echo edited"}' in text(result, "call_ask")


def test_some_of_one_turn_are_gated(server: Server, app: Starts, run: str, version: str) -> None:
    chat = app("mixed", gate="toolApproval" if version == "7" else "gated")
    gating.vote(server, run, "approve")
    chat.finish()
    await_states(server, run, "output-available", "output-denied", "output-available")


def test_needs_approval_throws_a_denial(server: Server, app: Starts, run: str, only: Any) -> None:
    only("6")
    assert app("deny", gate="needsApproval").finish()["ran"] == []
    assert await_states(server, run, "output-denied")["call_no"]["denied"]["by"]["kind"] == "rule"


# ---------------------------------------------------------------- approvals of the app itself


def test_a_gated_app_still_asks_its_own_user(server: Server, app: Starts, run: str, version: str) -> None:
    """A tool with `needsApproval` under the gate: both the app and the policy decide."""
    answers = [{"approved": True}, {"approved": False, "reason": "not on my watch"}]
    outcome = app("chat", gate="toolApproval" if version == "7" else "gated", answers=answers).finish()
    assert outcome["ran"] == [["delete_file", {"path": "/a"}]], outcome
    cards = await_states(server, run, "output-available", "output-denied")
    assert {card["approval"]["by"]["kind"] for card in cards.values()} == {"host"}
    assert cards["call_c1"]["decision"]["effect"] == "allow"


OWN = [("toolApproval", "7"), ("gated", "7"), ("gated", "6"), ("needsApproval", "6")]


@pytest.mark.parametrize(("gate", "of"), OWN)
def test_the_policy_denies_what_the_apps_user_approved(
    server: Server, app: Starts, run: str, only: Any, gate: str, of: str
) -> None:
    only(of)
    outcome = app("deny", gate=gate, own=True, answers=[{"approved": True}]).finish()
    assert outcome["ran"] == [], outcome
    card = await_states(server, run, "output-denied")["call_no"]
    assert (card["denied"]["reason"], card["denied"]["by"]["kind"]) == ("Not allowed here.", "rule")


@pytest.mark.parametrize(("gate", "of"), OWN)
@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_what_both_sides_ask_needs_both_approvals(
    server: Server, app: Starts, run: str, only: Any, gate: str, of: str, decision: str
) -> None:
    only(of)
    chat = app("ask", gate=gate, own=True, answers=[{"approved": True}])
    until(lambda: _opener(server, run) == "gate")  # the user has approved in the chat
    gating.vote(server, run, decision, reason="because")
    outcome = chat.finish()
    assert outcome["ran"] == ([["shell", {"command": "echo ask"}]] if decision == "approve" else []), outcome
    card = await_states(server, run, "output-available" if decision == "approve" else "output-denied")["call_ask"]
    assert card["approval"]["by"]["kind"] == "human"


@pytest.mark.parametrize(("gate", "of"), OWN)
def test_what_the_apps_user_denied_does_not_run(
    server: Server, app: Starts, run: str, only: Any, gate: str, of: str
) -> None:
    only(of)
    outcome = app("ask", gate=gate, own=True, answers=[{"approved": False}]).finish()
    assert outcome["ran"] == [], outcome
    assert await_states(server, run, "output-denied")["call_ask"]["denied"]["by"]["kind"] == "host"


@pytest.mark.parametrize(("status", "ran"), [("denied", False), ("user-approval", True), ("approved", True)])
def test_an_apps_own_tool_approval_is_combined(
    server: Server, app: Starts, run: str, only: Any, status: str, ran: bool
) -> None:
    only("7")
    outcome = app("free", gate="toolApproval", appApproval=status, answers=[{"approved": True}]).finish()
    assert (outcome["ran"] == [["shell", {"command": "exit 0"}]]) is ran, outcome
    state, asked_in_chat = ("output-available" if ran else "output-denied"), status == "user-approval"
    card = await_states(server, run, state)["call_free"]
    assert (card["approval"] is not None and card["approval"]["by"]["kind"] == "host") is (asked_in_chat or not ran), (
        card
    )


def _opener(server: Server, run: str) -> str:
    approvals = [card["approval"] for card in gating.calls(server, run).values() if card["approval"]]
    return next((approval["opener"] for approval in approvals if approval["state"] == "pending"), "")


def test_a_stopped_chat_takes_its_question_back(server: Server, app: Starts, run: str) -> None:
    chat = app("ask", gate="gated", abort="client")
    await_state(server, run, "approval-requested")
    chat.stop_it()
    chat.finish()
    card = await_states(server, run, "output-error")["call_ask"]
    assert (card["cause"], card["approval"]["state"]) == ("aborted", "cancelled")


# ---------------------------------------------------------------- without Toolcards


@pytest.mark.parametrize(("gate", "of"), [*GATES, ("needsApproval", "6")])
def test_without_the_server_nothing_gated_runs(app: Starts, only: Any, gate: str, of: str) -> None:
    only(of)
    result = app("free", gate=gate, url="http://127.0.0.1:9").finish()
    assert result["ran"] == []
    if gate != "needsApproval":
        assert "could not be reached" in text(result, "call_free")


@pytest.mark.parametrize(("gate", "of"), GATES)
def test_a_server_that_never_answers_lets_nothing_gated_run(app: Starts, only: Any, gate: str, of: str) -> None:
    only(of)
    with Hole() as hole:
        result = app("free", gate=gate, url=hole.url).finish()
    assert result["ran"] == [] and hole.swallowed
    assert "could not be reached" in text(result, "call_free") and "timeout" in text(result, "call_free")


def test_with_a_wrong_key_nothing_gated_runs_and_the_stream_is_unharmed(app: Starts, server: Server) -> None:
    result = app("free", gate="gated", key="tck_nobodys").finish()
    assert (result["ran"], result["errors"], result["prompts"]) == ([], [], 2)


def test_a_server_that_restarts_while_a_person_is_asked_still_has_the_question(
    server: Server, app: Starts, run: str
) -> None:
    chat = app("ask", gate="gated", watch=False)
    gating.waiting(server, run)
    server.kill()
    server.start()
    gating.vote(server, run, "approve")
    result = chat.finish()
    assert result["ran"] == [["shell", {"command": "echo ask"}]], result
