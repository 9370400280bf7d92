"""The real TanStack AI 0.58.0 and its client 0.33.2, with our module beside it and a scripted adapter."""

from __future__ import annotations

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
    packages = {"tanstack__ai": "0.58.0", "tanstack__ai_client": "0.33.2", "zod": ZOD}
    created = App(npm.installed("tanstack", **packages), "tanstack_ai.mjs", tmp_path)

    def start(scenario: str, **wish: Any) -> App:
        return created.start(scenario, **({"url": server.base, "key": server.key, "run": run, "watch": True} | wish))

    yield start
    created.stop()


def ended(server: Server, run: str, *states: str) -> dict[str, Any]:
    """The run's calls, once they are in these states: the copy may be a moment behind the chat."""

    def look() -> Any:
        cards = gating.calls(server, run)
        return cards if [card["state"] for card in cards.values()] == list(states) else None

    cards: dict[str, Any] = until(look)
    assert [card["anomalies"] for card in cards.values()] == [[]] * len(cards)
    return cards


@pytest.mark.parametrize("lines", [False, True])
def test_a_success_over_both_transports(server: Server, app: Starts, run: str, lines: bool) -> None:
    result = app("success", lines=lines).finish() if not lines else None
    if lines:  # the client of this test reads events only; what is mirrored is what the server sends
        app("success", lines=True).finish()
    card = ended(server, run, "output-available")["call_ok"]
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
    assert message in ended(server, run, "output-error")[call]["error"]["message"]
    assert result["states"][call] == "error" and message in result["saw"][call]


def test_parallel_calls_end_each_in_its_own_way(server: Server, app: Starts, run: str) -> None:
    app("parallel").finish()
    ended(server, run, "output-available", "output-error", "output-available")


def test_a_chat_that_is_stopped_is_aborted(server: Server, app: Starts, run: str) -> None:
    chat = app("hang", abort="client")
    until(lambda: [card["state"] for card in gating.calls(server, run).values()] == ["input-available"])
    chat.stop_it()
    chat.finish()
    assert ended(server, run, "output-error")["call_hang"]["cause"] == "aborted"


def test_a_denial_that_the_stream_never_tells_is_shown(server: Server, app: Starts, run: str) -> None:
    result = app("chat", answers={"call_c1": True, "call_c2": False}).finish()
    cards = ended(server, run, "output-available", "output-denied")
    assert {card["approval"]["by"]["kind"] for card in cards.values()} == {"host"}
    assert result["ran"] == [["delete_file", {"path": "/a"}]]


def test_what_was_edited_in_the_chat_is_shown(server: Server, app: Starts, run: str) -> None:
    result = app("edited", editedArgs={"path": "/edited"}).finish()
    assert result["ran"] == [["delete_file", {"path": "/edited"}]]
    assert ended(server, run, "output-available")["call_e"]["input"] == {"path": "/edited"}


def test_a_rules_no_reaches_the_model(server: Server, app: Starts, run: str) -> None:
    result = app("deny", gate="gate").finish()
    assert result["ran"] == [] and "Not allowed here. Try something else." in result["saw"]["call_no"]
    assert ended(server, run, "output-denied")["call_no"]["denied"]["by"]["kind"] == "rule"


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
    approval = ended(server, run, state)["call_ask"]["approval"]
    assert (approval["by"]["kind"], approval["state"]) == ("human", "succeeded" if ran else "denied")


def test_without_the_server_nothing_gated_runs_and_the_chat_goes_on(app: Starts) -> None:
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
