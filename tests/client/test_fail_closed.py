"""What ends a question with a deny: the clock, a server that is gone, forgets or hangs, and what cannot be asked.

Answers that cannot be used are in bad_answers.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_gate import AWAY, Answer, Gate, answer_in_order, plain
from tests.support.server import PATIENCE, until
from tests.support.silent_server import Hole
from toolcards.client import Denied, Toolcards, gated
from toolcards.client.plain import Tools


def asks(tamper: Callable[[str, Any], Answer | None]) -> Gate:
    return Gate({"bash": "ask"}, tamper=tamper)


def test_no_server_denies() -> None:
    decision = Toolcards("http://127.0.0.1:9", "key", timeout=1).decide("r1", "c1", "bash", {})
    assert decision.effect == "deny"


@pytest.mark.parametrize("args", [
    {"a": object()}, {"a": float("nan")}, {"a": {1, 2}}, {"a": 2**53}, {"a": "\ud800"}, {"\0": 1},
])  # fmt: skip
def test_arguments_that_cannot_be_judged_are_denied(args: Any) -> None:
    with Gate() as gate:
        assert Toolcards(gate.url, "key").decide("r1", "c1", "bash", args).effect == "deny"
    assert gate.requests == []


@pytest.mark.parametrize("tool", ["bash\0", "bash\ud800", {"name": "bash", "source": "\0"}])
def test_tools_that_cannot_be_judged_are_denied(tool: Any) -> None:
    with Gate() as gate:
        assert Toolcards(gate.url, "key").decide("r1", "c1", tool, {}).effect == "deny"
    assert gate.requests == []


def test_over_a_socket_too_and_the_card_says_so() -> None:
    with Gate() as gate, Toolcards(gate.url, "key").run("r1", linger=PATIENCE) as run:
        assert run.call("bash", "c1").decision_now({"a": 2**53}).code == "invalid_args"
        assert run.flush(PATIENCE)
    assert "tool.input.invalid" in gate.stages() and gate.calls == []


@pytest.mark.slow
def test_a_server_that_takes_connections_and_never_answers_denies() -> None:
    """By HTTP and by WebSocket, each within its own limit, and it says so."""
    ran: list[int] = []
    with Hole() as hole:
        cards = Toolcards(hole.url, "key", timeout=0.5)
        decision = cards.ask("r1", "c1", "bash", {})
        assert (decision.effect, decision.text) == (
            "deny",
            "The gate gave no decision, so the call did not run: timed out",
        )
        with pytest.raises(Denied, match="timed out"):
            gated(cards, run="r1")(lambda: ran.append(1))()
        with cards.run("r2", offline=0.5, linger=0.5) as run:
            result = run.call("bash", "c2").decision_now({})
            assert (result.effect, result.code) == ("deny", "gate_unavailable")
            assert "did not answer in time" in result.text
            assert Tools({"bash": lambda: ran.append(2)}).call("bash", {}, "c3").state == "output-denied"
        until(lambda: hole.swallowed)
    assert ran == []


def test_a_forgotten_question_denies_at_once() -> None:
    with asks(answer_in_order(plain({}, status="404 Not Found"))) as gate:
        cards = Toolcards(gate.url, "key", timeout=PATIENCE)
        assert cards.wait(cards.decide("r1", "c1", "bash", {})).effect == "deny"


def test_a_permit_that_expired_meanwhile_denies() -> None:
    expired_answer = plain({"error": {"code": "expired", "message": "This permit has expired."}}, status="410 Gone")
    with Gate(tamper=answer_in_order(expired_answer, stage="claim")) as gate:
        decision = Toolcards(gate.url, "key", timeout=PATIENCE).ask("r1", "c1", "bash", {})
    assert decision.effect == "deny" and "expired" in decision.text


def test_a_denied_function_does_not_run() -> None:
    ran: list[str] = []
    with Gate(tamper=answer_in_order(AWAY, stage="decide")) as gate:

        @gated(Toolcards(gate.url, "key", timeout=PATIENCE), run="r1")
        def delete(path: str) -> None:
            ran.append(path)

        with pytest.raises(Denied, match="later"):
            delete("/")
    assert ran == []


def test_a_decision_of_no_question_is_neither_waited_for_nor_claimed() -> None:
    from toolcards.client import Decision

    cards = Toolcards("http://127.0.0.1:9", "key")
    assert cards.wait(Decision("ask", call_id="c1", approval="apr_1")).effect == "deny"
    assert cards.claim(Decision("allow", call_id="c1", permit="prm_1")).effect == "deny"


def test_an_argument_that_hides_another_does_not_run() -> None:
    """The page would show one `path`, and the function would use the other."""
    ran: list[Any] = []
    with Gate({"bash": "allow"}) as gate:

        @gated(Toolcards(gate.url, "key", timeout=PATIENCE), run="r1", tool="bash")
        def delete(path: str, /, **options: Any) -> None:
            ran.append((path, options))

        with pytest.raises(TypeError, match="'path'"):
            delete("/etc", path="/tmp/x")
        with pytest.raises(Denied, match="duplicate key"):
            delete("/etc", names={1: "shown", "1": "hidden"})
        assert ran == []
        delete("/tmp/x", force=True)
    assert ran == [("/tmp/x", {"force": True})]


async def test_a_wrapped_async_function_is_reported_when_it_has_run() -> None:
    with Gate({"bash": "allow"}) as gate:

        async def fetch(path: str) -> str:
            assert "result" not in gate.stages()  # not before it ran
            if path == "/":
                raise OSError("gone")
            return f"ran {path}"

        @gated(Toolcards(gate.url, "key", timeout=PATIENCE), run="r1", tool="bash")
        def fetch_later(path: str) -> Any:
            return fetch(path)

        assert await fetch_later("/tmp") == "ran /tmp"
        gate.requests.clear()
        with pytest.raises(OSError, match="gone"):
            await fetch_later("/")
        assert gate.requests[-1][1]["error"]["message"] == "gone"


def test_tools_run_async_functions_in_plain_code_and_wrapped_ones_in_async_code() -> None:
    async def bash(command: str) -> str:
        await asyncio.sleep(0)
        return f"ran {command}"

    def bash_later(command: str) -> Any:
        return bash(command)

    async def call_all(cards: Toolcards, tools: Tools) -> list[Any]:
        async with cards.run("r2", linger=PATIENCE):
            return [(await tools.acall(name, {"command": "ls"}, name)).value for name in ("bash", "bash_later")]

    with Gate({"bash": "allow", "bash_later": "allow"}) as gate:
        cards, tools = Toolcards(gate.url, "key", timeout=PATIENCE), Tools({"bash": bash, "bash_later": bash_later})
        with cards.run("r1", linger=PATIENCE):
            assert [tools.call(name, {"command": "ls"}, name).value for name in ("bash", "bash_later")] == [
                "ran ls"
            ] * 2
        assert asyncio.run(call_all(cards, tools)) == ["ran ls"] * 2


def test_gated_refuses_generators() -> None:
    def later() -> Any:
        yield

    with pytest.raises(TypeError, match="generator"):
        gated(Toolcards("http://127.0.0.1:9", "k"), run="r1")(later)


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8000", "http://"])
def test_an_address_must_be_one(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Toolcards(url, "key")
