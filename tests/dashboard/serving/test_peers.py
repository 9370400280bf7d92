"""Who is counted, until when, and what is one address."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.serving.peers import Peer, UnknownPeers
from toolcards.transports.api.admission import LINE, admit


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
