"""A run as a file: everything the page shows, nothing more, and nothing in it that runs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dashboard.cards import labels
from dashboard.runs import export
from toolcards.core.calls import facts as f
from toolcards.core.calls.call_json import build_call_json
from toolcards.models import Run, ToolCall

pytestmark = pytest.mark.django_db
ATTACK = '</pre><script>alert(1)</script><img src=x onerror="alert(2)">'


def download(client: Client, call: ToolCall, name: str) -> str:
    answer: Any = client.get(f"/export/runs/{call.run_id}/{name}")
    assert answer.status_code == 200 and answer["Content-Disposition"].startswith("attachment; ")
    assert answer["X-Content-Type-Options"] == "nosniff" and "no-store" in answer["Cache-Control"]
    return b"".join(answer.streaming_content).decode()


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))


def test_json_lines_hold_the_calls_of_the_api(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    call = a_call("output-available", tool="launch")
    calls = [call, a_call("approval-requested", call_id="call-2")]
    exported = [json.loads(line) for line in download(viewer, call, "calls.jsonl").splitlines()]
    assert exported == [build_call_json(call.as_shown_card(), run="run-1", id=call.public_id) for call in calls]


@pytest.mark.parametrize("name", ["calls.jsonl", "calls.csv", "run.html"])
def test_removed_calls_are_in_no_file(viewer: Client, a_run: Callable[..., Run], name: str) -> None:
    run = a_run("r", f.StepStarted(), f.InputStarted("c", "vanishing"), f.StepReset(), f.InputStarted("d", "staying"))
    text = download(viewer, ToolCall.objects.filter(run=run)[0], name)
    assert "vanishing" not in text and "staying" in text


def test_the_page_of_a_run_links_to_its_files(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    call = a_call("output-available")
    html = viewer.get("/runs/run-1/").content.decode()
    assert all(f"/export/runs/{call.run_id}/{name}" in html for name in ("run.html", "calls.csv", "calls.jsonl"))


def test_long_runs_are_read_in_chunks_without_loss(
    viewer: Client, a_call: Callable[..., ToolCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "CHUNK", 2)
    calls = [a_call("output-available", call_id=f"call-{number}") for number in range(5)]
    rows = read_csv(download(viewer, calls[0], "calls.csv"))
    assert [row["call_id"] for row in rows] == [call.call_id for call in calls]


@pytest.mark.parametrize(
    "formula", ["=1+1", "+1", "-1", "@SUM(A1)", " =1+1", "\t=1", "\uff1d1+1", '"=1', "=cmd|' /C calc'!A0", "|x", "%x"]
)
def test_no_cell_begins_like_a_formula(viewer: Client, a_call: Callable[..., ToolCall], formula: str) -> None:
    call = a_call("output-available", tool=formula, input={"command": formula}, call_id=formula)
    (row,) = read_csv(download(viewer, call, "calls.csv"))
    assert not any(cell.lstrip(' \t\r\n"').startswith(("=", "+", "-", "@", "\uff1d")) for cell in row.values())
    assert row["tool"].startswith("'") and row["call_id"].startswith("'")


def test_texts_with_line_ends_and_quotes_stay_in_their_cell(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    call = a_call("output-available", tool='a",b\n=c', input={"command": "x\ny"})
    (row,) = read_csv(download(viewer, call, "calls.csv"))
    assert row["tool"] == 'a",b\n=c' and row["state"] == "output-available"


def test_the_html_file_shows_texts_of_agents_as_text(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    call = a_call("output-available", tool=ATTACK, input={"command": ATTACK, ATTACK: [ATTACK]}, run="run-1")
    html = download(viewer, call, "run.html")
    assert "<script" not in html and "<img" not in html and "&lt;script&gt;" in html
    assert html.count("<article>") == 1 and html.rstrip().endswith("</html>")
    assert """content="default-src 'none'; style-src 'unsafe-inline'">""" in html and "://" not in html


def test_the_html_file_names_the_state_as_the_card_does(viewer: Client, a_run: Callable[..., Run]) -> None:
    run = a_run("r", f.InputReady("c", "Bash", {"command": "ls"}, True), f.RunEnded(outcome="truncated"))
    call = ToolCall.objects.get(run=run)
    word = labels.get_label(call.as_shown_card()).word
    assert word != "Failed" and f". Run ls · {word}</h2>" in download(viewer, call, "run.html")


def test_the_html_file_keeps_the_marks_of_inputs_and_drops_the_colors_of_outputs(
    viewer: Client, a_run: Callable[..., Run]
) -> None:
    red = "\x1b[31mred\x1b[0m"
    ready = f.InputReady("c", "Bash", {"command": "ls"}, True), f.InputReady("d", "Bash", {"command": red}, True)
    run = a_run("r", *ready, f.OutputReady("c", red), f.OutputFailed("d", red))
    html = download(viewer, ToolCall.objects.filter(run=run).first(), "run.html")
    assert ',"red",' in download(viewer, ToolCall.objects.filter(run=run).last(), "calls.csv")
    assert "<pre>red</pre>" in html and "Error: red<" in html and html.count("[31m") == 2  # summary and input


def test_the_html_file_cuts_large_bodies_and_says_so(viewer: Client, a_call: Callable[..., ToolCall]) -> None:
    call = a_call("output-available", input={"command": "x" * (export.MAX_BODY + 500)})
    html = download(viewer, call, "run.html")
    assert "more characters are in the export as JSON Lines" in html and len(html) < 2 * export.MAX_BODY


@pytest.mark.parametrize("name", ["calls.jsonl", "calls.csv", "run.html"])
def test_files_mask_secrets_and_draw_what_cannot_be_seen(
    viewer: Client, a_call: Callable[..., ToolCall], name: str
) -> None:
    call = a_call("output-available", input={"command": "a\u202eb", "password": "hunter2-hunter2"})
    text = download(viewer, call, name)
    assert "hunter2" not in text and "\u202e" not in text


@pytest.mark.parametrize("name", ["calls.jsonl", "calls.csv", "run.html"])
def test_a_run_that_is_not_there_has_no_file(viewer: Client, a_call: Callable[..., ToolCall], name: str) -> None:
    call = a_call("output-available", tool="vanishing")
    assert "vanishing" in download(viewer, call, name)
    assert viewer.get(f"/export/runs/{call.run_id + 1}/{name}").status_code == 404
