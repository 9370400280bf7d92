"""A call as Markdown and as JSON: what a call's page copies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from dashboard.runs.call_text import quote_block, quote_inline
from toolcards.core.calls import facts as f
from toolcards.core.calls.call_json import build_call_json
from toolcards.models import Run, ToolCall

HOSTILE_TEXTS = st.text(alphabet="`~\n \r\t\\<>[]!a\u202e\x1b", max_size=60)


@pytest.fixture
def viewer(client: Client, a_person: Callable[..., Any]) -> Client:
    client.force_login(a_person("viewer", "vera"))
    return client


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
        f.OutputFailed("c", "exit 1\n# not a heading"),
    )  # fmt: skip
    text = fetch(viewer, ToolCall.objects.get(run=run), "call.md")
    assert text.startswith("### `Bash` · Failed\n")
    assert "- Run: `nightly`" in text and "**Input**\n\n````\n" in text
    assert "**Error**\n\n```\nexit 1\n# not a heading\n```" in text
    assert f"- Page: <http://testserver/calls/{run.pk}-1/>" in text


@pytest.mark.django_db
def test_the_json_is_the_call_of_the_api(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    call = a_call("output-available", tool="launch")
    expected = build_call_json(call.as_shown_card(), run="run-1", id=call.public_id)
    assert json.loads(fetch(viewer, call, "call.json")) == expected


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["call.md", "call.json"])
def test_secrets_are_masked_and_removed_calls_are_missing(viewer: Client, a_run: Callable[..., Run], name: str) -> None:
    run = a_run(
        "r", f.StepStarted(), f.InputReady("c", "Bash", {"password": "hunter2-secret"}, True), f.StepReset(),
        f.InputReady("d", "Bash", {"password": "hunter2-secret"}, True),
    )  # fmt: skip
    removed, shown = ToolCall.objects.filter(run=run).order_by("ordinal")
    assert viewer.get(f"/calls/{run.pk}-{removed.ordinal}/{name}").status_code == 404
    assert "hunter2" not in fetch(viewer, shown, name)
