"""The line of an anchor: what was signed is read back, and any other line is refused with its reason."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.audit.anchor_line import GENESIS, TYPE, VERSION, Anchor, InvalidAnchor, parse_anchor

KEY, OLDER = b"a key of this server", b"an older key"
KEYS = {"new": KEY, "old": OLDER}
ANCHOR = Anchor(7, "ab" * 32, 3, 2, 1_700_000_000_000, 1_600_000_000_000, "it was cut: “é”")
CHANGED, UNKNOWN_KEY, UNREADABLE = "was not signed by this server", "signed with a key that", "cannot be read"

MOMENTS = st.integers(0, 2**53 - 1)
ANCHORS = st.builds(
    Anchor, st.integers(0, 2**53 - 1), st.text("0123456789abcdef", max_size=64), st.integers(1, 99), st.integers(1, 9),
    MOMENTS, MOMENTS, st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
)  # fmt: skip


def refuse(line: str, keys: dict[str, bytes] = KEYS) -> str:
    with pytest.raises(InvalidAnchor) as caught:
        parse_anchor(line, keys)
    return str(caught.value)


@draw(100)
@given(ANCHORS, st.sampled_from(sorted(KEYS)))
def test_a_signed_anchor_is_read_back_from_one_line(anchor: Anchor, name: str) -> None:
    line = anchor.text(name, KEYS[name])
    assert parse_anchor(line, KEYS) == anchor and "\n" not in line and line.isascii()


def test_a_line_names_its_type_its_version_and_its_key() -> None:
    content = json.loads(ANCHOR.text("new", KEY))
    assert (content.pop("type"), content.pop("v"), content.pop("key")) == (TYPE, VERSION, "new")
    assert len(content.pop("sig")) == 64 and "signed" not in content
    assert content == {
        "seq": 7, "hash": "ab" * 32, "number": 3, "line": 2, "at": 1_700_000_000_000, "since": 1_600_000_000_000,
        "doubts": "it was cut: “é”",
    }  # fmt: skip


CHANGES: list[dict[str, Any]] = [
    {"seq": 8}, {"seq": 7.5}, {"seq": "7"}, {"seq": True}, {"hash": GENESIS}, {"number": 4}, {"line": 1}, {"at": 0},
    {"since": 0}, {"doubts": ""}, {"type": "other"}, {"v": 1}, {"key": "old"}, {"more": 1}, {"more": 2**70},
    {"more": "\ud800"}, {"sig": ""}, {"sig": None}, {"sig": 7}, {"sig": ["a"]}, {"sig": "ü" * 64}, {"sig": "\ud800"},
    {"sig": "0" * 64}, {"sig": "0" * 100_000}, {"seq": float("inf")}, {"more": float("nan")},
]  # fmt: skip


@loop_over("change", CHANGES)
def test_a_line_that_was_changed_is_refused(change: dict[str, Any]) -> None:
    line = json.dumps(json.loads(ANCHOR.text("new", KEY)) | change)
    assert refuse(line).startswith(CHANGED)


def test_the_spelling_of_a_line_does_not_matter() -> None:
    content = json.loads(ANCHOR.text("new", KEY))
    assert parse_anchor(json.dumps(dict(reversed(content.items())), indent=2) + "\n", KEYS) == ANCHOR
    assert parse_anchor(json.dumps(content | {"seq": 7.0}), KEYS).seq == 7


def test_a_deep_value_in_a_line_is_no_crash() -> None:
    line = ANCHOR.text("new", KEY)
    for depth in (31, 40, 900):
        assert refuse(f'{line[:-1]},"more":{"[" * depth}{"]" * depth}}}').startswith(CHANGED)
    assert refuse("[" * 100_000) == UNREADABLE


@loop_over("name", ["gone", "", ["new"], {"new": 1}, 5, None])
def test_a_line_of_a_key_that_is_not_known_is_refused(name: Any) -> None:
    assert UNKNOWN_KEY in refuse(json.dumps(json.loads(ANCHOR.text("new", KEY)) | {"key": name}))


def test_a_known_name_with_another_key_is_refused() -> None:
    assert refuse(ANCHOR.text("new", b"another key")).startswith(CHANGED)
    assert UNKNOWN_KEY in refuse(ANCHOR.text("new", KEY), {})


@loop_over("field", ["seq", "hash", "number", "line", "at", "since", "doubts", "key", "sig"])
def test_a_line_without_one_of_its_fields_cannot_be_read(field: str) -> None:
    content = json.loads(ANCHOR.text("new", KEY))
    del content[field]
    assert refuse(json.dumps(content)) == UNREADABLE


@loop_over("line", ["", " ", "{", "{}", "[]", "null", "5", '"x"', '{"seq":1}', '{"hash":"x"}', "\x00", "9" * 5_000])
def test_what_is_no_line_of_an_anchor_cannot_be_read(line: str) -> None:
    assert refuse(line) == UNREADABLE


def test_version_1_is_read_and_is_not_signed() -> None:
    anchor = parse_anchor('{"seq": 4, "hash": "ab"}\n', {})
    assert anchor == Anchor(4, "ab", 0, 0, signed=False) and not anchor.signed and anchor.end == (4, "ab")


@loop_over(
    "line",
    [
        '{"seq": Infinity, "hash": "ab"}', '{"seq": 1e999, "hash": "ab"}', '{"seq": NaN, "hash": "ab"}',
        '{"seq": 4.5, "hash": "ab"}', '{"seq": "4", "hash": "ab"}', '{"seq": true, "hash": "ab"}',
        '{"seq": 4, "hash": 5}', '{"seq": 4, "hash": null}', '{"seq": [4], "hash": "ab"}',
    ],
)  # fmt: skip
def test_a_line_of_version_1_with_other_types_cannot_be_read(line: str) -> None:
    assert refuse(line) == UNREADABLE


def test_the_next_anchor_keeps_the_line_and_counts_on() -> None:
    following = ANCHOR.advance_to((9, "cd"), 5)
    assert following == replace(ANCHOR, seq=9, hash="cd", number=4, at=5) and following.end == (9, "cd")
    assert Anchor().end == (0, GENESIS) and Anchor().advance_to((1, "ab"), 5).number == 2
