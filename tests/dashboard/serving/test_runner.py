"""The socket that the server listens on."""

from __future__ import annotations

import socket

import pytest

from dashboard.serving.runner import BUFFER, PROBES, open_socket


def test_every_connection_is_probed_so_that_one_without_a_peer_ends_and_keeps_little_unsent() -> None:
    """A peer that disappears sends no FIN: its streamed body would keep the run running for ever."""
    with open_socket("127.0.0.1", 0) as listening:
        listening.listen()
        with socket.create_connection(listening.getsockname()) as caller:
            accepted, _ = listening.accept()
            with accepted:
                assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                if not hasattr(socket, "TCP_KEEPIDLE"):
                    pytest.skip("not here: TCP_KEEPIDLE")
                times = [accepted.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in KEEP_ALIVE_OPTIONS]
                assert times == [PROBES[name] for name in KEEP_ALIVE_OPTIONS]
                assert times[0] + times[1] * times[2] <= 60
                unsent = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)
                assert unsent == BUFFER["TCP_NOTSENT_LOWAT"]
            assert caller.fileno() >= 0


KEEP_ALIVE_OPTIONS = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
