"""The page of a call."""

from __future__ import annotations

from typing import Any

from django.test import Client

from toolcards.core.calls import facts as f
from toolcards.models import ToolCall


def test_a_failed_card_says_whose_fault_and_whether_to_try_again(a_run: Any, client: Client, a_person: Any) -> None:
    a_run("r", f.InputReady("c", "bash", {"command": "ls"}, True), f.OutputFailed("c", "boom", "timeout"))
    client.force_login(a_person("viewer"))
    call = ToolCall.objects.get()
    page = client.get(f"/calls/{call.public_id}/").content.decode()
    for words in ("No answer in time", "Try again?", "Cause", "the tool", "Similar failures", "boom"):
        assert words in page
