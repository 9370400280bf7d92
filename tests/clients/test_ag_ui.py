"""Real AG-UI agents (Pydantic AI 2.68.0, ag-ui-langgraph 0.0.47) and the real client (1.0.0), through our pass-through.

The client checks the order of all events it gets, so what it accepts has gone by unharmed.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import npm, pip
from tests.clients.nodeapp import App
from tests.support import gating
from tests.support.server import PATIENCE, Server, held_port, until
from tests.support.voter import Voter

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
PRODUCERS = ("pydantic-ai", "langgraph")
BATCHES = ("langgraph-batch", "langgraph-default")  # one question for all calls of a turn; without ids by default
Starts = Callable[..., App]
YES = {
    "pydantic-ai": {"status": "resolved", "payload": {"approved": True}},
    "langgraph": {"status": "resolved", "payload": {"type": "approve"}},
}
NO = {
    "pydantic-ai": {"status": "resolved", "payload": {"approved": False, "reason": "not today"}},
    "langgraph": {"status": "resolved", "payload": {"type": "reject", "message": "not today"}},
}


@pytest.fixture(scope="module")
def agents() -> Iterator[str]:
    """Both agents on one port: where they are."""
    python, script = pip.python("ag-ui-python", pip.AG_UI), Path(__file__).parent / "agents/ag_ui_servers.py"
    with held_port() as port_holder:
        port = str(port_holder.getsockname()[1])
        with subprocess.Popen([str(python), str(script), port]) as process:
            base = f"http://127.0.0.1:{port}"
            try:
                until(lambda: _answers(base), 3 * PATIENCE)
                yield base
            finally:
                process.terminate()


def _answers(base: str) -> bool:
    try:
        with urllib.request.urlopen(f"{base}/ran", timeout=PATIENCE):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, agents: str) -> Iterator[Server]:
    names = ",".join(f"{name}={agents}/{name}" for name in PRODUCERS + BATCHES)
    with Server(tmp_path_factory.mktemp("server"), agui_upstreams=names) as running:
        gating.activate(running, {"v": 1, "default": "ask", "rules": []})
        yield running


@pytest.fixture(params=PRODUCERS)
def producer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(producer: str) -> str:
    return f"{producer}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def client(server: Server, producer: str, run: str, tmp_path: Path) -> Iterator[Starts]:
    """Give `client(scenario, answers=…, wait=…, abort=…)`: a thread that has begun."""
    created = App(npm.installed("ag-ui", ag_ui__client="1.0.0"), "ag_ui.mjs", tmp_path)
    url = f"{server.base}/api/v1/ag-ui/{producer}"

    def start(scenario: str, **options: Any) -> App:
        return created.start(scenario, **({"url": url, "key": server.key, "run": run} | options))

    yield start
    created.stop()


@pytest.fixture
def ran(agents: str) -> Callable[[], list[Any]]:
    """Give `ran()`: the tools that ran since it was called last."""

    def look() -> Any:
        with urllib.request.urlopen(f"{agents}/ran", timeout=PATIENCE) as answer:
            return json.load(answer)

    look()
    return look


def await_states(server: Server, run: str, *states: str) -> dict[str, Any]:
    def look() -> Any:
        cards = gating.calls(server, run)
        return cards if [card["state"] for card in cards.values()] == list(states) else None

    cards: dict[str, Any] = until(look)
    return cards


def vote(server: Server, run: str, call_id: str, decision: str, reason: str = "", edited: Any = None) -> None:
    def find_waiting_call() -> Any:
        result = gating.calls(server, run).get(call_id)
        return result if result and result["state"] == "approval-requested" else None

    call = until(find_waiting_call)
    fields = {"rev": str(call["rev"]), "args_sha256": call["approval"]["args_sha256"], "reason": reason}
    if edited is not None:
        fields["edited_args"] = json.dumps(edited)
    path = f"/approvals/{call['approval']['id']}/vote"
    status, page = Voter(server).post(path, page="/approvals/", decision=decision, **fields)
    assert status == 200, page[:500]


def test_a_success(server: Server, client: Starts, run: str, producer: str) -> None:
    result = client("success").finish()
    card = await_states(server, run, "output-available")["call_a"]
    assert (card["output"], card["agent_path"]) == ({"city": "Paris", "temp": 21}, [producer])
    assert result["errors"] == [] and json.loads(result["saw"]["call_a"]) == {"city": "Paris", "temp": 21}
    assert server.get(f"/api/v1/runs/{run}")["status"] == "finished"


@pytest.mark.parametrize(
    ("scenario", "call"), [("error", "call_b"), ("empty", "call_c"), ("unknown", "call_d"), ("invalid", "call_e")]
)
def test_failures(server: Server, client: Starts, run: str, scenario: str, call: str) -> None:
    result = client(scenario).finish()
    assert result["errors"] == []
    assert list(await_states(server, run, "output-error")) == [call]


def test_parallel_calls_end_each_in_its_own_way(server: Server, client: Starts, run: str) -> None:
    assert client("parallel").finish()["errors"] == []
    await_states(server, run, "output-available", "output-error", "output-available")


def test_a_client_that_stops_aborts_the_run(server: Server, client: Starts, run: str) -> None:
    chat = client("abort", abort=True)
    until(lambda: gating.calls(server, run).get("call_l", {}).get("state") == "input-available")
    chat.stop_it()
    chat.finish()
    card = await_states(server, run, "output-error")["call_l"]
    assert (card["cause"], server.get(f"/api/v1/runs/{run}")["status"]) == ("aborted", "aborted")


@pytest.mark.parametrize(("answers", "state"), [(YES, "output-available"), (NO, "output-denied")])
def test_an_answer_given_in_the_clients_chat_is_the_hosts(
    server: Server, client: Starts, run: str, producer: str, ran: Any, answers: Any, state: str
) -> None:
    result = client("ask", answers={"call_f": answers[producer]}).finish()
    card = await_states(server, run, state)["call_f"]
    assert result["errors"] == [] and card["approval"]["by"]["kind"] == "host"
    assert ran() == ([["delete_file", "/a"]] if answers is YES else [])


@pytest.mark.parametrize("producer", PRODUCERS + BATCHES, indirect=True)
def test_answers_given_here_reach_the_agent_together(
    server: Server, client: Starts, run: str, producer: str, ran: Any
) -> None:
    chat = client("two", wait=True)
    vote(server, run, "call_g", "approve")
    resume_answer = server.get(f"/api/v1/ag-ui/{producer}/resume?run={run}")
    assert resume_answer["waiting"] and resume_answer["resume"] == []  # one answer alone is not told
    vote(server, run, "call_h", "deny", "not today")
    result = chat.finish()
    cards = await_states(server, run, "output-available", "output-denied")
    assert [card["approval"]["state"] for card in cards.values()] == ["succeeded", "denied"]
    assert {card["approval"]["by"]["kind"] for card in cards.values()} == {"human"}
    assert [card["anomalies"] for card in cards.values()] == [[], []]
    assert (result["errors"], result["turns"], ran()) == ([], 2, [["delete_file", "/a"]])
    assert "not today" in result["saw"]["call_h"]


@pytest.mark.parametrize("producer", BATCHES, indirect=True)
def test_an_edit_given_here_is_one_decision_of_the_batch(
    server: Server, client: Starts, run: str, producer: str, ran: Any
) -> None:
    chat = client("two", wait=True)
    vote(server, run, "call_h", "edit", edited={"path": "/edited"})
    vote(server, run, "call_g", "deny", "not today")
    result = chat.finish()
    cards = await_states(server, run, "output-denied", "output-available")
    assert (result["errors"], ran()) == ([], [["delete_file", "/edited"]])
    assert cards["call_h"]["input"] == {"path": "/edited"}


@pytest.mark.parametrize("producer", BATCHES, indirect=True)
def test_a_batch_answered_in_the_clients_chat_is_the_hosts(
    server: Server, client: Starts, run: str, producer: str, ran: Any
) -> None:
    decisions = [{"type": "reject", "message": "not today"}, {"type": "approve"}]
    result = client("two", decisions=decisions).finish()
    cards = await_states(server, run, "output-denied", "output-available")
    assert {card["approval"]["by"]["kind"] for card in cards.values()} == {"host"}
    assert (result["errors"], ran()) == ([], [["delete_file", "/b"]])


def answer(server: Server, run: str, message: str, **fields: str) -> dict[str, Any]:
    """Fill in the form with this message in the inbox; return its card."""
    card: dict[str, Any] = until(lambda: next(
        (each for each in gating.calls(server, run).values()
         if each["state"] == "approval-requested" and each["input"]["message"] == message), None))  # fmt: skip
    fields |= {"rev": str(card["rev"]), "args_sha256": card["approval"]["args_sha256"]}
    path = f"/approvals/{card['approval']['id']}/vote"
    status, page = Voter(server).post(path, page="/approvals/", **fields)
    assert status == 200, page[:500]
    return card


@pytest.mark.parametrize("producer", ["langgraph"], indirect=True)
def test_a_tool_that_asks_for_a_value_gets_the_answer_of_the_inbox(
    server: Server, client: Starts, run: str, ran: Any
) -> None:
    chat = client("input", wait=True)
    form = answer(server, run, "Where does a go?", decision="answer", **{"answer-0": "1"})
    result = chat.finish()
    cards = gating.calls(server, run)
    assert (result["errors"], result["turns"], ran()) == ([], 2, [["book", "a", {"city": "Oslo"}]])
    assert json.loads(result["saw"]["call_m"]) == {"city": "Oslo"}
    summaries = [(card["tool"]["name"], card["state"], card["output"], card["anomalies"]) for card in cards.values()]
    assert summaries == [
        ("book", "output-available", {"city": "Oslo"}, []),
        ("elicitation/create", "output-available", {"city": "Oslo"}, []),
    ]
    assert cards[form["call_id"]]["approval"]["by"]["kind"] == "human"


@pytest.mark.parametrize("producer", ["langgraph"], indirect=True)
def test_parallel_questions_get_each_its_own_answer(server: Server, client: Starts, run: str, ran: Any) -> None:
    chat = client("inputs", wait=True)
    answer(server, run, "Where does b go?", decision="answer", **{"answer-0": "1"})
    answer(server, run, "Where does a go?", decision="answer", **{"answer-0": "0"})
    result = chat.finish()
    assert result["errors"] == [] and sorted(ran()) == [
        ["book", "a", {"city": "Rome"}],
        ["book", "b", {"city": "Oslo"}],
    ]
    assert {card["state"] for card in gating.calls(server, run).values()} == {"output-available"}


@pytest.mark.parametrize("producer", ["langgraph"], indirect=True)
def test_a_question_that_is_denied_gives_the_agent_no_value(server: Server, client: Starts, run: str, ran: Any) -> None:
    chat = client("input", wait=True)
    answer(server, run, "Where does a go?", decision="deny", reason="not now")
    result = chat.finish()
    ((_, _, value),) = ran()
    assert result["errors"] == [] and value.get("__agui_cancelled__") is True, value
    assert [card["state"] for card in gating.calls(server, run).values()] == ["output-available", "output-denied"]


@pytest.mark.parametrize("producer", ["langgraph"], indirect=True)
def test_a_question_answered_in_the_clients_chat_is_the_hosts(
    server: Server, client: Starts, run: str, ran: Any
) -> None:
    entry = {"status": "resolved", "payload": {"city": "Rome"}}
    result = client("input", answers={"undefined": entry, "null": entry}).finish()
    assert (result["errors"], ran()) == ([], [["book", "a", {"city": "Rome"}]])
    form = list(gating.calls(server, run).values())[1]
    assert (form["state"], form["output"], form["approval"]["by"]["kind"]) == (
        "output-available", {"city": "Rome"}, "host",
    )  # fmt: skip


def test_a_denial_here_beats_an_approval_there(
    server: Server, client: Starts, run: str, producer: str, ran: Any
) -> None:
    """The client approves after a person denied the call here."""
    fields = {"threadId": run, "runId": "1", "messages": [{"id": "u", "role": "user", "content": "run ask"}]}
    more = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    path = f"/api/v1/ag-ui/{producer}"
    status, body, _ = server.request("POST", path, fields | more)
    assert status == 200
    finished = next(
        event
        for line in reversed(body.splitlines())
        if line.startswith("data: ") and (event := json.loads(line[6:]))["type"] == "RUN_FINISHED"
    )
    vote(server, run, "call_f", "deny", "never")
    call = {"id": "call_f", "type": "function", "function": {"name": "delete_file", "arguments": '{"path": "/a"}'}}
    history = [*fields["messages"], {"id": "a", "role": "assistant", "toolCalls": [call]}]
    resume = [{"interruptId": finished["outcome"]["interrupts"][0]["id"], **YES[producer]}]
    status, body, _ = server.request(
        "POST", path, fields | more | {"runId": "2", "messages": history, "resume": resume}
    )
    assert status == 200 and "never" in body and ran() == []
    assert await_states(server, run, "output-denied")["call_f"]["approval"]["by"]["kind"] == "human"


def test_without_the_server_the_agent_is_not_reached(client: Starts, ran: Any) -> None:
    result = client("success", url="http://127.0.0.1:9/agui").finish()
    assert result["errors"] and ran() == []
