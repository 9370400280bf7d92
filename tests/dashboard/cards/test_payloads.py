"""Inputs and outputs as people read them: what each kind of value becomes, and that hostile ones stay text."""

from __future__ import annotations

import base64
import json
import re
import time
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards import rendering
from dashboard.cards.payloads import ansi, markdown, media, patch, payload_view, syntax
from dashboard.cards.payloads.body import render_body
from dashboard.cards.safe_text import mark_text
from tests.support.cards import a_card, call_of
from toolcards.core.calls.card import CardApproval, CardError, CardTool, ToolCallState
from toolcards.core.text.terminal_sequences import strip_sequences

S = ToolCallState
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`"


def render_output(output: Any, kind: str = "other", **how: Any) -> str:
    card = a_card(S.OUTPUT_AVAILABLE, output=output, tool=CardTool("tool", kind))
    return rendering.render_uncached(call_of(card), full=how.pop("full", True), **how)


def render_input(arguments: Any, state: ToolCallState = S.INPUT_AVAILABLE, **how: Any) -> str:
    card = a_card(state, input=arguments, tool=CardTool("Edit", "edit"))
    return rendering.render_uncached(call_of(card), full=how.pop("full", True))


def read_text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", "", html).replace("&quot;", '"').replace("&#x27;", "'").split())


def list_elements(html: str) -> list[tuple[str, dict[str, str | None]]]:
    found: list[tuple[str, dict[str, str | None]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, dict(attrs)))

    Reader().feed(html)
    return found


# ---------------------------------------------------------------- terminal colors


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("\x1b[31mred\x1b[0m plain", '<span class="ansi-red">red</span> plain'),
        ("\x1b[1;32mok\x1b[m!", '<span class="ansi-green ansi-bold">ok</span>!'),
        ("\x1b[91mbright\x1b[39m", '<span class="ansi-red">bright</span>'),
        ("\x1b[38;5;196mcube\x1b[0m", '<span class="ansi-red">cube</span>'),
        ("\x1b[38;2;10;250;10mrgb\x1b[0m", '<span class="ansi-green">rgb</span>'),
        ("\x1b[48;5;196mno background\x1b[0m", "no background"),
        ("\x1b[2K\x1b[1Gline", "line"),
        ("\x1b[38;5mcut short", "cut short"),
        ("\x1b]8;;https://example.org\x1b\\a link\x1b]8;;\x07 \x1b(B", "a link "),
        ("\x1b[999999999999mbig", "big"),
        ("\x1b[3", '<span class="mark">U+001B</span>[3'),
    ],
)
def test_terminal_sequences_become_classes(text: str, html: str) -> None:
    assert ansi.render_colors(text) == html


@given(st.text(alphabet=st.sampled_from("\x1b[]0123456789;:mKHJ<>&\"'abc\n\x07"), max_size=200))
def test_no_terminal_text_is_lost_or_becomes_markup(text: str) -> None:
    html = ansi.render_colors(text)
    assert {tag for tag, _ in list_elements(html)} <= {"span"}
    kept = read_text(html).replace("U+001B", "\x1b").replace("U+0007", "\x07").replace("&lt;", "<").replace("&gt;", ">")
    assert kept.replace("&amp;", "&") == " ".join(strip_sequences(text).split())


def test_a_failing_test_run_keeps_its_colors_in_the_card_and_none_in_its_preview() -> None:
    text = "\x1b[31mFAILED\x1b[0m test_cart.py"
    html = render_output({"stdout": text, "exit_code": 1}, "execute")
    assert '<span class="ansi-red">FAILED</span>' in html and "U+001B" not in html.split('class="raw"')[0]
    error = a_card(S.OUTPUT_ERROR, error=CardError(text, authority="tool"))
    assert '<span class="ansi-red">FAILED</span>' in rendering.render_uncached(call_of(error))


def test_a_megabyte_of_sequences_is_drawn_in_bounded_size_and_time() -> None:
    began = time.process_time()
    html = ansi.render_colors("\x1b[31mx\x1b[0m" * 100_000)
    assert html.count("<span") <= ansi.SPANS and time.process_time() - began < 20


# ---------------------------------------------------------------- trees and tables


def test_a_nested_object_is_a_tree_of_folds_with_its_raw_text() -> None:
    value = {"user": {"name": "Kim", "roles": [{"a": {"b": 1}}, 2]}, "ok": True}
    html = render_output(value)
    assert html.count('<details class="node"') == 4 and read_text(html).count("Kim") > 1
    ids = [attributes["id"] for _, attributes in list_elements(html) if attributes.get("id")]
    assert len(ids) == len(set(ids))
    raw = html.split('class="raw"')[1]
    assert read_text(raw.split("</pre>")[0]).endswith(" ".join(json.dumps(value, indent=2).split()))


def test_a_flat_object_is_a_list_of_fields_without_a_raw_twin() -> None:
    html = render_output({"a": 1, "b": "x", "c": None, "d": ""})
    assert html.count("<dt>") >= 4 and 'class="raw"' not in html and "null" in html


def test_a_list_of_like_objects_is_a_table() -> None:
    html = render_output([{"sku": "a<b", "cents": 12}, {"sku": "c", "stock": None}])
    assert (
        html.count("<th ") == 3 and html.count("<tr>") == 3 and '<td class="num">12</td>' in html and "a&lt;b" in html
    )


def test_text_that_spells_json_is_a_tree() -> None:
    assert '<details class="node"' in render_output('{"a": {"b": [1, 2, {"c": 3}]}}')


@pytest.mark.parametrize("value", ["[" * 10_000 + "]" * 10_000, '{"a":' * 3_000 + "1" + "}" * 3_000])
def test_text_that_is_nested_without_end_stays_text(value: str) -> None:
    html = render_output(value)
    assert html.count("<details") < 40


def test_a_deep_value_stops_at_a_limit_and_says_where_the_rest_is() -> None:
    value: Any = 1
    for _ in range(40):
        value = {"a": value}
    assert "Nested deeper than shown here" in render_output(value)


def test_a_wide_value_stops_at_a_limit_and_says_how_much_is_left() -> None:
    html = render_output([0] * 5_000)
    assert "2000 more: see the raw text" in html and html.count("<dt>") < 3_100


# ---------------------------------------------------------------- edits


def test_an_edit_is_a_patch_with_every_character_of_both_sides() -> None:
    html = render_input({"file_path": "a.py", "old_string": "x = 1\ny = 2\n", "new_string": "x = 1\ny = 3\n"})
    assert "<del>" in html and "<ins>" in html and "a.py" in html and "+1 −1" in html
    assert '<span class="tok-number">3</span>' in html


def test_several_edits_and_a_whole_file_are_patches() -> None:
    html = render_input({"path": "a.js", "edits": [{"oldText": "a", "newText": "b"}, {"oldText": "c", "newText": "d"}]})
    assert html.count('class="patch"') == 2
    assert render_input({"path": "a.js", "content": "let a = 1"}).count("<ins>") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a", "edits": [{"oldText": "a", "newText": "b", "hidden": "rm -rf /"}]},
        {"path": "a", "old_string": 1, "new_string": "b"},
        {"old_string": "a", "new_string": "b"},
    ],
)
def test_an_input_of_another_shape_shows_all_its_fields(arguments: dict[str, Any]) -> None:
    html = render_input(arguments)
    assert 'class="patch"' not in html
    for name in arguments:
        assert name in html


def test_a_waiting_edit_shows_its_other_fields_with_the_patch() -> None:
    arguments = {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": True, "sudo": "yes"}
    html = render_input(arguments, S.APPROVAL_REQUESTED)
    shown = html.split('class="raw"')[0]
    assert "replace_all" in shown and "sudo" in shown and "<del>" in shown


@given(st.text(max_size=300), st.sampled_from(["a.py", "b.html", "c.sh", "d.json", "e.md", "f"]))
def test_code_is_shown_character_by_character(text: str, path: str) -> None:
    plain = [re.sub(r"<[^>]*>", "", line) for line in syntax.render_code_lines(text, path)]
    without = [re.sub(r"<[^>]*>", "", line) for line in syntax.render_code_lines(text, "none")]
    assert plain == without and {tag for tag, _ in list_elements("".join(plain))} == set()


def test_more_lines_than_can_be_compared_or_colored_in_a_moment_are_shown_plainly() -> None:
    many = "x = 1\n" * (syntax.MAX_LINES + 1)
    assert "tok-" not in "".join(syntax.render_code_lines(many, "a.py"))
    assert "tok-" in "".join(syntax.render_code_lines(many[:60], "a.py"))
    html = render_input({"path": "a.py", "old_string": "y\n" * (patch.MAX_LINES + 1), "new_string": "z"})
    assert 'class="patch"' not in html and "old_string" in html and "new_string" in html


def test_a_unified_diff_is_a_patch() -> None:
    text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new <b>\n"
    html = render_output(text, "execute")
    assert "<del>− old</del>" in html and "<ins>+ new &lt;b&gt;</ins>" in html and patch.is_unified_diff(text)


# ---------------------------------------------------------------- Markdown


def test_prose_of_a_tool_that_fetches_is_markdown_and_code_of_one_that_reads_is_not() -> None:
    text = "# Title\n\nSome **bold** words and [a link](https://example.com/).\n\n- one\n- two\n"
    html = render_output(text, "fetch")
    assert "<h4>Title</h4>" in html and "<strong>bold</strong>" in html and "<li>one</li>" in html
    assert "https://example.com/" in html and 'href="https://example.com/' not in html
    assert 'class="prose"' not in render_output(text, "read")


@pytest.mark.parametrize(
    "text",
    [
        "# a\n\n**b** " + MARKUP,
        "# a\n\n```" + '"onclick="x" \u202e' + "\ncode\n```\n",
        "# a\n\n|a|b|\n|:-|-:|\n|" + MARKUP + "|d|\n",
        "# a\n\n**b** ![x](https://example.com/a.png) <https://example.com> [a]: https://example.com",
        "# a\n\n**b** [x](javascript:alert(1))",
    ],
)
def test_hostile_markdown_has_no_attributes_links_or_pictures(text: str) -> None:
    html = markdown.render_markdown(text)
    allowed = {"h4", "p", "strong", "em", "code", "pre", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td",
               "span", "br", "hr", "blockquote"}  # fmt: skip
    for tag, attributes in list_elements(html):
        assert tag in allowed and not attributes, (tag, attributes)


# ---------------------------------------------------------------- pictures


@pytest.mark.parametrize(
    "output",
    [
        f"data:image/png;base64,{PNG}",
        {"content": [{"type": "text", "text": "Here:"}, {"type": "image", "data": PNG, "mimeType": "image/png"}]},
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}],
        {"shot": f"data:image/png;base64,{PNG}", "width": 1},
    ],
)
@pytest.mark.parametrize("full", [True, False])
def test_a_picture_is_shown_from_its_own_address(output: Any, full: bool) -> None:
    html = render_output(output, full=full)
    assert 'src="/calls/7-1/pictures/out/0/"' in html
    assert media.decode_picture(media.list_pictures(output)[0])[1] == "image/png"


@pytest.mark.parametrize(
    "content",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        b"<!doctype html><script>1</script>",
        b"",
        b"\x89PN",
    ],
)
def test_what_is_no_picture_is_text(content: bytes) -> None:
    text = base64.b64encode(content).decode()
    output = {"content": [{"type": "image", "data": text, "mimeType": "image/png"}]}
    assert "<img" not in render_output(output)
    with pytest.raises(ValueError):
        media.decode_picture(text)


# ---------------------------------------------------------------- what a person approves


def read_input(arguments: Any, cap: int | None = payload_view.MAX_CHARACTERS_WAITING) -> str:
    """Return what a card shows of an input, without its folded raw text."""
    view = payload_view.build_payload_view(arguments, cap)
    html = render_body(arguments, view, dom="d", kind="execute", part="in", pictures_url="/")
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html.split('<details class="raw"')[0])).split())


HIDDEN_COMMAND = "\nrm -rf ~/work\n"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"command": f"data:image/png;base64,{PNG}{HIDDEN_COMMAND}"}, "rm -rf ~/work"),
        (f"data:image/png;base64,{PNG};rm -rf ~", ";rm -rf ~"),
        ({"type": "image", "data": PNG, "command": "rm -rf ~"}, "rm -rf ~"),
        ({"steps": [{"type": "image", "data": PNG + HIDDEN_COMMAND}]}, "rm -rf ~/work"),
        ({"content": [{"type": "text", "text": "hi", "annotations": {"x": 1}}], "_meta": {"do": "rm"}}, "rm"),
        ({"content": [{"type": "text", "text": "hi", "annotations": {"do": "wipe"}}]}, "wipe"),
        ({"command": "ls \x1b[;./a"}, "ls U+001B[;./a"),
        ({"command": "ls \x1b[>/b", "nested": {"env": "\x1b[8mx"}}, "ls U+001B[>/b"),
        ({"file_path": "a", "content": "b", "mode": "\x1b[;./a"}, "U+001B[;./a"),
        ("\x1b[;./a " + "x" * 70_000, "U+001B[;./a"),
    ],
)
def test_an_input_shows_what_a_picture_or_a_terminal_would_hide(arguments: Any, shown: str) -> None:
    for cap in (payload_view.MAX_CHARACTERS_WAITING, None):
        assert shown in read_input(arguments, cap)


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


# ---------------------------------------------------------------- changes


LINES = st.lists(st.sampled_from(["a", "b", "", "c\u2028d", "x\ry"]), max_size=12).map("\n".join)


@given(LINES, LINES)
def test_a_change_has_every_line_that_it_removes_and_adds(before: str, after: str) -> None:
    lines = payload_view.diff_lines(before, after)
    old, new = before.split("\n"), after.split("\n")
    removed, added = Counter(old) - Counter(new), Counter(new) - Counter(old)
    assert removed <= Counter(line for sign, line in lines if sign == "-")
    assert added <= Counter(line for sign, line in lines if sign == "+")
    for signs, whole in (("- ", before), ("+ ", after)):
        assert "\n".join(line for sign, line in lines if sign in signs) in whole


def test_a_change_at_the_end_of_a_long_text_is_shown_with_its_surroundings() -> None:
    text = "\n".join(f"line {number}" for number in range(2_000))
    assert payload_view.diff_lines(text, f"{text}!") == [
        (" ", "line 1996"), (" ", "line 1997"), (" ", "line 1998"), ("-", "line 1999"), ("+", "line 1999!"),
    ]  # fmt: skip


def test_a_change_that_does_not_fit_says_so_also_on_the_button() -> None:
    before, after = [f"line {number}" for number in range(600)], [f"lime {number * 7}" for number in range(600)]
    began = time.process_time()
    assert payload_view.diff_lines(before, after)[-1] == ("…", "The rest of the change is not shown")
    assert payload_view.diff_lines("x" * 60_000, "y" * 60_000)[-1][0] == "…"
    proposal = CardApproval(id="apr_1", votable=True, args_sha256="ab" * 32, edited=after, has_edited=True)
    html = rendering.render_uncached(call_of(a_card(S.APPROVAL_REQUESTED, input=before, approval=proposal)))
    assert "(part of the change not shown)" in html
    assert time.process_time() - began < 20  # comparing each line with each other takes minutes


# ---------------------------------------------------------------- everything


TEXT = st.text(max_size=30) | st.sampled_from(
    [MARKUP, "\x1b[31mred", "# a\n\n**b**", f"data:image/png;base64,{PNG}", "\u202egnp.exe"]
)
NAMES = st.text(max_size=8) | st.just(MARKUP)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(NAMES, parts, max_size=4),
    max_leaves=20,
)


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
    shown = read_input(value)
    for text in list_texts(value):
        assert " ".join(mark_text(text).split()) in shown


def test_a_long_value_is_cut_and_says_how_much_is_left() -> None:
    html = render_output({"text": "line\n" * 5_000, "tail": "hidden"}, full=False)
    assert "not shown here" in html and html.count("line") < 1_000 and "<dt>text</dt>" in html


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
)


@given(JSON_VALUES)
def test_values_are_indented_as_json_indents_them(value: Any) -> None:
    assert payload_view.format_value(value) == (
        value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    )


@pytest.mark.parametrize("value", [{1: "a"}, {"a": object()}, {"a": {1, 2}}])
def test_what_is_no_json_is_named_by_its_type(value: Any) -> None:
    assert payload_view.format_value(value) == "dict"
