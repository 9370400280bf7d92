"""Inputs and outputs as people read them: what each kind of value becomes, and that hostile ones stay text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards.safe_text import mark_text
from tests.support.payloads import MARKUP, PNG, S, list_elements, read_input, render_input, render_output


def test_a_picture_in_an_input_follows_its_text() -> None:
    html = render_input({"picture": f"data:image/png;base64,{PNG}"}, S.APPROVAL_REQUESTED)
    assert html.index(PNG) < html.index('src="/calls/7-1/pictures/in/0/"')


def test_no_part_of_an_input_waits_behind_a_fold_or_a_limit() -> None:
    deep: Any = "the bottom"
    for number in range(30):
        deep = {f"level {number}": deep}
    for arguments, last in (({"steps": [[0]] + [0] * 3_500 + ["the end"]}, "the end"), (deep, "the bottom")):
        html = render_input(arguments, S.APPROVAL_REQUESTED).split('<details class="raw"')[0]
        folds = [
            attributes for tag, attributes in list_elements(html) if tag == "details" and attributes["class"] == "node"
        ]
        assert folds and all("open" in fold for fold in folds)
        assert last in html and "see the raw text" not in html


def test_a_flat_output_that_is_cut_has_its_raw_text() -> None:
    html = render_output({f"k{number}": number for number in range(3_001)})
    assert "k3000" in html.split('class="raw"')[1]


TEXT = st.text(max_size=30) | st.sampled_from(
    [MARKUP, "\x1b[31mred", "# a\n\n**b**", f"data:image/png;base64,{PNG}", "\u202egnp.exe"]
)
NAMES = st.text(max_size=8) | st.just(MARKUP)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(NAMES, parts, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@given(JSON, st.sampled_from(["fetch", "read", "execute"]), st.booleans())
def test_whatever_comes_is_escaped(value: Any, kind: str, full: bool) -> None:
    html = render_output(value, kind, full=full)
    for tag, attributes in list_elements(html):
        assert tag not in ("script", "iframe", "object", "style"), html
        assert not any(name.startswith("on") or name == "style" for name in attributes), html
        if tag == "img":
            assert re.fullmatch(r"/calls/7-1/pictures/(in|out)/\d+/", attributes["src"] or "")
    ids = [attributes["id"] for _, attributes in list_elements(html) if attributes.get("id")]
    assert len(ids) == len(set(ids))


def list_texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in [*parts, *(value if isinstance(value, dict) else ())] for text in list_texts(part)]


@given(st.recursive(
    TEXT | st.builds("{}\n{}".format, TEXT, st.text(alphabet="\x1b[;./>a m", max_size=8)),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(NAMES | st.sampled_from(["type", "data"]), parts),
    max_leaves=8,
))  # fmt: skip
def test_every_text_of_an_input_is_readable(value: Any) -> None:
    shown_input = read_input(value)
    for text in list_texts(value):
        assert " ".join(mark_text(text).split()) in shown_input


def test_a_long_value_is_cut_and_says_how_much_is_left() -> None:
    html = render_output({"text": "line\n" * 5_000, "tail": "hidden"}, full=False)
    assert "not shown here" in html and html.count("line") < 1_000 and "<dt>text</dt>" in html
