"""A row of the step log: what it says, and that hostile text in it stays text."""

from __future__ import annotations

import re
from html import escape
from typing import Any

import pytest

from dashboard.cards.trace_row import TraceLine
from toolcards.gate import TraceStep

HOSTILE = "<script>alert(1)</script>\"'&\u202e\x00"


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
