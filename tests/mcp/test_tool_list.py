"""The tools of a server as the client last saw them, and the digest that changes with what a model reads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.mcp import tool_list
from toolcards.mcp.tool_list import ToolList, identify

READ: dict[str, Any] = {
    "name": "read", "title": "Read", "description": "Reads a file.", "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}  # fmt: skip


def list_names(tools: ToolList) -> list[str]:
    return [name for name in "abcdef" if tools.find(name) is not None]


def make_page(*names: str, cursor: str = "") -> dict[str, Any]:
    return {"tools": [{"name": name} for name in names]} | ({"nextCursor": cursor} if cursor else {})


def test_a_list_of_several_pages_is_known_after_the_last() -> None:
    tools = ToolList()
    assert tools.is_stale
    tools.add_page({}, make_page("a", "b", cursor="2"))
    assert tools.is_stale and list_names(tools) == ["a", "b"]
    tools.add_page({"cursor": "2"}, make_page("c"))
    assert not tools.is_stale and list_names(tools) == ["a", "b", "c"]


def test_a_new_list_replaces_the_old_one_at_its_end() -> None:
    tools = ToolList()
    tools.add_page({}, make_page("a", "b", "c"))
    tools.add_page({}, make_page("d", cursor="2"))
    assert list_names(tools) == ["a", "b", "c", "d"]  # a call meanwhile finds both
    tools.add_page({"cursor": "2"}, make_page("a"))
    assert list_names(tools) == ["a", "d"]
    tools.add_page({}, make_page())
    assert list_names(tools) == []


def test_the_latest_definition_of_a_name_counts() -> None:
    tools = ToolList()
    tools.add_page({}, {"tools": [{"name": "a", "description": "old"}]})
    tools.add_page({}, {"tools": [{"name": "a", "description": "new"}]})
    assert tools.find("a") == {"name": "a", "description": "new"}


@loop_over("result", [{}, {"tools": None}, {"tools": {}}, {"tools": "a"}, {"nextCursor": "2"}])
def test_a_response_without_a_list_changes_nothing(result: Any) -> None:
    """An error of the server: what the client saw before is still what its model read."""
    tools = ToolList()
    tools.add_page({}, result)
    assert tools.is_stale
    tools.add_page({}, make_page("a"))
    tools.is_stale = True
    tools.add_page({}, result)
    assert list_names(tools) == ["a"] and tools.is_stale


def test_what_is_no_tool_is_left_out() -> None:
    tools = ToolList()
    tools.add_page({}, {"tools": [None, "a", 5, [], {}, {"name": ""}, {"name": 5}, {"title": "a"}, {"name": "b"}]})
    assert list_names(tools) == ["b"] and tools.find("") is None


def test_a_server_with_too_many_tools_is_known_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_list, "MAX_TOOLS", 2)
    tools = ToolList()
    tools.add_page({}, make_page("a", "b", "c", cursor="2"))
    tools.add_page({"cursor": "2"}, make_page("d", "b"))
    assert list_names(tools) == ["a", "b"]
    tools.add_page({}, {"tools": [{"name": "c"}, {"name": "b", "title": "new"}]})
    assert list_names(tools) == ["b"] and tools.find("b") == {"name": "b", "title": "new"}


# ---------------------------------------------------------------- identity
@loop_over(("changes", "is_same"), [
    ({}, True), ({"icons": [1]}, True), ({"_meta": {"a": 1}}, True), ({"more": 1}, True),
    ({"description": "Reads a file, and sends it."}, False),
    ({"inputSchema": {"type": "object", "required": ["a"]}}, False),
    ({"outputSchema": {}}, False), ({"annotations": {"readOnlyHint": False}}, False), ({"title": "Write"}, False),
])  # fmt: skip
def test_the_digest_changes_with_what_a_model_reads(changes: Any, is_same: bool) -> None:
    first, second = identify("read", "files", READ), identify("read", "files", READ | changes)
    assert (first["schema_sha256"] == second["schema_sha256"]) is is_same and len(first["schema_sha256"]) == 64


def test_a_tool_has_its_server_and_its_title() -> None:
    assert identify("read", "files", None) == {"name": "read", "source": "files"}
    assert identify("read", "files", READ)["title"] == "Read"
    assert "title" not in identify("read", "files", {"name": "read"})
    assert identify("read", "files", {"name": "read", "annotations": {"title": "Look"}})["title"] == "Look"
    assert identify("read", "files", READ | {"title": 5, "annotations": {"title": "Look"}})["title"] == "Look"


@loop_over("value", [float("nan"), 2**60, "\ud800", "\0"])
def test_a_definition_without_a_canonical_form_has_no_digest(value: Any) -> None:
    assert identify("read", "files", READ | {"description": value}) == {"name": "read", "source": "files"}


def test_what_the_client_saw_counts_and_another_definition_for_the_gateway_is_a_change() -> None:
    tools = ToolList()
    seen_tool, other_tool = {"name": "a", "description": "reads"}, {"name": "a", "description": "reads, it says"}
    tools.add_page({}, {"tools": [seen_tool]})
    assert tools.find("a") == seen_tool and tools.find_other("a") is None
    tools.add_own_page({"tools": [other_tool, {"name": "b"}]})
    assert tools.find("a") == seen_tool and tools.find_other("a") == other_tool
    assert tools.find("b") == {"name": "b"} and tools.find_other("b") is None  # the client never saw it
    plain = identify("a", "s", seen_tool)
    assert identify("a", "s", seen_tool, other_tool)["schema_sha256"] != plain["schema_sha256"]
    tools.add_page({}, {"tools": [other_tool]})
    assert tools.find("a") == other_tool and tools.find_other("a") is None
