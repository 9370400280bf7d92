"""What agents write between their calls: where it stands on a run's page, what it hides, and that it comes live."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from dashboard.runs import narration
from dashboard.runs.narration import Narration
from tests.support.browser_sockets import text_with, watching
from tests.support.gate_commands import RecordFacts
from toolcards.core.calls import facts as f
from toolcards.gate.writer import group_commit
from toolcards.models import Run

pytestmark = pytest.mark.django_db(transaction=True)
GITHUB = "ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3"


def make_call(call_id: str) -> list[Any]:
    return [f.InputReady(call_id, "Bash", {"command": "ls"}, True), f.OutputReady(call_id, 0)]


def list_order(html: str) -> list[str]:
    """Return the calls and texts of a page in order."""
    pattern = r'data-call-id="([^"]+)"|<div class="body (?:plain|prose)">(.*?)</div>'
    return [call or re.sub(r"<[^>]*>", "", text).strip() for call, text in re.findall(pattern, html, re.DOTALL)]


def test_text_stands_where_it_was_written(signed_in: Client, a_run: Callable[..., Run]) -> None:
    facts = [f.TextDelta(text="I will "), f.TextDelta(text="look."), *make_call("c1"),
             f.TextDelta(text="Hm.", channel="reasoning"), f.TextDelta(text="Now the rest."),
             *make_call("c2"), *make_call("c3"), f.TextDelta(text="Done."), f.RunEnded()]  # fmt: skip
    a_run("told", *facts)
    html = signed_in.get("/runs/told/").content.decode()
    assert list_order(html) == ["I will look.", "c1", "Hm.", "Now the rest.", "c2", "c3", "Done."]
    assert html.count('data-channel="reasoning"') == 1
    assert "data-follow" not in html


def test_an_older_page_has_the_text_of_its_own_calls(
    signed_in: Client, a_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.runs.views.PAGE", 6)  # two calls, with a text before each
    facts = [fact for n in range(1, 5) for fact in (f.TextDelta(text=f"before {n}"), *make_call(f"c{n}"))]
    a_run("long", *facts)
    order = list_order(signed_in.get("/runs/long/").content.decode())
    assert order == ["before 3", "c3", "before 4", "c4"]
    order = list_order(signed_in.get("/runs/long/?before=3").content.decode())
    assert order == ["before 1", "c1", "before 2", "c2"]


def test_hostile_text_is_escaped_and_secrets_are_masked_wherever_they_are_cut(
    signed_in: Client, a_run: Callable[..., Run]
) -> None:
    pieces = [f.TextDelta(text=text) for text in ("<script>alert(1)</script> \u202e ", GITHUB[:9], GITHUB[9:], " end")]
    a_run("bad", *pieces, f.RunEnded())
    html = signed_in.get("/runs/bad/").content.decode()
    assert "<script>alert(1)" not in html and "&lt;script&gt;" in html and "U+202E" in html
    assert GITHUB not in html and GITHUB[9:] not in html and " end" in html


def test_an_unfinished_secret_is_not_shown_while_it_is_written(a_run: Callable[..., Run], source: Any) -> None:
    run = a_run("live", f.TextDelta(text="the key is " + GITHUB[:20]))
    texts = Narration(run.pk)
    [block] = texts.read()
    assert GITHUB[4:20] not in block.text and block.text.startswith("the key is")
    group_commit.execute(RecordFacts(source, "live", [f.TextDelta(text=GITHUB[20:] + " ok"), *make_call("c1")]))
    [block] = texts.read()
    assert GITHUB not in block.text and block.text.endswith("ok") and not block.is_open
    assert texts.read() == []


def test_text_after_the_end_of_its_run_continues_the_block(a_run: Callable[..., Run], source: Any) -> None:
    run = a_run("late", f.TextDelta(text="one "), f.RunEnded())
    texts = Narration(run.pk)
    [block] = texts.read()
    assert not block.is_open
    group_commit.execute(RecordFacts(source, "late", [f.TextDelta(text="two")]))
    assert texts.read() == [block] and block.text == "one two" and list(texts.blocks.values()) == [block]


def test_reading_in_steps_gives_what_reading_at_once_gives(a_run: Callable[..., Run], source: Any) -> None:
    facts = [f.TextDelta(text="a"), *make_call("c1"), f.TextDelta(text="b"), f.TextDelta(text="c", lane="sub"),
             *make_call("c2"), f.TextDelta(text="d", channel="reasoning"), f.TextDelta(text="e")]  # fmt: skip
    run = a_run("steps")
    in_steps = Narration(run.pk)
    for fact in facts:
        group_commit.execute(RecordFacts(source, "steps", [fact]))
        in_steps.read()
    at_once = Narration(run.pk)
    at_once.read()
    described = [
        [(block.seq, block.after, block.channel, block.text, block.is_open) for block in texts.blocks.values()]
        for texts in (in_steps, at_once)
    ]
    assert described[0] == described[1] and len(described[0]) == 5


def test_a_very_long_text_is_cut_and_says_so(a_run: Callable[..., Run]) -> None:
    run = a_run("long", *[f.TextDelta(text="word " * 1_000) for _ in range(6)], f.RunEnded())
    texts = Narration(run.pk)
    [block] = texts.read()
    html = block.render()
    assert "24000 more characters are not shown here" in html and len(html) < 2 * narration.MAX_CHARACTERS


async def test_text_comes_live(signed_in: Client, a_run: Callable[..., Run], source: Any) -> None:
    def push(*facts: Any) -> None:
        group_commit.execute(RecordFacts(source, "live", list(facts)))

    await sync_to_async(a_run)("live", *make_call("c1"))
    async with watching(signed_in, "/ws/runs/live/") as live_socket:
        await text_with(live_socket, 'data-call-id="c1"')
        await sync_to_async(push)(f.TextDelta(text="Next I "))
        assert 'data-ordinal="1.5"' in await text_with(live_socket, "Next I")
        await sync_to_async(push)(f.TextDelta(text="push."))
        await text_with(live_socket, "Next I push.")
    async with watching(signed_in, "/ws/runs/live/") as newcomer:
        await text_with(newcomer, "Next I push.")


def test_one_sign_of_markdown_is_enough_for_what_an_agent_writes(signed_in: Client, a_run: Callable[..., Run]) -> None:
    a_run(
        "marked", f.TextDelta(text="Now I look at **both** tests and `run.py`."), f.InputReady("c1", "Read", {}, True)
    )
    html = signed_in.get("/runs/marked/").content.decode()
    assert "<strong>both</strong>" in html and "<code>run.py</code>" in html
