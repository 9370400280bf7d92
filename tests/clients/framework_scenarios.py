"""What a framework's own agent does behind our module for it: one set of scenarios for all of them.

Each library runs in an environment of its own; its agent program is in `agents/`. Every test plays a scenario and
checks three things: what the card shows, which tools ran, and what the model received. The tests of a module are in
the file of its name, next to this one.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import models, pip
from tests.support import gating
from tests.support.server import Server, until
from tests.support.silent_server import Hole

MARKS = [pytest.mark.clients, pytest.mark.timeout(1200)]
AGENTS = Path(__file__).parent / "agents"
ROOT = Path(__file__).parents[2]


def rules() -> dict[str, Any]:
    def rule(name: str, effect: str, tool: str, field: str, start: str, **more: Any) -> dict[str, Any]:
        match = {"tool": [tool], "args": [{"path": field, "op": "prefix", "value": start}]}
        return {"id": name, "effect": effect, "match": match, **more}

    ask = {"public_reason": "Ask first.", "ask": {"editable": ["/path"]}}
    return {
        "v": 1,
        "default": "allow",
        "rules": [
            rule("no", "deny", "delete_file", "/path", "/forbidden", public_reason="Not in this folder."),
            rule("ask", "ask", "delete_file", "/path", "/ask", **ask),
            rule("later", "ask", "later", "/path", "/ask", public_reason="Ask first."),
            rule("no-table", "deny", "drop_table", "/name", "forbidden", public_reason="Not this table."),
            rule("ask-table", "ask", "drop_table", "/name", "ask", public_reason="Ask first."),
        ],
    }


class Program:
    """An agent program that plays scenarios, one after the other."""

    def __init__(self, framework: str, server: str, key: str, model: str, **more: str) -> None:
        env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        env |= {"PYTHONPATH": str(ROOT), "TOOLCARDS_URL": server, "TOOLCARDS_AGENT_KEY": key, "MODEL": model, **more}
        self.framework = framework
        self.process = subprocess.Popen(
            [str(pip.python()), str(AGENTS / f"{framework}_agent.py")], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def begin(self, scenario: str, mode: str = "gate", **more: Any) -> str:
        """Play the scenario; return the run's name."""
        run = f"{self.framework}-{scenario}-{secrets.token_hex(3)}"
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"scenario": scenario, "run": run, "mode": mode, **more}) + "\n")
        self.process.stdin.flush()
        return run

    def stop_it(self) -> None:
        """Stop the agent that plays `abort-asking`: what is to be stopped has begun."""
        assert self.process.stdin is not None
        self.process.stdin.write("stop\n")
        self.process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """Wait until it is played; return what the program told."""
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if line.startswith("{"):
                payload: dict[str, Any] = json.loads(line)
                return payload
        raise AssertionError("the agent program is gone")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def _call(name: str, tool: str, args: Any) -> models.Call:
    return models.Call(name, tool, raw=args) if isinstance(args, str) else models.Call(name, tool, args)


def await_run_end(server: Server, run: str) -> dict[str, Any]:
    """Return the run's calls once it has ended."""

    def has_ended() -> Any:
        status, body, _ = server.request("GET", f"/api/v1/runs/{run}")
        return status == 200 and body["status"] not in {"running", "waiting"}

    until(has_ended)
    return gating.calls(server, run)


def status(server: Server, run: str) -> str:
    return str(server.get(f"/api/v1/runs/{run}")["status"])


def streamed(server: Server, run: str, call: str) -> int:
    """How many pieces of input the card was seen to grow by, at least."""
    events = server.get(f"/api/v1/runs/{run}/events")["events"]
    return sum(event.get("call", {}).get("state") == "input-streaming" for event in events)


MODES = pytest.mark.parametrize("mode", ["gate", "observe"])


class FrameworkBench:
    """The server, the model and the agent program of one framework."""

    framework: str

    @pytest.fixture(scope="class")
    def model(self) -> Iterator[models.FakeModel]:
        source = json.loads(
            subprocess.run(
                [str(pip.python()), "-c", "import common, json; print(json.dumps(common.SCRIPTS))"], cwd=AGENTS,
                env={"PYTHONPATH": f"{ROOT}:{AGENTS}"}, capture_output=True, text=True, check=True,
            ).stdout
        )  # fmt: skip
        scripts = {
            name: [[_call(*call) for call in turn] for turn in turns] + [["Done."]] for name, turns in source.items()
        }
        fake = models.openai(scripts)
        yield fake
        fake.close()

    @pytest.fixture(scope="class")
    def server(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
        with Server(tmp_path_factory.mktemp("server")) as running:
            gating.activate(running, rules())
            yield running

    @pytest.fixture(scope="class")
    def agent(self, server: Server, model: models.FakeModel) -> Iterator[Program]:
        program = Program(self.framework, server.base, server.key, model.base)
        yield program
        program.stop()


class FrameworkScenarios(FrameworkBench):
    """What holds for every framework."""

    @MODES
    def test_a_success_with_arguments_as_they_are_written(self, server: Server, agent: Program, mode: str) -> None:
        run = agent.begin("success", mode)
        result = agent.end()
        card = await_run_end(server, run)["call_a"]
        assert card["state"] == "output-available", card
        assert card["input"] == {"city": "Paris"} and "21" in json.dumps(card["output"])
        assert (
            result["ran"] == [["get_weather", "Paris"]] and "21" in result["saw"]["call_a"][1] and not result["error"]
        )
        assert streamed(server, run, "call_a") >= 1 and not card["anomalies"]
        assert status(server, run) == "finished"

    @MODES
    def test_an_error_is_classified_by_its_type(self, server: Server, agent: Program, mode: str) -> None:
        run = agent.begin("error", mode)
        agent.end()
        card = await_run_end(server, run)["call_b"]
        assert card["state"] == "output-error", card
        if mode == "gate" or agent.framework != "openai_agents":
            assert (card["error"]["code"], card["error"]["retryable"]) == ("connect_failed", True)
            assert card["error"]["message"] == "disk on fire"

    @MODES
    def test_an_error_without_words_is_an_error(self, server: Server, agent: Program, mode: str) -> None:
        run = agent.begin("empty", mode)
        agent.end()
        card = await_run_end(server, run)["call_c"]
        assert card["state"] == "output-error" and card["error"]["message"] == "", card

    @MODES
    def test_an_unknown_tool(self, server: Server, agent: Program, mode: str) -> None:
        run = agent.begin("unknown", mode)
        result = agent.end()
        card = await_run_end(server, run)["call_d"]
        assert (card["state"], result["ran"]) == ("output-error", []), card
        assert card["error"]["code"] in {"no_such_tool", "tool_reported"}

    @MODES
    @pytest.mark.parametrize(("scenario", "call"), [("invalid", "call_e"), ("broken", "call_f")])
    def test_arguments_that_do_not_fit(
        self, server: Server, agent: Program, mode: str, scenario: str, call: str
    ) -> None:
        run = agent.begin(scenario, mode)
        result = agent.end()
        card = await_run_end(server, run)[call]
        assert (card["state"], result["ran"]) == ("output-error", []), card

    def test_arguments_that_were_cut_off(self, server: Server, agent: Program) -> None:
        """LangChain repairs them and runs the tool with the result, which is what is evaluated and shown."""
        run = agent.begin("cut")
        result = agent.end()
        card = await_run_end(server, run)["call_f"]
        if agent.framework == "langchain":
            assert (card["state"], card["input"], result["ran"]) == (
                "output-available",
                {"city": "Par"},
                [["get_weather", "Par"]],
            )
        else:
            assert (card["state"], result["ran"]) == ("output-error", []), card

    def test_a_rule_denies_and_the_model_reads_why(self, server: Server, agent: Program) -> None:
        run = agent.begin("deny")
        result = agent.end()
        card = await_run_end(server, run)["call_g"]
        assert (card["state"], card["decision"]["rule"], result["ran"]) == ("output-denied", "no", []), card
        assert "Not in this folder." in result["saw"]["call_g"][1], result
        assert status(server, run) == "finished" and not card["anomalies"]

    def test_a_person_approves(self, server: Server, agent: Program) -> None:
        run = agent.begin("ask")
        assert gating.waiting(server, run)["call_id"] == "call_h"
        gating.vote(server, run, "approve")
        result = agent.end()
        card = await_run_end(server, run)["call_h"]
        assert (card["state"], result["ran"]) == ("output-available", [["delete_file", "/ask/a"]]), card
        assert not card["anomalies"]

    def test_a_person_denies_and_the_model_reads_the_reason(self, server: Server, agent: Program) -> None:
        run = agent.begin("ask")
        gating.vote(server, run, "deny", reason="keep that file")
        result = agent.end()
        card = await_run_end(server, run)["call_h"]
        assert (card["state"], result["ran"]) == ("output-denied", []), card
        assert "keep that file" in result["saw"]["call_h"][1], result

    def test_a_person_edits_and_the_tool_gets_that(self, server: Server, agent: Program) -> None:
        run = agent.begin("ask")
        gating.vote(server, run, "edit", edited={"path": "/trash/a"})
        result = agent.end()
        card = await_run_end(server, run)["call_h"]
        assert (card["state"], result["ran"]) == ("output-available", [["delete_file", "/trash/a"]]), (card, result)
        assert card["input"] == {"path": "/trash/a"}

    def test_the_librarys_own_approval_is_answered_by_the_gate(self, server: Server, agent: Program) -> None:
        run = agent.begin("own")
        gating.vote(server, run, "approve")
        result = agent.end()
        card = await_run_end(server, run)["call_i"]
        assert (card["state"], result["ran"]) == ("output-available", [["drop_table", "ask_users"]]), (card, result)
        assert not card["anomalies"]

    def test_the_librarys_own_approval_is_refused_by_a_rule(self, server: Server, agent: Program) -> None:
        run = agent.begin("own-deny")
        result = agent.end()
        card = await_run_end(server, run)["call_j"]
        assert (card["state"], result["ran"]) == ("output-denied", []), (card, result)
        assert "Not this table." in result["saw"]["call_j"][1], result

    def test_parallel_calls_end_each_in_its_own_way(self, server: Server, agent: Program) -> None:
        run = agent.begin("parallel")
        result = agent.end()
        states = {call: card["state"] for call, card in await_run_end(server, run).items()}
        assert states["call_m"] == "output-denied" and ["delete_file", "/forbidden/b"] not in result["ran"]
        assert states["call_l"] == "output-error"
        if not result["error"]:  # a plain exception ends the run of two of the libraries
            assert states["call_k"] == states["call_n"] == "output-available", result

    def test_a_stopped_agent_leaves_nothing_open(self, server: Server, agent: Program) -> None:
        run = agent.begin("abort")
        agent.end()
        card = await_run_end(server, run)["call_o"]
        assert (card["state"], card["cause"], status(server, run)) == ("output-error", "aborted", "aborted"), card

    @MODES
    def test_an_agent_whose_time_is_up_was_stopped_and_did_not_fail(
        self, server: Server, agent: Program, mode: str
    ) -> None:
        """`asyncio.wait_for` around the agent: what comes out is a time-out, but nothing in here took too long."""
        run = agent.begin("deadline", mode)
        assert agent.end()["error"].startswith("TimeoutError")
        card = await_run_end(server, run)["call_s"]
        assert (card["state"], card["cause"], status(server, run)) == ("output-error", "aborted", "aborted"), card

    def test_a_tool_that_keeps_its_own_time_fails(self, server: Server, agent: Program) -> None:
        run = agent.begin("own-deadline")
        agent.end()
        card = await_run_end(server, run)["call_t"]
        assert (card["state"], card["cause"], card["error"]["code"]) == ("output-error", None, "timeout"), card
        assert status(server, run) == ("finished" if agent.framework == "openai_agents" else "error")

    def test_an_agent_stopped_while_a_person_is_asked_takes_the_question_back(
        self, server: Server, agent: Program
    ) -> None:
        run = agent.begin("abort-asking")
        gating.waiting(server, run)
        agent.stop_it()
        result = agent.end()
        card = await_run_end(server, run)["call_p"]
        assert (card["state"], result["ran"]) == ("output-error", []), card
        waiting = server.get("/api/v1/approvals?state=waiting")["approvals"]
        assert not [each for each in waiting if each.get("run") == run]

    def test_the_same_id_twice_is_two_calls(self, server: Server, agent: Program) -> None:
        run = agent.begin("twice")
        result = agent.end()
        cards = await_run_end(server, run)
        if agent.framework == "openai_agents":  # which refuses a second call of the same id and ends the run
            assert "Use a unique call ID" in result["error"] and result["ran"] == [["get_weather", "Rome"]], result
            assert [card["state"] for card in cards.values()] == ["output-available", "output-error"]
            return
        assert [card["input"] for card in cards.values()] == [{"city": "Rome"}, {"city": "Oslo"}], (cards, result)
        assert {card["state"] for card in cards.values()} == {"output-available"}

    def test_parallel_calls_of_one_id_are_judged_one_by_one(self, server: Server, agent: Program) -> None:
        run = agent.begin("same-id")
        result = agent.end()
        assert ["delete_file", "/forbidden/c"] not in result["ran"], result
        if agent.framework != "langchain" and result["error"]:  # the others refuse such a turn as a whole
            assert result["ran"] == [] or agent.framework == "openai_agents", result
            return
        cards = await_run_end(server, run)
        outcomes = sorted((card["tool"]["name"], card["state"]) for card in cards.values())
        assert outcomes == [("delete_file", "output-denied"), ("get_weather", "output-available")], (cards, result)
        assert result["ran"] == [["get_weather", "Rome"]] and set(cards) == {"call_u", "call_u#2"}, result
        assert not [card["anomalies"] for card in cards.values() if card["anomalies"]]

    def test_a_sub_agents_call_with_its_parents_id_is_judged_by_itself(self, server: Server, agent: Program) -> None:
        run = agent.begin("nested")
        result = agent.end()
        cards = await_run_end(server, run)
        assert sorted(result["ran"]) == [["delegate", "tidy"], ["get_weather", "Bern"]], result
        outcomes = {(name, card["tool"]["name"], card["state"]) for name, card in cards.items()}
        assert outcomes == {
            ("call_v", "delegate", "output-available"), ("call_v#2", "delete_file", "output-denied"),
            ("call_w", "get_weather", "output-available"),
        }, (outcomes, result)  # fmt: skip
        assert not [card["anomalies"] for card in cards.values() if card["anomalies"]]

    @pytest.mark.parametrize(("scenario", "call", "events"), [
        ("success", "call_a", ["before", "after", "settled ok"]),
        ("error", "call_b", ["before", "error", "settled error"]),
        ("deny", "call_g", ["before", "error", "settled denied"]), ("abort", "call_o", ["before", "settled aborted"]),
    ])  # fmt: skip
    def test_plugins_of_the_agents_process_are_notified(
        self, server: Server, agent: Program, scenario: str, call: str, events: list[str]
    ) -> None:
        agent.begin(scenario)
        plugin_events = agent.end()["heard"]
        assert [f"{event} {outcome}".strip() for name, event, outcome in plugin_events if name == call] == events, (
            plugin_events
        )

    def test_plugins_are_notified_of_every_parallel_call_in_order(self, server: Server, agent: Program) -> None:
        agent.begin("parallel")
        result = agent.end()
        for call in ("call_k", "call_l", "call_m", "call_n"):
            events = [event for name, event, _ in result["heard"] if name == call]
            if (
                not events and call == "call_n" and result["error"]
            ):  # the error of call_l came earlier than its `before`
                continue
            assert events[0] == "before" and events[-1] == "settled" and events.count("settled") == 1, result["heard"]

    @pytest.fixture
    def alone(self, model: models.FakeModel) -> Iterator[Program]:
        program = Program(self.framework, "http://127.0.0.1:9", "tck_nobody_listens", model.base, OFFLINE="3")
        yield program
        program.stop()

    def test_without_a_server_a_gated_tool_does_not_run_and_the_model_reads_why(self, alone: Program) -> None:
        alone.begin("success")
        result = alone.end()
        assert result["ran"] == [], result
        assert "Toolcards did not answer in time" in json.dumps(result), result

    def test_without_a_server_an_observed_agent_just_works(self, alone: Program) -> None:
        alone.begin("success", "observe")
        result = alone.end()
        assert result["ran"] == [["get_weather", "Paris"]] and not result["error"], result

    def test_a_server_that_never_answers_lets_no_gated_tool_run(self, model: models.FakeModel) -> None:
        with Hole() as hole:
            program = Program(self.framework, hole.url, "tck_nobody_listens", model.base, OFFLINE="3")
            try:
                program.begin("success")
                result = program.end()
            finally:
                program.stop()
        assert result["ran"] == [] and hole.swallowed
        assert "Toolcards did not answer in time" in json.dumps(result), result

    def test_an_observed_agent_does_not_wait_for_a_server_that_never_answers(
        self, server: Server, model: models.FakeModel
    ) -> None:
        with Hole() as hole:
            program = Program(self.framework, hole.url, server.key, model.base)
            try:
                program.begin("success", "observe")
                result = program.end()
            finally:
                program.stop()
        assert result["ran"] == [["get_weather", "Paris"]] and not result["error"] and hole.swallowed, result
