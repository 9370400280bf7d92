"""The limits of a server process, and the answers to connections and requests beyond them."""

from __future__ import annotations

import json
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.serving import limits as module
from dashboard.serving.limits import (
    HEAD_TOO_LARGE,
    IDLE,
    INVALID,
    KEEP_ALIVE,
    KEPT_FREE,
    NO_ROOM,
    RETRY_AFTER,
    TOO_MANY,
    TOO_SLOW,
    Peer,
    Refusal,
    UnknownPeers,
    find_refusal,
    read_limits,
)
from tests.support.tables import loop_over
from toolcards import outages
from toolcards.transports.api.admission import LINE, admit

REFUSALS = [INVALID, TOO_SLOW, TOO_MANY, HEAD_TOO_LARGE, NO_ROOM]


def parse(response: bytes) -> tuple[HTTPResponse, bytes]:
    """Return the response as a client reads it, and its body."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(response)
        ours.close()
        answer = HTTPResponse(theirs)
        answer.begin()
        return answer, answer.read()


@loop_over("refusal", [*REFUSALS, Refusal(400, "odd", 'Ä "quoted" text\r\nX-Evil: 1')])
def test_a_refusal_is_a_whole_answer_in_the_form_of_the_api(refusal: Refusal) -> None:
    answer, body = parse(refusal.response)
    assert (answer.status, answer.getheader("content-type")) == (refusal.status, "application/json")
    assert json.loads(body) == {"error": {"code": refusal.code, "message": refusal.message}}
    assert answer.getheader("connection") == "close" and answer.getheader("x-evil") is None
    assert answer.getheader("cache-control") == "no-store, private"
    expected = str(RETRY_AFTER) if refusal.status in (429, 503) else None
    assert answer.getheader("retry-after") == expected


def test_the_limits_are_those_of_the_settings(limits: Callable[..., None]) -> None:
    limits(head_seconds=1.5, body_seconds=2.5, stream_seconds=3.5, max_head=2_048, proxy=("10.0.0.1",))
    limits(max_unauthenticated=7)
    values = read_limits.__wrapped__()
    assert (values.head_seconds, values.body_seconds, values.stream_seconds) == (1.5, 2.5, 3.5)
    assert (values.max_head, values.proxies, values.unknown_peers.most) == (2_048, ("10.0.0.1",), 7)


def test_connections_are_kept_as_long_as_announced() -> None:
    assert (b"keep-alive", f"timeout={IDLE}".encode()) == KEEP_ALIVE


@pytest.fixture
def limit_descriptors() -> Iterator[Callable[[int], None]]:
    """Give `limit_descriptors(number)`: what this process may open, until the end of the test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda number: resource.setrlimit(resource.RLIMIT_NOFILE, (number, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class NumberedSocket(socket.socket):
    """A socket that gives its descriptor's number as another one, which may be in use in this process."""

    number = 0

    def fileno(self) -> int:
        return self.number


def find_refusal_of(number: int) -> Refusal | None:
    """Return the refusal of a socket whose descriptor has that number."""
    with NumberedSocket() as newest:
        newest.number = number
        return find_refusal(newest)


@pytest.mark.parametrize(("limit", "first_refused"), [(1_024, 1_024 - KEPT_FREE), (400, 400 - KEPT_FREE), (190, 95)])
def test_some_descriptors_stay_free_and_at_most_half(
    limit_descriptors: Callable[[int], None], limit: int, first_refused: int
) -> None:
    limit_descriptors(limit)
    assert find_refusal_of(first_refused - 1) is None
    assert find_refusal_of(first_refused) is NO_ROOM
    limit_descriptors(limit + 1_000)  # while the server runs
    assert find_refusal_of(first_refused) is None


def test_a_full_server_is_an_outage_until_there_is_room(limit_descriptors: Callable[[int], None]) -> None:
    def list_parts() -> list[Any]:
        return [outage.part for outage in outages.list_outages()]

    limit_descriptors(400)
    assert find_refusal(None) is None and list_parts() == []
    find_refusal_of(390)
    assert list_parts() == [outages.CONNECTING]
    find_refusal(None)
    assert list_parts() == []


def test_without_a_limit_of_the_system_there_is_always_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert find_refusal_of(900) is None


def test_an_address_enters_so_often_and_again_when_one_has_gone() -> None:
    unknown_peers = UnknownPeers(2)
    first, second = unknown_peers.enter("10.0.0.1"), unknown_peers.enter("10.0.0.1")
    assert first and second and unknown_peers.enter("10.0.0.1") is None and unknown_peers.enter("10.0.0.2")
    first.close()
    first.close()
    assert unknown_peers.enter("10.0.0.1") and unknown_peers.enter("10.0.0.1") is None


def test_the_oldest_that_gives_way_makes_room() -> None:
    unknown_peers, value = UnknownPeers(3), []

    def gives_way(name: str, does: bool) -> Callable[[], bool]:
        return lambda: value.append(name) or does

    first, second, third = (unknown_peers.enter("10.0.0.1", gives_way(name, name != "a")) for name in "abc")
    assert first and second and third and unknown_peers.enter("10.0.0.1") and value == ["a", "b"]
    assert len(unknown_peers) == 3
    second.close()
    assert len(unknown_peers) == 3 and unknown_peers.enter("10.0.0.1") and unknown_peers.enter("10.0.0.1") is None


def test_who_is_known_is_not_counted() -> None:
    unknown_peers = UnknownPeers(1)
    for _ in range(5):
        peer = unknown_peers.enter("10.0.0.1")
        assert peer
        admit({LINE: (peer,)}, streams=True)
        assert peer.is_known and peer.streams
        peer.next_request()
        assert not (peer.is_known or peer.streams)
        peer.close()
    assert len(unknown_peers) == 0


@pytest.mark.parametrize("scope", [None, {}, {LINE: ()}, {LINE: (Peer(),)}])
def test_a_server_without_peers_in_the_scope_is_left_alone(scope: dict[str, object] | None) -> None:
    admit(scope)


@given(st.lists(st.tuples(st.sampled_from(["10.0.0.1", "10.0.0.2"]), st.booleans()), max_size=40))
def test_the_crowd_is_empty_once_all_have_gone(moves: list[tuple[str, bool]]) -> None:
    unknown_peers, inside = UnknownPeers(3), []
    for address, enters in moves:
        if enters and (peer := unknown_peers.enter(address)):
            inside.append(peer)
        elif inside and not enters:
            inside.pop().admit()
        assert len(unknown_peers) == len(inside) <= 6
    for peer in inside:
        peer.close()
    assert len(unknown_peers) == 0 and not unknown_peers._places


def test_threads_do_not_lose_count() -> None:
    unknown_peers = UnknownPeers(10_000)

    def come_and_go() -> None:
        for _ in range(500):
            peer = unknown_peers.enter("10.0.0.1")
            assert peer
            peer.close()

    threads = [threading.Thread(target=come_and_go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(unknown_peers) == 0
