"""A call as Markdown, as JSON and as a curl command: what a call's page copies."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from dashboard.runs.call_text import build_curl_command, quote_block, quote_inline
from tests.support.server import KEY, PATIENCE, Server, with_curl
from tests.support.voter import Voter
from toolcards.core.calls import facts as f
from toolcards.core.calls.call_json import build_call_json
from toolcards.core.calls.card import Card, CardTool
from toolcards.models import Run, ToolCall

HOSTILE_TEXTS = st.text(alphabet="`~\n \r\t\\<>[]!a\u202e\x1b", max_size=60)


def fetch(client: Client, call: ToolCall, name: str) -> str:
    answer = client.get(f"/calls/{call.run_id}-{call.ordinal}/{name}")
    assert answer.status_code == 200
    assert answer["X-Content-Type-Options"] == "nosniff" and "no-store" in answer["Cache-Control"]
    return answer.content.decode()


@given(HOSTILE_TEXTS)
def test_a_code_span_holds_one_line_that_cannot_end_it(text: str) -> None:
    span = quote_inline(text)
    fence = re.match("`*", span).group()  # type: ignore[union-attr]
    assert "\n" not in span
    assert not span or re.findall("`+", span).count(fence) == 2
    assert not span or span.endswith(fence)


@given(HOSTILE_TEXTS)
def test_no_line_of_a_code_block_can_end_it(text: str) -> None:
    fence, *lines, end = quote_block(text).split("\n")
    assert fence == end and set(fence) == {"`"} and len(fence) >= 3
    assert not any(fence in line for line in lines)


@pytest.mark.django_db
def test_the_markdown_tells_what_the_page_tells(viewer: Client, a_run: Callable[..., Run]) -> None:
    run = a_run(
        "nightly", f.InputReady("c", "Bash", {"command": "echo ```"}, True),
        f.OutputFailed("c", "\x1b[31mexit 1\x1b[0m\n# not a heading"),
    )  # fmt: skip
    text = fetch(viewer, ToolCall.objects.get(run=run), "call.md")
    assert text.startswith("### ```` Run echo ``` ```` · Failed\n\n`Bash`\n")
    assert "- Run: `nightly`" in text and "**Input**\n\n````\n" in text
    assert "**Error**\n\n```\nexit 1\n# not a heading\n```" in text
    assert f"- Page: <http://testserver/calls/{run.pk}-1/>" in text


@pytest.mark.django_db
def test_the_json_is_the_call_of_the_api(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    call = a_call("output-available", tool="launch")
    expected = build_call_json(call.as_shown_card(), run="run-1", id=call.public_id)
    assert json.loads(fetch(viewer, call, "call.json")) == expected


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["call.md", "call.json", "call.sh"])
def test_secrets_are_masked_and_removed_calls_are_missing(viewer: Client, a_run: Callable[..., Run], name: str) -> None:
    run = a_run(
        "r", f.StepStarted(), f.InputReady("c", "Bash", {"password": "hunter2-secret"}, True), f.StepReset(),
        f.InputReady("d", "Bash", {"password": "hunter2-secret"}, True),
    )  # fmt: skip
    removed_call, shown_call = ToolCall.objects.filter(run=run).order_by("ordinal")
    assert viewer.get(f"/calls/{run.pk}-{removed_call.ordinal}/{name}").status_code == 404
    assert "hunter2" not in fetch(viewer, shown_call, name)


# ---------------------------------------------------------------- the curl command

NASTY = "'\"$(touch pwned)`id`\n\\ !! $HOME\nJSON\n\x7f\u202e\r\t%s é"
SHELL_TEXTS = st.text(alphabet="'\"$()`\\\n\r\t !%&;|<>#\0\x7f\u202e\x9fJSON{}", max_size=40)


@pytest.mark.slow
@given(SHELL_TEXTS, SHELL_TEXTS, st.recursive(SHELL_TEXTS, lambda inner: st.dictionaries(SHELL_TEXTS, inner)))
def test_the_here_document_holds_the_question_and_nothing_ends_it(call_id: str, tool: str, args: Any) -> None:
    card = Card(call_id, 1, tool=CardTool(tool), input=args, has_input=True, agent_path=(tool,))
    command = build_curl_command(ToolCall(run_id=1, ordinal=1), card, "http://localhost:8000/api/v1/calls/decide")
    _, _, *lines, end, last = command.split("\n")
    assert (end, last) == ("JSON", "") and "JSON" not in lines
    assert command.replace("\n", "").isprintable() and command.isascii()
    body = json.loads("\n".join(lines))
    assert body["args"] == args and body["call_id"] == call_id and body["run"] == "copy-of-1-1"
    assert body["tool"].get("name", "") == tool


def test_the_address_of_the_server_is_quoted() -> None:
    card = Card("c", 1, tool=CardTool("t"), input={}, has_input=True)
    command = build_curl_command(ToolCall(run_id=1, ordinal=1), card, "http://a'b$(id)/")
    assert "'http://a'\"'\"'b$(id)/'" in command


@pytest.mark.django_db
def test_a_call_without_a_whole_input_has_no_command(viewer: Client, a_run: Callable[..., Run]) -> None:
    run = a_run("r", f.InputStarted("c", "Bash"), f.InputDelta("c", '{"command"'), f.InputReady("d", "Bash", {}, True))
    cut, whole = ToolCall.objects.filter(run=run).order_by("ordinal")
    assert viewer.get(f"/calls/{run.pk}-{cut.ordinal}/call.sh").status_code == 404
    assert "Copy curl" not in viewer.get(f"/calls/{run.pk}-{cut.ordinal}/").content.decode()
    assert "Copy curl" in viewer.get(f"/calls/{run.pk}-{whole.ordinal}/").content.decode()


def test_the_command_asks_a_real_server_and_leaves_the_run_alone(server: Server, tmp_path: Any) -> None:
    args = {"command": NASTY, NASTY: [NASTY, 1.5, None, {"deep": "$(touch pwned)"}]}
    question = {"run": "real", "call_id": "it's $(touch pwned)", "tool": {"name": "Bash"}, "args": args}
    status, answer, _ = server.request("POST", "/api/v1/calls/decide", question)
    assert status == 200, answer
    (call,) = server.get("/api/v1/runs/real/calls")["calls"]
    before = server.get("/api/v1/runs/real")
    command = Voter(server).get(f"/calls/{call['id']}/call.sh")
    assert KEY not in command
    for _ in range(2):  # the same question: one call
        shell = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=with_curl() | {"TOOLCARDS_AGENT_KEY": KEY},
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        decision = json.loads(shell.stdout)
        assert decision["decision"] == "ask" and decision["call_id"] == question["call_id"], shell.stderr
    (copy,) = server.get(f"/api/v1/runs/{decision['run']}/calls")["calls"]
    assert (copy["input"], copy["tool"]) == (call["input"], call["tool"]) and copy["input"] == args
    assert not list(tmp_path.iterdir()) and server.get("/api/v1/runs/real") == before
