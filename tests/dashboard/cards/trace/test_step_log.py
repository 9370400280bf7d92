"""The page of a run's steps: it reads no more of the log than it shows, and hostile text in a row stays text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta
from html import escape, unescape
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from dashboard.cards.trace import step_log
from dashboard.cards.trace.step_log import TraceLine, describe_skipped_frames
from dashboard.live.run_board import RunBoard
from tests.support.gate_commands import RecordFacts
from tests.support.tables import loop_over
from toolcards.adapters import ADAPTERS
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import FAULT, OVER_QUOTA, SkippedFrames
from toolcards.gate import TraceStep
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Event, Run, Source
from toolcards.models.write_guard import allow_log_writes

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


pytestmark = pytest.mark.django_db
BY_FAULT = "1 frame was skipped because of a fault of the server, which its log names"


class SayUnknown(RecordFacts):
    """Frames of these kinds, unknown to the adapter, as one piece of work."""

    def apply(self, tx: Any) -> None:
        memory = tx.get_or_create_run(self.source.pk, self.run, protocol="native", mode="gate")
        for kind in self.facts:
            memory.count_skipped(kind)


@pytest.fixture
def skip(source: Source) -> Callable[..., None]:
    """Give `skip(run, kind, …)`: these frames came and were skipped."""
    return lambda run, *kinds: group_commit.execute(SayUnknown(source, run, list(kinds)))


@pytest.fixture
def html(client: Client, a_person: Callable[..., Any]) -> Callable[[str], str]:
    """Give `html(path)`: the page as a viewer sees it, with single spaces."""
    client.force_login(a_person("viewer", "vera"))
    return lambda path: " ".join(client.get(path).content.decode().split())


def test_a_run_without_calls_names_what_was_skipped(html: Any, a_run: Any, skip: Any) -> None:
    a_run("empty")
    assert "made no tool calls yet" in html("/runs/empty/") and "data-skipped" not in html("/runs/empty/")
    skip("empty", "bar", "foo", "foo")
    page = html("/runs/empty/")
    assert "No tool calls yet. 3 frames of 2 unknown kinds were skipped." in page
    assert "3 frames of 2 unknown kinds were skipped: <code>foo</code> (2), <code>bar</code> (1). " in page
    assert "made no tool calls" not in page and page.count('href="/sources/unknown-frames/"') == 2


def test_a_run_with_calls_names_them_too(html: Any, a_call: Any, skip: Any) -> None:
    a_call()
    skip("run-1", "foo")
    for tab in ("", "?tab=timeline", "?tab=steps"):
        assert "1 frame of 1 unknown kind was skipped: <code>foo</code> (1). " in html(f"/runs/run-1/{tab}")


def test_a_hostile_kind_is_drawn_harmless(html: Any, a_run: Any, skip: Any, source: Source) -> None:
    a_run("r")
    skip("r", "<script>alert(1)</script>\u202e", "{% now %}")
    for page in (html("/runs/r/"), html(f"/sources/{source.pk}/")):
        assert "<script>alert" not in page and "&lt;script&gt;alert" in page
        assert "\u202e" not in page and "U+202E" in page and "{% now %}" in page


def test_sources_sum_the_runs_of_the_last_day(html: Any, a_run: Any, skip: Any, source: Source) -> None:
    a_run("one"), a_run("two"), a_run("old")
    assert '<td class="num" data-label="unknown frames"> 0 </td>' in html("/sources/")
    assert "data-skipped" not in html(f"/sources/{source.pk}/")
    skip("one", "foo", "bar"), skip("two", "foo"), skip("old", "stale", "stale")
    with allow_log_writes():
        Run.objects.filter(name="old").update(updated_at=timezone.now() - timedelta(days=2))
    assert "<b>3</b></a> </td>" in html("/sources/").partition('data-label="unknown frames"')[2]
    page = html(f"/sources/{source.pk}/")
    assert "In the last 24 hours, 3 frames of 2 unknown kinds were skipped: <code>foo</code> (2), " in page
    assert "<code>stale</code>" not in page and 'data-label="unknown frames"> <b>2</b> </td>' in page


def test_the_page_that_helps_names_every_protocol(html: Any, client: Client) -> None:
    page = html("/sources/unknown-frames/")
    assert all(f"<code>{name}</code>" in page and one.version in page for name, one in ADAPTERS.items())
    client.logout()
    assert client.get("/sources/unknown-frames/").status_code == 302


def test_open_pages_are_rung_and_sent_the_words(a_run: Any, source: Source) -> None:
    run = a_run("r", f.TextDelta(text="x"))
    with transaction.atomic():
        tx = Transaction(time.time())
        SayUnknown(source, "r", ["foo"]).apply(tx)
        tx.flush()
        assert tx.finish_commit() == [run.pk]
    assert "data-skipped" in RunBoard(run.pk).render_throttled()["head"]


def frames_of(*kinds: str) -> SkippedFrames:
    frames = SkippedFrames()
    for kind in kinds:
        frames.count(kind)
    return frames


def test_many_kinds_are_named_in_part_and_counted_whole() -> None:
    words = describe_skipped_frames(frames_of("a", *(f"k{n}" for n in range(70)), "a"))
    assert words is not None
    assert words.sentence == "72 frames of more than 50 unknown kinds were skipped"
    assert words.kinds[0] == ("a", 2) and len(words.kinds) == 10 and words.other_count == 72 - 11
    assert describe_skipped_frames(SkippedFrames()) is None


@loop_over(
    ("kinds", "sentence"),
    [
        ([FAULT], BY_FAULT),
        ([OVER_QUOTA], "1 frame was skipped because the source had sent as much as it may in an hour"),
        (
            [FAULT, OVER_QUOTA],
            f"{BY_FAULT}, and 1 frame because the source had sent as much as it may in an hour",
        ),
        ([FAULT, FAULT], "2 frames were skipped because of a fault of the server, which its log names"),
        (
            ["a", FAULT],
            "1 frame of 1 unknown kind was skipped and 1 frame because of a fault of the server, which its log names",
        ),
    ],
)
def test_frames_that_a_fault_cost_are_not_called_unknown(kinds: list[str], sentence: str) -> None:
    words = describe_skipped_frames(frames_of(*kinds))
    assert words is not None and words.sentence == sentence
