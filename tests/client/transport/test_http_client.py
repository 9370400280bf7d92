"""Connections of the Python client: reuse, closed connections, one retry, and no answer of another request."""

from __future__ import annotations

import json
import multiprocessing
import os
import select
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_gate import Answer, Gate, plain, response
from tests.support.server import PATIENCE, until
from toolcards.client import Toolcards
from toolcards.client.transport.http_client import MAX_IDLE, HttpClient, Unreachable

Tamper = Callable[[str, Any], Answer | None]


def client(gate: Gate, **more: Any) -> Toolcards:
    return Toolcards(gate.url, "key", timeout=PATIENCE, **more)


def asks(cards: Toolcards, number: int) -> bool:
    return cards.ask("r1", f"c{number}", "bash", {"n": number}).allowed


def requests_that_wait(gate: Gate) -> list[str]:
    """Return the stages of the requests whose answer a caller waits for.

    The report about a lost decision is sent in the background and may arrive at any time.
    """
    return [stage for stage in gate.stages() if stage != "result"]


def once(stage: str, answer: Answer, *, after: int = 0) -> Tamper:
    """Give this answer at this stage one time, after so many honest ones."""
    countdown = [after, 1]

    def tamper(now: str, honest: Any) -> Answer | None:
        if now != stage or not countdown[1]:
            return None
        if countdown[0]:
            countdown[0] -= 1
            return None
        countdown[1] = 0
        return answer

    return tamper


@pytest.mark.parametrize(("keep_alive", "connections"), [(True, 1), (False, 20)])
def test_connections_are_reused_unless_keep_alive_is_off(keep_alive: bool, connections: int) -> None:
    with Gate() as gate:
        cards = client(gate, keep_alive=keep_alive)
        assert all(asks(cards, number) for number in range(10))
    assert gate.connections == connections


def test_a_connection_that_the_server_closed_while_it_idled_is_not_used() -> None:
    """If the end has arrived, nothing is sent, so no request arrives twice."""
    with Gate(idle=lambda count: True) as gate:
        cards = client(gate)
        assert all(asks(cards, number) for number in range(5))
    assert gate.stages() == ["decide", "claim"] * 5


@pytest.mark.parametrize("stage", ["decide", "poll", "claim"])
def test_a_reused_connection_that_closes_without_a_byte_is_retried(stage: str) -> None:
    effects = {"bash": "ask" if stage == "poll" else "allow"}
    with Gate(effects, tamper=once(stage, Answer([]), after=1)) as gate:
        cards = client(gate)
        assert asks(cards, 0) and asks(cards, 1)
    assert gate.stages().count(stage) == 3 and gate.connections == 2


def test_a_request_is_retried_only_once() -> None:
    honest = [None]

    def tamper(stage: str, value: Any) -> Answer | None:
        return honest.pop() if honest else Answer([])

    with Gate(tamper=tamper) as gate:
        cards = client(gate)
        assert cards.decide("r1", "c1", "bash", {}).allowed
        assert not cards.decide("r1", "c2", "bash", {}).allowed
    assert requests_that_wait(gate) == ["decide"] * 3


@pytest.mark.parametrize(
    "answer", [Answer([]), Answer([b"H"]), Answer([b"HTTP/1.1 200 OK\r\n"]), Answer([response(b"{}")[:-1]])]
)
def test_a_fresh_connection_is_never_tried_again(answer: Answer) -> None:
    with Gate(tamper=lambda stage, honest: answer) as gate:
        assert not client(gate).decide("r1", "c1", "bash", {}).allowed
    assert requests_that_wait(gate) == ["decide"]


@pytest.mark.parametrize("answer", [Answer([b"H"]), Answer([b"HTTP/1.1 200 OK\r\n"]), Answer([response(b"{}")[:-1]])])
def test_a_reused_connection_that_began_to_answer_is_not_tried_again(answer: Answer) -> None:
    with Gate(tamper=once("decide", answer, after=1)) as gate:
        cards = client(gate)
        assert asks(cards, 0) and not asks(cards, 1)
    assert requests_that_wait(gate) == ["decide", "claim", "decide"]


def test_a_reused_connection_that_stops_responding_is_not_retried() -> None:
    release = threading.Event()

    def hold_first(stage: str, honest: Any) -> Answer | None:
        if stage == "decide" and honest["call_id"] == "c1" and gate.stages().count("decide") == 2:
            release.wait(PATIENCE)
        return None  # honest, so that a second attempt would be allowed

    with Gate(tamper=hold_first) as gate:
        cards = client(gate)
        assert asks(cards, 0)
        cards.timeout = 0.5
        assert not asks(cards, 1)
        until(lambda: requests_that_wait(gate) == ["decide", "claim", "decide"])
        release.set()
    assert requests_that_wait(gate) == ["decide", "claim", "decide"]


def is_bait_there(cards: Toolcards) -> bool:
    """Return whether more than the first answer has arrived; a connection where it came with that answer is closed."""
    return all(select.select([link.sock], [], [], 0)[0] for link, _ in cards._http._idle._links)


@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_an_answer_too_many_is_for_no_later_question(pause: float) -> None:
    """The server answers twice; the second one, an allow for the next call, lies in wait on the connection."""

    def twice(stage: str, honest: Any) -> Answer | None:
        if stage != "decide" or honest["call_id"] != "c1":
            return None
        bait = dict(honest, call_id="c2", decision="allow")
        first, second = (response(json.dumps(each).encode()) for each in (honest, bait))
        return Answer([first, pause, second] if pause else [first + second], close=False)

    with Gate({"bash": "deny"}, tamper=twice) as gate:
        cards = client(gate)
        assert not cards.decide("r1", "c1", "bash", {}).allowed
        until(lambda: is_bait_there(cards))
        denied = cards.decide("r1", "c2", "bash", {})
    assert (denied.allowed, denied.code) == (False, "rule_deny")
    assert gate.connections >= 2


def test_a_late_answer_is_for_no_later_question() -> None:
    """The first question timed out; its answer comes while the second is open."""
    is_second_open, is_late_sent = threading.Event(), threading.Event()

    def be_late(stage: str, honest: Any) -> Answer | None:
        if stage == "decide" and honest["call_id"] == "c1":
            is_second_open.wait(PATIENCE)
            is_late_sent.set()
            return plain({"decision": "allow", "call_id": "c2"})
        if stage == "decide":
            is_second_open.set()
            is_late_sent.wait(PATIENCE)
        return None

    with Gate(tamper=be_late) as gate:
        cards = Toolcards(gate.url, "key", timeout=0.3)
        assert not cards.decide("r1", "c1", "bash", {}).allowed
        cards.timeout = PATIENCE
        assert asks(cards, 2)
    assert gate.connections >= 2


def test_threads_share_a_client_and_each_gets_its_own_answer() -> None:
    right: list[bool] = []

    def work(number: int) -> None:
        for turn in range(10):
            args = {"n": number, "turn": turn}
            decision = cards.ask("r1", f"c{number}-{turn}", "bash", args)
            right.append(decision.allowed and decision.args == args)

    with Gate() as gate:
        cards = client(gate)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert right == [True] * 160
    assert len(cards._http._idle._links) <= MAX_IDLE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own() -> None:
    """Two processes on one socket would read each other's answers. Async code works in the child, too."""

    def child(number: int, results: Any) -> None:
        import asyncio

        result = asyncio.run(cards.aask("r1", f"child-{number}", "bash", {"n": number}))
        results.put(result.allowed and asks(cards, 100 + number))

    with Gate() as gate:
        cards = client(gate)
        assert asks(cards, 0)
        import asyncio

        assert asyncio.run(cards.aask("r1", "parent", "bash", {})).allowed  # its threads do not exist in the child
        context = multiprocessing.get_context("fork")
        results: Any = context.Queue()
        children = [context.Process(target=child, args=(number, results)) for number in range(3)]
        for each in children:
            each.start()
        assert [results.get(timeout=PATIENCE) for _ in children] == [True] * 3
        assert asks(cards, 1)
        for each in children:
            each.join(PATIENCE)
    assert gate.connections >= 4


@pytest.mark.parametrize("header", ["a\r\nX: y", "ключ"])
def test_a_key_that_is_no_header_is_unreachable_and_no_crash(header: str) -> None:
    with Gate() as gate, pytest.raises(Unreachable) as raised:
        HttpClient(gate.url, {"Authorization": f"Bearer {header}"}, keep_alive=True).request("GET", "/", None, 5)
    assert "copy the key again" in str(raised.value) and header not in str(raised.value)


def test_a_key_with_the_line_break_of_its_file_is_a_key() -> None:
    with Gate() as gate:
        assert asks(Toolcards(gate.url, "key\r\n", timeout=PATIENCE), 1)


def test_a_denial_does_not_show_the_model_a_key_that_cannot_be_sent() -> None:
    decision = Toolcards("http://127.0.0.1:9", "tck_secret\nsecond line").decide("r1", "c1", "bash", {})
    assert decision.effect == "deny" and "tck_secret" not in decision.text and "copy the key again" in decision.text
