"""The real TanStack AI 0.58.0 and its client 0.33.2, with our module and a scripted adapter."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import models, npm
from tests.clients.models import Call
from tests.clients.nodeapp import ZOD, App
from tests.support import gating
from tests.support.server import Server, until
from tests.support.silent_server import Hole

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
Starts = Callable[..., App]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="shell", field="/command"))
        yield running


@pytest.fixture
def run() -> str:
    return f"thread-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def app(server: Server, run: str, tmp_path: Path) -> Iterator[Starts]:
    """Give `app(scenario, gate=…, answers=…, abort=…)`: a chat that has begun."""
    packages = {"tanstack__ai": "0.58.0", "tanstack__ai_client": "0.33.2", "tanstack__ai_openai": "0.23.1", "zod": ZOD}
    created = App(npm.installed("tanstack-openai", **packages), "tanstack_ai.mjs", tmp_path)

    def start(scenario: str, **options: Any) -> App:
        return created.start(scenario, **({"url": server.base, "key": server.key, "run": run, "watch": True} | options))

    yield start
    created.stop()


def await_states(server: Server, run: str, *states: str, anomalies: tuple[str, ...] = ()) -> dict[str, Any]:
    """The run's calls, once they are in these states: the copy may be a moment behind the chat."""

    def look() -> Any:
        cards = gating.calls(server, run)
        return cards if [card["state"] for card in cards.values()] == list(states) else None

    cards: dict[str, Any] = until(look)
    codes = [tuple(anomaly["code"] for anomaly in card["anomalies"]) for card in cards.values()]
    assert codes == [anomalies] * len(cards)
    return cards


@pytest.mark.parametrize("lines", [False, True])
def test_a_success_over_both_transports(server: Server, app: Starts, run: str, lines: bool) -> None:
    result = app("success", lines=lines).finish() if not lines else None
    if lines:  # the client of this test reads events only; what is mirrored is what the server sends
        app("success", lines=True).finish()
    card = await_states(server, run, "output-available")["call_ok"]
    assert (card["input"], card["output"]) == ({"city": "Paris"}, {"city": "Paris", "temp": 21})
    assert result is None or result["states"] == {"call_ok": "complete"}


@pytest.mark.parametrize(
    ("scenario", "call", "message"),
    [
        ("error", "call_err", "disk on fire"),
        ("empty-error", "call_empty", ""),
        ("unknown", "call_u", "Unknown tool"),
        ("invalid", "call_i", "Input validation failed"),
        ("broken", "call_b", "Failed to parse"),
    ],
)
def test_failures(server: Server, app: Starts, run: str, scenario: str, call: str, message: str) -> None:
    result = app(scenario).finish()
    anomalies = ("unreadable-input",) if scenario == "broken" else ()
    assert message in await_states(server, run, "output-error", anomalies=anomalies)[call]["error"]["message"]
    assert result["states"][call] == "error" and message in result["saw"][call]


def test_parallel_calls_end_each_in_its_own_way(server: Server, app: Starts, run: str) -> None:
    app("parallel").finish()
    await_states(server, run, "output-available", "output-error", "output-available")


def test_a_chat_that_is_stopped_is_aborted(server: Server, app: Starts, run: str) -> None:
    chat = app("hang", abort="client")
    until(lambda: [card["state"] for card in gating.calls(server, run).values()] == ["input-available"])
    chat.stop_it()
    chat.finish()
    assert await_states(server, run, "output-error")["call_hang"]["cause"] == "aborted"


def test_a_denial_that_the_stream_never_tells_is_shown(server: Server, app: Starts, run: str) -> None:
    result = app("chat", answers={"call_c1": True, "call_c2": False}).finish()
    cards = await_states(server, run, "output-available", "output-denied")
    assert {card["approval"]["by"]["kind"] for card in cards.values()} == {"host"}
    assert result["ran"] == [["delete_file", {"path": "/a"}]]


def test_a_clients_own_tool_is_answered_by_it(server: Server, app: Starts, run: str) -> None:
    result = app("client").finish()
    assert result["saw"] == {"call_cl": '{"answer":"yes"}'}, result
    assert await_states(server, run, "output-available")["call_cl"]["output"] == {"answer": "yes"}


def test_what_was_edited_in_the_chat_is_shown(server: Server, app: Starts, run: str) -> None:
    result = app("edited", editedArgs={"path": "/edited"}).finish()
    assert result["ran"] == [["delete_file", {"path": "/edited"}]]
    assert await_states(server, run, "output-available")["call_e"]["input"] == {"path": "/edited"}


def test_a_rules_no_reaches_the_model(server: Server, app: Starts, run: str) -> None:
    result = app("deny", gate="gate").finish()
    assert result["ran"] == [] and "Not allowed here. Try something else." in result["saw"]["call_no"]
    assert await_states(server, run, "output-denied")["call_no"]["denied"]["by"]["kind"] == "rule"


@pytest.mark.parametrize(
    ("decision", "ran", "state"),
    [
        ("approve", "echo ask", "output-available"),
        ("deny", "", "output-denied"),
        ("edit", "echo edited", "output-available"),
    ],
)
def test_a_persons_answer_is_obeyed(server: Server, app: Starts, run: str, decision: str, ran: str, state: str) -> None:
    chat = app("ask", gate="gate")
    edited = {"command": "echo edited"} if decision == "edit" else None
    gating.vote(server, run, decision, reason="because", edited=edited)
    result = chat.finish()
    assert result["ran"] == ([["shell", {"command": ran}]] if ran else [])
    assert ran or "A person declined: because" in result["saw"]["call_ask"]
    approval = await_states(server, run, state)["call_ask"]["approval"]
    assert (approval["by"]["kind"], approval["state"]) == ("human", "succeeded" if ran else "denied")


# ---------------------------------------------------------------- the real adapter: a run id for each turn

FORBIDDEN, ASK = {"command": "echo forbidden"}, {"command": "echo ask"}
CITIES = [{"city": "A"}, {"city": "B"}, {"city": "B"}]
SCRIPTS: dict[str, models.Script] = {
    "one": [[Call("call_1", "weather", {"city": "A"})], ["done"]],
    "reuse": [*([Call("call_0", "weather", city)] for city in CITIES), ["done"]],
    "denied": [
        [Call("call_0", "weather", {"city": "A"})],
        [Call("call_0", "shell", {"command": "echo forbidden"})],
        ["no"],
    ],
    "ask": [[Call("call_0", "weather", {"city": "A"})], [Call("call_0", "shell", ASK)], ["done"]],
    "delete": [[Call("call_0", "weather", {"city": "A"})], [Call("call_1", "delete_file", {"path": "/a"})], ["done"]],
}


@pytest.fixture
def model() -> Iterator[str]:
    fake = models.openai(SCRIPTS)
    yield f"{fake.base}/v1"
    fake.close()


def finished(server: Server, run: str) -> list[dict[str, Any]]:
    """Return the calls of the run once it has finished."""
    until(lambda: server.request("GET", f"/api/v1/runs/{run}")[1].get("status") in {"finished", "truncated", "error"})
    assert server.get(f"/api/v1/runs/{run}")["status"] == "finished"
    calls: list[dict[str, Any]] = server.get(f"/api/v1/runs/{run}/calls")["calls"]
    assert [call["anomalies"] for call in calls] == [[]] * len(calls)
    return calls


@pytest.mark.parametrize("gate", ["", "gate"])
def test_a_run_of_the_openai_adapter_finishes(server: Server, app: Starts, run: str, model: str, gate: str) -> None:
    outcome = app("", model=model, prompt="SCENARIO:one", gate=gate).finish()
    assert outcome["ran"] == [["weather", {"city": "A"}]], outcome
    assert [call["state"] for call in finished(server, run)] == ["output-available"]


@pytest.mark.parametrize("gate", ["", "gate"])
def test_an_id_that_a_model_reuses_in_later_turns_is_several_calls(
    server: Server, app: Starts, run: str, model: str, gate: str
) -> None:
    outcome = app("", model=model, prompt="SCENARIO:reuse", gate=gate).finish()
    assert outcome["ran"] == [["weather", city] for city in CITIES], outcome
    calls = finished(server, run)
    assert [(call["input"], call["output"]["city"]) for call in calls] == [(city, city["city"]) for city in CITIES]


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_reused_id_is_asked_about_again(server: Server, app: Starts, run: str, model: str, decision: str) -> None:
    chat = app("", model=model, prompt="SCENARIO:ask", gate="gate")
    gating.vote(server, run, decision, reason="because")
    outcome = chat.finish()
    assert [tool for tool, _ in outcome["ran"]] == ["weather", "shell"] if decision == "approve" else ["weather"], (
        outcome
    )
    state = "output-available" if decision == "approve" else "output-denied"
    assert [(call["tool"]["name"], call["state"]) for call in finished(server, run)] == [
        ("weather", "output-available"), ("shell", state),
    ]  # fmt: skip


def test_a_reused_id_is_denied_by_a_rule(server: Server, app: Starts, run: str, model: str) -> None:
    outcome = app("", model=model, prompt="SCENARIO:denied", gate="gate").finish()
    assert [tool for tool, _ in outcome["ran"]] == ["weather"], outcome
    assert [call["state"] for call in finished(server, run)] == ["output-available", "output-denied"]


def test_a_later_turn_is_approved_in_the_chat(server: Server, app: Starts, run: str, model: str) -> None:
    outcome = app("", model=model, prompt="SCENARIO:delete").finish()
    assert [tool for tool, _ in outcome["ran"]] == ["weather", "delete_file"], outcome
    calls = finished(server, run)
    assert [(call["tool"]["name"], call["state"]) for call in calls] == [
        ("weather", "output-available"), ("delete_file", "output-available"),
    ]  # fmt: skip
    assert calls[0]["approval"] is None and calls[1]["approval"]["by"]["kind"] == "host"


def test_without_the_server_nothing_gated_runs_and_the_chat_continues(app: Starts) -> None:
    result = app("free", gate="gate", url="http://127.0.0.1:9").finish()
    assert (result["ran"], result["prompts"], result["errors"]) == ([], 2, [])
    assert "could not be reached" in result["saw"]["call_free"]


def test_without_the_server_a_watched_chat_is_unharmed(app: Starts) -> None:
    result = app("success", url="http://127.0.0.1:9").finish()
    assert (result["ran"], result["errors"], result["states"]) == (
        [["weather", {"city": "Paris"}]],
        [],
        {"call_ok": "complete"},
    )


def test_a_server_that_never_answers_is_not_waited_for(app: Starts) -> None:
    with Hole() as hole:
        result = app("success", url=hole.url).finish()
    assert (result["ran"], result["errors"], hole.swallowed > 0) == ([["weather", {"city": "Paris"}]], [], True)
    assert result["states"] == {"call_ok": "complete"}
