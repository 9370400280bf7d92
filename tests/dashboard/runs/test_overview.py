"""The Now page says what is known: an unknown end is no failure, and a missing reason is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from toolcards.core.calls import facts as f
from toolcards.models import Run, ToolCall

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(client: Client, a_person: Callable[..., Any]) -> Client:
    client.force_login(a_person("viewer", "vera"))
    return client


def find_labels(html: str) -> list[str]:
    return re.findall(r'class="statebar [^"]*"[^>]*aria-label="([^"]*)"', html)


def test_a_call_without_a_result_is_not_counted_as_failed(viewer: Client, a_run: Callable[..., Run]) -> None:
    calls = [f.InputReady(f"c{n}", "Read", {"n": n}, True) for n in range(3)]
    a_run("lost", *calls, f.OutputFailed("c0", "it broke"), f.RunEnded(outcome="truncated"))
    html = viewer.get("/").content.decode()
    assert find_labels(html) == ["Failed 1, No result 2", "Failed 1, No result 2"]  # the last hour, and the run
    assert find_labels(viewer.get("/runs/").content.decode()) == ["Failed 1, No result 2"]
    rows = html.split('id="minutes-table"')[1].split("</details>")[0]
    assert re.findall(r'<td class="num">(\d+)</td>', rows) == ["3", "1"]


def test_an_active_run_counts_its_calls_without_a_result(viewer: Client, a_run: Callable[..., Run]) -> None:
    calls = [f.InputReady(f"c{n}", "Read", {"n": n}, True) for n in range(2)]
    a_run("going", *calls, f.OutputFailed("c0", "it broke"), f.CallClosed("c1", "aborted"))
    assert find_labels(viewer.get("/runs/").content.decode()) == ["Failed 1, No result 1"]


@pytest.mark.parametrize(
    ("fact", "words"),
    [(f.OutputFailed("c", ""), "No error message given"), (f.OutputDenied("c", ""), "No reason given")],
)
def test_a_missing_reason_is_named(viewer: Client, a_run: Callable[..., Run], fact: Any, words: str) -> None:
    a_run("r", f.InputReady("c", "Read", {}, True), fact)
    assert ToolCall.objects.get().finished_at and words in viewer.get("/").content.decode()
