"""The kinds of tools: what a name says, what an agent says, and what the catalog lists."""

from __future__ import annotations

import pytest

from tests.support.tables import loop_over
from tests.support.tool_names import CHANGES
from toolcards.client.common import tool_kinds
from toolcards.client.common.tool_kinds import (
    DANGER,
    KINDS,
    display_kind,
    find_kind,
    find_kinds,
    is_known_tool,
    list_own_tools,
)


def test_a_name_can_make_a_call_more_dangerous_but_never_less() -> None:
    assert find_kind("get_and_delete_user") == "delete"
    assert display_kind("delete_user", "read") == "delete"
    assert (find_kind("get_user"), display_kind("get_user")) == ("other", "read")
    assert display_kind("frobnicate", "nonsense") == "other"
    assert {find_kind(tool) for tool in list_own_tools()} <= set(KINDS)


LOOKS = {kind for kind, rank in DANGER.items() if rank <= DANGER["fetch"]}


@loop_over("tool", [name for name, server, _ in CHANGES if not server and not name.startswith("mcp__")])
def test_a_look_alike_or_a_strange_server_lowers_no_risk(tool):
    for other in (tool.upper(), f" {tool}", f"{tool}\u200b", tool.replace("e", "\u0435", 1), f"mcp__evil__{tool}"):
        known_kind = tool_kinds.find_kind(tool)
        assert DANGER[tool_kinds.find_kind(other)] >= min(DANGER[known_kind], DANGER["other"])
        assert not set(find_kinds(other)) & LOOKS or is_known_tool(other)


@pytest.mark.parametrize(("claimed_kind", "kinds"), [
    ("read", ("read",)), ("think", ("read",)), ("nonsense", ("read",)), ("", ("read",)), ("execute", ("execute",
    "read")),
    ("delete", ("delete", "read")), ("fetch", ("fetch", "read")),
])  # fmt: skip
def test_what_an_agent_says_of_its_tool_adds_doubt_only(claimed_kind, kinds):
    assert find_kinds("Read", claimed_kind=claimed_kind) == kinds
    for kind in KINDS:
        assert "other" in find_kinds("frob", claimed_kind=kind)
        assert DANGER[find_kinds("frob", claimed_kind=kind)[0]] >= DANGER["other"]


@pytest.mark.parametrize(("tool", "kinds"), [
    ("BASH", ("execute", "other")), ("mcp__evil__bash", ("execute", "other")), ("b\u0430sh", ("execute", "other")),
    ("x.Shell ", ("execute", "other")), ("DeleteFile", ("delete", "other")), ("drop_it", ("delete", "other")),
    ("create_and_run", ("execute", "edit", "other")), ("d\u0435lete_it", ("delete", "other")), ("frob", ("other",)),
    ("running", ("other",)), ("get_weather", ("other",)),
])  # fmt: skip
def test_a_name_that_looks_dangerous_is_of_that_kind_too(tool, kinds):
    assert find_kinds(tool) == kinds


@loop_over("tool", [name for names in (
    ("get_order_details get_order find_customer_by_email get_return_label get_refund_status get_order_status_history "
    "list_open_orders getOrderDetails mcp__shop__get_order_details search_orders_by_email count_comment_replies "
    "lookup_email check_refund_status get_merge_request get_deploy_status list_transfer_methods show_post read_email "
    "fetch_commit describe_charge view_draft get-upload-url"),
) for name in names.split()])  # fmt: skip
def test_a_noun_after_a_reading_verb_promises_no_change(tool):
    assert find_kinds(tool) == ("other",) and display_kind(tool) in {"read", "search", "fetch", "other"}


@loop_over("tool", [name for names in (
    ("get_and_delete list_then_run get_or_create_order find_and_replace search_and_replace read_write fetch_run "
    "find_order_then_refund get_and_email getOrSet fetch_and_post list_to_email find_replace check_call get_delete_all "
    "view_edit read_execute get_order_and_pay order_get refund_order order_details email_find g\u0435t_order "
    "get_\u043erder fetch_merge get_if_not_create search_n_label get_shell get_send_email delete_get_status"),
) for name in names.split()])  # fmt: skip
def test_a_second_step_after_a_reading_verb_counts(tool):
    assert DANGER[find_kind(tool)] > DANGER["other"]


def test_a_program_has_only_its_own_tools():
    assert find_kinds("view", program="claude-code") == ("other",) and find_kinds("view") == ("read",)
    assert find_kinds("create", program="github-copilot") == ("edit",)
    assert find_kinds("mcp__github__get_issue", program="claude-code") == ("read",)
    assert find_kinds("github_get_issue", program="opencode") == ("read",)


def test_the_catalogue_is_in_order():
    data = tool_kinds.tomllib.loads(tool_kinds._DATA.read_text())
    for groups in (*data["programs"].values(), *data["servers"].values()):
        assert set(groups) <= {*KINDS, "names", "plain"}
        names = [name for kind in KINDS for name in groups.get(kind, "").split()]
        assert len(names) == len(set(names))
