"""The server as a terminal sees it: an answer counts for what was call, and refusals are for the person."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.server import Server
from tests.support.terminals import get_state
from toolcards.terminal.approvals_client import ApprovalsClient, RequestFailed


@pytest.mark.slow
def test_an_answer_to_what_has_changed_is_refused(own_server: Server, token: str, question: Any) -> None:
    server, approval = ApprovalsClient(own_server.base, token), question()
    (call,) = server.list_waiting()
    call.ballot["args_sha256"] = "0" * 64
    with pytest.raises(RequestFailed, match="not the arguments you saw"):
        server.vote(call, "approve")
    assert get_state(own_server, approval)["approval"]["state"] == "pending"


@pytest.mark.slow
def test_who_comes_second_hears_who_was_first(own_server: Server, token: str, question: Any) -> None:
    server, _ = ApprovalsClient(own_server.base, token), question()
    (call,) = server.list_waiting()
    server.vote(call, "deny")
    with pytest.raises(RequestFailed, match="Already denied by bea"):
        server.vote(call, "approve")


def test_an_id_is_one_part_of_the_address(own_server: Server, token: str) -> None:
    with pytest.raises(RequestFailed, match="Not found"):
        ApprovalsClient(own_server.base, token).undo("../../runs?x=")
