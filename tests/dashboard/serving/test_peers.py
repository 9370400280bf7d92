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
    crowd = UnknownPeers(2)
    first, second = crowd.enter("10.0.0.1"), crowd.enter("10.0.0.1")
    assert first and second and crowd.enter("10.0.0.1") is None and crowd.enter("10.0.0.2")
    first.close()
    first.close()
    assert crowd.enter("10.0.0.1") and crowd.enter("10.0.0.1") is None


def test_the_oldest_that_gives_way_makes_room() -> None:
    crowd, value = UnknownPeers(3), []

    def gives_way(name: str, does: bool) -> Callable[[], bool]:
        return lambda: value.append(name) or does

    first, second, third = (crowd.enter("10.0.0.1", gives_way(name, name != "a")) for name in "abc")
    assert first and second and third and crowd.enter("10.0.0.1") and value == ["a", "b"]
    assert len(crowd) == 3
    second.close()
    assert len(crowd) == 3 and crowd.enter("10.0.0.1") and crowd.enter("10.0.0.1") is None


def test_who_is_known_is_not_counted() -> None:
    crowd = UnknownPeers(1)
    for _ in range(5):
        peer = crowd.enter("10.0.0.1")
        assert peer
        admit({LINE: (peer,)}, streams=True)
        assert peer.is_known and peer.streams
        peer.next_request()
        assert not (peer.is_known or peer.streams)
        peer.close()
    assert len(crowd) == 0


@pytest.mark.parametrize("scope", [None, {}, {LINE: ()}, {LINE: (Peer(),)}])
def test_a_server_without_peers_in_the_scope_is_left_alone(scope: dict[str, object] | None) -> None:
    admit(scope)


@given(st.lists(st.tuples(st.sampled_from(["10.0.0.1", "10.0.0.2"]), st.booleans()), max_size=40))
def test_the_crowd_is_empty_once_all_have_gone(moves: list[tuple[str, bool]]) -> None:
    crowd, inside = UnknownPeers(3), []
    for address, enters in moves:
        if enters and (peer := crowd.enter(address)):
            inside.append(peer)
        elif inside and not enters:
            inside.pop().admit()
        assert len(crowd) == len(inside) <= 6
    for peer in inside:
        peer.close()
    assert len(crowd) == 0 and not crowd._places


def test_threads_do_not_lose_count() -> None:
    crowd = UnknownPeers(10_000)

    def come_and_go() -> None:
        for _ in range(500):
            peer = crowd.enter("10.0.0.1")
            assert peer
            peer.close()

    threads = [threading.Thread(target=come_and_go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(crowd) == 0
