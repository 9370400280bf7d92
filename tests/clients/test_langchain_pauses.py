"""The pauses of the real LangChain, which a person answers in the inbox."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.framework_scenarios import MARKS, FrameworkBench, Program, await_run_end
from tests.support import gating
from tests.support.server import Server, until
from tests.support.voter import Voter

pytestmark = MARKS


def answer(server: Server, run: str, tool: str = "elicitation/create", **fields: str) -> dict[str, Any]:
    """Fill in the form that waits in the run, as the inbox does; return its card."""
    card: dict[str, Any] = until(lambda: next(
        (each for each in gating.calls(server, run).values()
         if each["tool"]["name"] == tool and each["state"] == "approval-requested"), None))  # fmt: skip
    fields |= {"rev": str(card["rev"]), "args_sha256": card["approval"]["args_sha256"]}
    status, page = Voter(server).post(f"/approvals/{card['approval']['id']}/vote", page="/approvals/", **fields)
    assert status == 200, page[:500]
    return card


class TestLangChainPauses(FrameworkBench):
    """The pauses of the real LangChain, which a person answers in the inbox."""

    framework = "langchain"

    @pytest.mark.parametrize("kinds", ["respond", "respond+reject", "respond+per_call"])
    @pytest.mark.parametrize("mode", ["gate", "gate-sync"])
    def test_a_question_is_answered_in_the_inbox(self, server: Server, agent: Program, mode: str, kinds: str) -> None:
        run = agent.begin("question", mode, kinds=kinds)
        form = answer(server, run, decision="answer", **{"answer-0": "1"})
        result = agent.end()
        cards = await_run_end(server, run)
        assert (form["input"]["message"], result["ran"], result["error"]) == ("Which city?", [], ""), result
        assert result["saw"]["call_x"] == ["success", "Rome"]
        assert (cards["call_x"]["state"], cards["call_x"]["output"], len(cards)) == ("output-available", "Rome", 2), (
            cards
        )
        assert cards[form["call_id"]]["output"] == {"action": "accept", "content": {"choice": "Rome"}}
        assert not [card["anomalies"] for card in cards.values() if card["anomalies"]]

    def test_a_question_and_an_approval_of_one_turn_are_answered_each_by_its_own(
        self, server: Server, agent: Program
    ) -> None:
        run = agent.begin("questions")
        answer(server, run, decision="answer", **{"answer-0-text": "  <b>Ada</b> "})
        gating.vote(server, run, "approve")
        result = agent.end()
        await_run_end(server, run)
        assert result["saw"]["call_y"] == ["success", "<b>Ada</b>"], result
        assert result["ran"] == [["drop_table", "ask_b"]]

    @pytest.mark.parametrize(("kinds", "status"), [("respond", "success"), ("respond+reject", "error"),
                                                   ("respond+per_call", "success")])  # fmt: skip
    def test_the_model_reads_why_a_question_has_no_answer(
        self, server: Server, agent: Program, kinds: str, status: str
    ) -> None:
        run = agent.begin("question", kinds=kinds)
        answer(server, run, decision="deny", reason="ask me tomorrow")
        result = agent.end()
        assert result["saw"]["call_x"][0] == status and "ask me tomorrow" in result["saw"]["call_x"][1], result
        assert result["ran"] == [] and result["error"] == ""
        states = [card["state"] for card in await_run_end(server, run).values()]
        assert states == ["output-available" if "per_call" in kinds else "output-denied", "output-denied"]

    def test_an_agent_that_is_stopped_takes_its_question_back(self, server: Server, agent: Program) -> None:
        run = agent.begin("question-abort")
        until(lambda: any(card["tool"]["name"] == "elicitation/create" and card["state"] == "approval-requested"
                          for card in gating.calls(server, run).values()))  # fmt: skip
        agent.stop_it()
        agent.end()
        cards = await_run_end(server, run)
        assert [card["state"] for card in cards.values()] == ["output-error", "output-error"], cards
        waiting = server.get("/api/v1/approvals?state=waiting")["approvals"]
        assert not [each for each in waiting if each.get("run") == run]
