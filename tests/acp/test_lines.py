"""No permission request of an agent reaches its editor past the gate, however it is written down."""

from __future__ import annotations

import json
import queue
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.acp_editor import Editor
from tests.support.server import PATIENCE
from tests.support.tables import loop_over
from toolcards.acp.lines import sift

PARAMS: dict[str, Any] = {"sessionId": "s", "options": [], "toolCall": {"toolCallId": "c"}}
ASK: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": PARAMS}
TALK = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {"text": "permission"}}}
RAW = json.dumps(ASK)
DEEP = "[" * 100_000 + "]" * 100_000


def line(value: Any) -> bytes:
    return (
        value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else json.dumps(value).encode()
    ) + b"\n"


HELD_MESSAGES: dict[str, Any] = {
    "alone": ASK,
    "with a string id": ASK | {"id": "a"},
    "with id null": ASK | {"id": None},
    "in an array": [ASK],
    "in an array with others": [TALK, ASK, TALK],
    "twice in an array": [ASK, ASK | {"id": 2}],
    "in an array in an array": [[TALK, [ASK]]],
    "without an id": {name: value for name, value in ASK.items() if name != "id"},
    "without an id in an array": [{"method": ASK["method"]}],
    "with an escaped name": RAW.replace("request_", "\\u0072equest\\u005f"),
    "too deep": RAW[:-1] + f',"more":{DEEP}}}',
    "too deep, escaped": RAW.replace("permission", "\\u0070ermission")[:-1] + f',"more":{DEEP}}}',
    "an array too deep": f"[{RAW},{DEEP}]",
    "a method twice": RAW[:-1] + ',"method":"session/update"}',
    "a method twice, the other way round": '{"method":"session/update",' + RAW[1:],
    "cut off": RAW[:-1],
    "with something behind it": RAW + RAW,
    "with a comma behind it": RAW[:-1] + ",}",
    "with a comment": RAW + " // please",
    "with single quotes": RAW.replace('"', "'"),
    "behind a carriage return": json.dumps(TALK) + "\r" + RAW,
    "behind a byte order mark": "\ufeff" + RAW,
    "in UTF-16": RAW.encode("utf-16-le"),
    "not UTF-8": RAW.encode() + b"\xff",
    "with a NUL": RAW.replace("{", "\0{", 1),
    "in capitals": RAW.replace("permission", "PERMISSION") + "}",
}


def read_as_editor(passes: bytes) -> list[Any]:
    """What an editor may make of what passed: split wherever lines may end, arrays opened, the first of two members."""
    entries: list[Any] = []
    for part in passes.decode("utf-8", "replace").replace("\0", "").splitlines():
        try:
            value = json.loads(part.lstrip("\ufeff"), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
        except (ValueError, RecursionError):
            continue
        rest = [value]
        while rest:
            each = rest.pop()
            rest += each if isinstance(each, list) else []
            entries += [each] if isinstance(each, dict) else []
    return entries


@loop_over("value", HELD_MESSAGES.values(), ids=HELD_MESSAGES)
def test_a_permission_request_does_not_pass(value: Any) -> None:
    sifted = sift(line(value))
    assert b"request_permission" not in sifted.passes and b"\\u0070ermission" not in sifted.passes
    assert not [each for each in read_as_editor(sifted.passes) if each.get("method") == ASK["method"]]
    assert sifted.asks or sifted.held_back


def test_what_can_be_asked_is_asked_and_the_rest_of_an_array_passes() -> None:
    assert sift(line([TALK, ASK, TALK])).asks == [ASK]
    assert json.loads(sift(line([TALK, ASK, TALK])).passes) == [TALK, TALK]
    assert [each["id"] for each in sift(line([ASK, ASK | {"id": 2}])).asks] == [1, 2]
    assert sift(line(RAW[:-1] + f',"more":{DEEP}}}')).held_back == [1]


@pytest.mark.parametrize(
    "value",
    [
        TALK, [TALK, TALK], {"jsonrpc": "2.0", "id": 1, "result": {"method": ASK["method"]}}, "no JSON", "", "7", "[]",
        {"method": "session/update", "params": ASK}, {"method": "x", "a": "\u2028 is no end for us"}, DEEP,
        '{"a":1,"a":2}', json.dumps({"a": "permission"}) + "\r", {"a": "ü"},
    ],
)  # fmt: skip
def test_whatever_else_an_agent_says_passes_as_it_came(value: Any) -> None:
    sifted = sift(line(value))
    assert sifted.passes == line(value) and not sifted.asks and not sifted.held_back


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85"])
def test_an_end_of_a_line_inside_a_text_is_written_as_an_escape(end: str) -> None:
    hidden = json.dumps({"method": "session/update", "x": f"{end}{RAW}{end}"}, ensure_ascii=False)
    sifted = sift(line(hidden))
    assert json.loads(sifted.passes) == json.loads(hidden)
    assert not [each for each in read_as_editor(sifted.passes) if each.get("method") == ASK["method"]]


_texts = st.sampled_from(
    [RAW, json.dumps(TALK), "[", "]", ",", "\r", "\u2028", " ", '{"a":', "}", "\0", "\ufeff", '"', "\\u0070"]
)


@given(st.lists(_texts, max_size=7).map("".join))
def test_nothing_that_any_editor_could_take_for_a_request_passes(text: str) -> None:
    passed_bytes = sift(line(text)).passes
    assert not [
        each for each in read_as_editor(passed_bytes) if each.get("method") == ASK["method"] and "params" in each
    ]


AGENT = """
import sys
lines, heard = sys.argv[1], sys.argv[2]
sys.stdout.buffer.write(open(lines, "rb").read())
sys.stdout.buffer.flush()
with open(heard, "ab") as file:
    for line in sys.stdin.buffer:
        file.write(line)
        file.flush()
"""
ODD = [
    {"method": "session/request_permission", "id": [], "params": {"options": 7, "toolCall": []}},
    {
        "method": "session/request_permission",
        "id": 5,
        "params": {"options": [{"kind": []}], "toolCall": {"toolCallId": "c"}},
    },
    {"method": "session/update", "params": {"sessionId": "a\x00\n" * 200, "update": {"toolCallId": []}}},
    {
        "method": "session/update",
        "params": {"sessionId": "s", "update": {"toolCallId": {}, "sessionUpdate": "tool_call"}},
    },
]


@pytest.mark.slow
def test_the_relay_continues_whatever_the_agent_writes(tmp_path: Path) -> None:
    """Without a server each request is denied, the editor gets no prompt, and the last line arrives."""
    lines, relayed_path = tmp_path / "lines", tmp_path / "heard"
    lines.write_bytes(b"".join(map(line, [*HELD_MESSAGES.values(), *ODD, {"id": 99, "result": "the end"}])))
    command = [sys.executable, "-c", AGENT, str(lines), str(relayed_path)]
    editor = Editor(command, url="http://127.0.0.1:9", key="tck_nobody_listens")
    try:
        assert editor.result() == "the end"
        with pytest.raises(queue.Empty):
            editor.permission_requests.get(timeout=0.1)
        assert b"request_permission" not in b"".join(editor.lines)
        answer: dict[str, Any] = {}
        completed = threading.Event()
        for _ in range(int(PATIENCE / 0.1)):
            result = relayed_path.read_bytes().splitlines() if relayed_path.exists() else []
            answer = {json.dumps(each["id"]): each for each in map(json.loads, result)}
            if {"1", '"a"', "2", "5", "null", "[]"} <= answer.keys():
                break
            completed.wait(0.1)
        assert {"1", '"a"', "2", "5", "null", "[]"} <= answer.keys()
        for each in answer.values():
            outcome = each.get("result", {}).get("outcome", {}).get("outcome")
            assert "error" in each or outcome == "cancelled", each
    finally:
        editor.close()
