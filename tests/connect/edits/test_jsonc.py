"""JSON with comments: read into spans, and edited so that everything else stays as typed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.connect.edits.jsonc import EMPTY, Edits, JsonSpan, NotJsonc, insert_member, parse_spans

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
SETTINGS = """{
  // what I use
  "theme": "dark", /* not "light" */
  "agents": {
    "mine": {"command": "x" /* , "}" */},
  },
}
"""


def rebuild(span: JsonSpan) -> Any:
    """Return the value of a span and its parts."""
    if span.members is not None:
        return {name: rebuild(inner) for name, inner in span.members.items()}
    return span.value if span.items is None else [rebuild(inner) for inner in span.items]


def keep(lines: str, indent: str) -> str:
    return "".join(f"{indent}{line}\n" for line in lines.splitlines())


@draw(200)
@given(VALUES, st.sampled_from([None, 2, "\t"]))
def test_json_is_read_as_it_is_and_every_span_is_its_own_text(value: Any, indent: Any) -> None:
    text = json.dumps(value, indent=indent)
    span = parse_spans(text)
    assert rebuild(span) == value and text[span.start : span.end] == text
    for inner in [*(span.members or {}).values(), *(span.items or [])]:
        assert json.loads(text[inner.start : inner.end]) == rebuild(inner)


def test_comments_and_a_comma_at_the_end_are_read_over() -> None:
    span = parse_spans(SETTINGS)
    assert rebuild(span) == {"theme": "dark", "agents": {"mine": {"command": "x"}}}
    command = span.find("agents", "mine", "command")
    assert command is not None and SETTINGS[command.start : command.end] == '"x"'
    for path in (("agents", "yours"), ("theme", "x"), ("nothing", "at", "all")):
        assert span.find(*path) is None


@loop_over(
    "text",
    [
        "", "  ", "{", "}", "{]", "[1,,2]", "[,]", "{,}", '{"a"}', '{"a":}', '{"a" 1}', '{"a": 1 "b": 2}', "{a: 1}",
        '{"a": 1, "a": 2}', '{"\\u0061": 1, "a": 2}', "[1] 2", "[1]]", '{"a": tru}',
        "{} // end\n{}", "/* no end", '"no end',
        '"a\nb"', "[01]", "[1.2.3]", "'a'", '{"\\q": 1}', '["\\q"]', '{"a\tb": 1}', "{1: 2}", "{null: 2}",
        '{{}: 1}', "\ufeff{}",
        ":", ",", "[:]",
    ],
)  # fmt: skip
def test_what_is_not_json_with_comments_is_refused(text: str) -> None:
    with pytest.raises(NotJsonc):
        parse_spans(text)


@draw(200)
@given(st.text(alphabet='{}[]:,"\\/*\n abt1.-'))
def test_no_text_breaks_the_parser(text: str) -> None:
    for use in (parse_spans, lambda text: insert_member(text, "a", "1", keep)):
        try:
            use(text)
        except NotJsonc as error:
            assert str(error)


def test_edits_are_made_where_they_were_meant_in_any_order() -> None:
    edits = Edits("one two three")
    edits.replace(8, 13, "3")
    edits.replace(0, 3, "first")
    edits.replace(4, 4, "and ")
    assert edits.apply() == "first and two 3" and edits.text == "one two three"


@loop_over(
    "text, expected",
    [
        ("", '{\n  "agents": {\n    "us": 1\n  }\n}\n'),
        (EMPTY, '{\n  "agents": {\n    "us": 1\n  }\n}\n'),
        ('{\n  "a": 1\n}', '{\n  "agents": {\n    "us": 1\n  },\n  "a": 1\n}'),
        ('{\n  "agents": {\n  }\n}', '{\n  "agents": {\n    "us": 1\n  }\n}'),
        ('{\n  "agents": {\n    // mine\n    "me": 2\n  }\n}',
         '{\n  "agents": {\n    "us": 1,\n    // mine\n    "me": 2\n  }\n}'),
        ('{\r\n  "a": 1\r\n}', '{\r\n  "agents": {\n    "us": 1\n  },\n  "a": 1\r\n}'),
        ('{\n  "x": {"agents": {}}\n}', '{\n  "agents": {\n    "us": 1\n  },\n  "x": {"agents": {}}\n}'),
        ('{\n  "x": "agents", "y": [{"agents": 1}]\n}',
         '{\n  "agents": {\n    "us": 1\n  },\n  "x": "agents", "y": [{"agents": 1}]\n}'),
    ],
)  # fmt: skip
def test_a_member_is_inserted_at_the_beginning_of_its_object(text: str, expected: str) -> None:
    assert insert_member(text, "agents", '"us": 1', keep) == expected


@loop_over(
    "text",
    [
        "[]", "1", "{", "{}}", '{"agents": {}}', "{ }", '{\n  "agents": []\n}', '{\n  "agents": null\n}',
        '{\n  "agents": "x"\n}',
        '{\n  "agents": {\n}, "agents": {\n}}', '{\n  "agents": {\n}, "agents": 1}', "// only a note\n",
    ],
)  # fmt: skip
def test_a_text_in_which_the_object_has_no_place_is_refused(text: str) -> None:
    with pytest.raises(NotJsonc):
        insert_member(text, "agents", '"us": 1', keep)
