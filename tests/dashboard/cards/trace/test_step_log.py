"""The page of a run's steps: it reads no more of the log than it shows, and hostile text in a row stays text."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape, unescape
from typing import Any

import pytest
from django.test import Client

from dashboard.cards.trace import step_log
from dashboard.cards.trace.step_log import TraceLine
from toolcards.core.calls import facts as f
from toolcards.gate import TraceStep
from toolcards.models import Event, Run

HOSTILE = "<script>alert(1)</script>\"'&\u202e\x00"


@pytest.mark.django_db
@pytest.mark.parametrize(("calls", "lines", "cut"), [(3, 7, False), (4, 9, False), (5, 9, True), (50, 9, True)])
def test_events_after_the_last_line_are_not_decrypted(
    a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, calls: int, lines: int, cut: bool
) -> None:
    facts: list[Any] = []
    for number in range(calls):
        facts += [f.InputReady(f"c{number}", "Read", {}, True), f.OutputReady(f"c{number}", "text")]
    run, decrypted_rows = a_run("r", *facts), []
    fact = Event.readable_fact.fget
    monkeypatch.setattr(Event, "readable_fact", property(lambda event: decrypted_rows.append(event.seq) or fact(event)))
    monkeypatch.setattr(step_log, "MAX_LINES", 9)
    trace = step_log.list_trace_lines(run)
    assert (len(trace["steps"]), bool(trace["later"])) == (lines, cut) and len(decrypted_rows) <= 9 + 2
    assert trace["earlier"] == ""


@pytest.mark.django_db
def test_the_pages_of_a_run_show_each_step_once(
    signed_in: Client, a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run("r", *[f.InputReady(f"c{number}", "Read", {}, True) for number in range(12)])
    everything = [line.html for line in step_log.list_trace_lines(run)["steps"]]
    monkeypatch.setattr(step_log, "MAX_LINES", 5)
    shown_steps, address, pages = [], f"{run.url}&tab=steps", 0
    while address:
        html = signed_in.get(address).content.decode()
        rows = re.findall("<tr data-phase.*?</tr>\n", html, re.DOTALL)
        assert 0 < len(rows) <= 5 and ('rel="prev"' in html) == (pages > 0)
        shown_steps += rows
        later = re.search('href="([^"]*)" rel="next"', html)
        address, pages = unescape(later[1]) if later else "", pages + 1
    assert shown_steps == everything and pages > 2
    assert "No more steps" in signed_in.get(f"{run.url}&tab=steps&skip=999").content.decode()
    assert "No steps" not in signed_in.get(f"{run.url}&tab=steps&skip=x").content.decode()


def row_of(details: list[tuple[str, str]] | None = None, **fields: Any) -> str:
    link = fields.pop("link", "/calls/7-1/")
    step = TraceStep(**{"phase": "execute", "at": 1.7e9, "outcome": "ok", "tool": "Read", **fields})
    return str(TraceLine(step, "Tool ran", "ok", link, "0.2 s", details or []).html)


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_a_row_has_time_phase_call_outcome_duration_and_details() -> None:
    html = row_of([("code", "timeout"), ("bytes", "12")], attempt=2)
    assert text_of(html) == "22:13:20 Tool ran Read attempt 2 ok 0.2 s code timeout bytes 12"
    assert html.startswith('<tr data-phase="execute">') and html.count("<td") == 6 and 'data-st="ok"' in html
    assert '<a href="/calls/7-1/"><code>Read</code></a>' in html and "data-time" in html


def test_a_phase_of_the_run_has_no_call_and_a_first_attempt_no_number() -> None:
    assert text_of(row_of(link="", at=0.0)) == "Tool ran ok 0.2 s"
    assert "attempt" not in row_of(attempt=1)


@pytest.mark.parametrize("name", ["phase", "outcome", "tool"])
def test_hostile_text_stays_text(name: str) -> None:
    html = row_of([(HOSTILE, HOSTILE)], **{name: HOSTILE})
    assert "<script" not in html and html.count("<tr") == 1 and html.count("</td>") == 6
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;" in html
    assert f'<tr data-phase="{escape(HOSTILE) if name == "phase" else "execute"}">' in html
