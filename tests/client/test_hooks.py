"""Plugins in the agent's process, and what of the server's code the client carries along."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import PATIENCE
from toolcards.client import gated, hooks
from toolcards.client.decisions.answers import Decision, Denied

ROOT = Path(__file__).parents[2] / "toolcards"


@pytest.fixture(autouse=True)
def _unplugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(hooks, "LIMIT", PATIENCE)
    yield
    hooks.drain()
    hooks.clear()


class Cards:
    """A server that allows everything but `no`."""

    url, key = "http://127.0.0.1:9", "tck_x"

    def __init__(self, effect: str = "allow") -> None:
        self.effect, self.results, self.questions = effect, list[Any](), list[Any]()

    def ask(self, run: str, call_id: str, tool: str, args: Any, **more: Any) -> Decision:
        self.questions.append(args)
        return Decision(self.effect, call_id=call_id, code="rule_denied", text="No.", args=args)

    async def aask(self, *args: Any, **more: Any) -> Decision:
        return self.ask(*args, **more)

    def end(self, run: str, **more: Any) -> bool:
        return True

    def result(self, *args: Any, **more: Any) -> bool:
        self.results.append(more)
        return True


class Ears:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def after(self, call: dict[str, Any]) -> None:
        self.messages.append(call)

    error = settled = after

    @property
    def events(self) -> list[str]:
        hooks.drain()
        return [call["event"].rpartition(".")[2] for call in self.messages]


class Before:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def before(self, call: dict[str, Any]) -> Any:
        return self.answer(call)


def raising(error: BaseException) -> Any:
    def answer(call: Any) -> None:
        raise error

    return answer


def plugged(*plugins: Any) -> Ears:
    ears = Ears()
    for plugin in (*plugins, ears):
        hooks.register(plugin)
    return ears


def test_a_success_a_failure_and_an_interruption_are_distinguished() -> None:
    ears = plugged()
    cards: Any = Cards()
    assert gated(cards)(lambda x: x + 1)(1) == 2
    with pytest.raises(ConnectionRefusedError):
        gated(cards)(raising(ConnectionRefusedError()))(1)
    with pytest.raises(KeyboardInterrupt):
        gated(cards)(raising(KeyboardInterrupt()))(1)
    assert ears.events == ["after", "settled", "error", "settled", "settled"]
    assert [call.get("outcome") for call in ears.messages if "outcome" in call] == ["ok", "error", "aborted"]
    error = next(call for call in ears.messages if call["event"].endswith("error"))
    assert (error["error"]["code"], error["retryable"], error["authority"]) == ("connect_failed", True, "tool")
    assert cards.results[1]["error"]["code"] == "connect_failed" and cards.results[2]["outcome"] == "aborted"


def test_a_veto_is_denied_before_anybody_is_asked_and_a_crash_is_no_veto() -> None:
    for answer, code in ((raising(hooks.Veto("Not today.")), "plugin_veto"), (raising(KeyError()), "plugin_crash"),
                         (lambda call: "yes", "plugin_crash")):  # fmt: skip
        ears, cards = plugged(Before(answer)), Cards()
        with pytest.raises(Denied) as caught:
            gated(cards)(lambda x: x)(1)  # type: ignore[arg-type]
        assert caught.value.decision.code == code and not cards.questions
        assert ears.events == ["error", "settled"]
        hooks.clear()


def test_replaced_arguments_are_the_ones_that_are_asked_about() -> None:
    plugged(Before(lambda call: {"input": {"x": call["input"]["x"] * 10}}))
    cards: Any = Cards()
    assert gated(cards)(lambda x: x)(4) == 40 and cards.questions == [{"x": 40}]


def test_a_plugin_that_takes_too_long_stops_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(hooks, "LIMIT", 0.05)
    plugged(Before(lambda call: release.wait(PATIENCE) and None))
    with pytest.raises(Denied) as caught:
        gated(Cards())(lambda x: x)(1)  # type: ignore[arg-type]
    release.set()
    assert caught.value.decision.code == "plugin_timeout"


def test_a_call_that_is_aborted_during_before_is_settled_after_it() -> None:
    outcomes: list[str] = []
    is_running, goes_on = threading.Event(), threading.Event()

    class Slow:
        def before(self, call: dict[str, Any]) -> None:
            is_running.set()
            goes_on.wait(PATIENCE)
            outcomes.append("before")

        def settled(self, call: dict[str, Any]) -> None:
            outcomes.append(call["outcome"])

    hooks.register(Slow())
    attempt = hooks.Attempt("r", "c", "Bash")
    thread = threading.Thread(target=attempt.before, args=({},))
    thread.start()
    assert is_running.wait(PATIENCE)
    attempt.settle("aborted")
    goes_on.set()
    thread.join(PATIENCE)
    attempt.settle("ok")  # too late
    hooks.drain()
    assert outcomes == ["before", "aborted"]


def test_plugins_receive_nothing_about_a_call_aborted_earlier_than_its_before() -> None:
    ears = plugged(Before(raising(hooks.Veto("It must not be called."))))
    attempt = hooks.Attempt("r", "c", "Bash")
    attempt.settle("aborted")
    assert attempt.before({"x": 1}) == {"x": 1}
    assert ears.events == []


def test_a_task_that_is_canceled_during_before_is_settled() -> None:
    is_running, goes_on = threading.Event(), threading.Event()

    def wait(call: Any) -> None:
        is_running.set()
        goes_on.wait(PATIENCE)

    ears = plugged(Before(wait))

    async def call() -> int:
        return 1

    async def cancel() -> None:
        cards: Any = Cards()
        task = asyncio.ensure_future(gated(cards)(call)())
        await asyncio.to_thread(is_running.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        goes_on.set()
        while not ears.events:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(cancel(), PATIENCE))
    assert ears.events == ["settled"] and ears.messages[0]["outcome"] == "aborted"


def test_a_denial_by_the_gate_is_settled_too() -> None:
    ears = plugged()
    with pytest.raises(Denied):
        gated(Cards("deny"))(lambda x: x)(1)  # type: ignore[arg-type]
    assert ears.events == ["error", "settled"] and ears.messages[0]["error"]["code"] == "policy_denied"


def test_a_client_that_is_stopped_while_waiting_closes_what_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    ears, cards = plugged(Before(lambda call: None)), Cards()
    monkeypatch.setattr(cards, "ask", lambda *args, **more: raising(KeyboardInterrupt())(None))
    with pytest.raises(KeyboardInterrupt):
        gated(cards)(lambda x: x)(1)  # type: ignore[arg-type]
    assert ears.events == ["settled"] and ears.messages[0]["outcome"] == "aborted"
    ears.messages.clear()
    monkeypatch.setattr(hooks, "_call_with_limit", lambda *args: raising(KeyboardInterrupt())(None))  # Ctrl-C meanwhile
    attempt = hooks.Attempt("r", "c", "t")
    with pytest.raises(KeyboardInterrupt):
        attempt.before({})
    monkeypatch.undo()
    assert not attempt.open


def test_a_crash_afterwards_changes_nothing() -> None:
    class Bad:
        def after(self, call: Any) -> None:
            raise KeyError

        settled = after

    ears = plugged(Bad())
    assert gated(Cards())(lambda x: x)(1) == 1  # type: ignore[arg-type]
    assert ears.events == ["after", "settled"]


def test_async_functions_are_reported_too() -> None:
    ears = plugged()

    async def work(x: int) -> int:
        return x

    assert asyncio.run(gated(Cards())(work)(3)) == 3  # type: ignore[arg-type]
    assert ears.events == ["after", "settled"]


def test_an_unusable_input_is_requested_again_and_evaluated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcards.client import Toolcards

    cards, value = Toolcards("http://127.0.0.1:9", "key"), list[Any]()

    def decide(run: str, call_id: str, tool: str, args: Any, *, attempt: int = 1, **more: Any) -> Decision:
        value.append((tool, call_id, args, attempt))
        code = "rule_denied" if args == {"city": "Rome"} else "invalid_input"
        places = [{"pointer": "", "keyword": "required", "missing": ["city"]}]
        return Decision("deny", call_id=call_id, code=code, raw={"places": places})

    monkeypatch.setattr(cards, "decide", decide)
    answers = iter([{"city": "Rome"}, None])
    assert cards.ask("r", "c", "weather", {}, reask=lambda payload: next(answers)).code == "rule_denied"
    assert value == [("weather", "c", {}, 1), ("weather", "c", {"city": "Rome"}, 2)]
    assert cards.ask("r", "c", "weather", {}, reask=lambda payload: next(answers)).code == "invalid_input"
    assert cards.ask("r", "c", "weather", {}, reask=raising(KeyError())).code == "invalid_input"
    assert len(value) == 4
