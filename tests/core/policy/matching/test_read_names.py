"""Tools that read by their names: each near miss changes something, runs a program or shows a secret."""

from __future__ import annotations

from typing import Any

from tests.support.tables import loop_over
from toolcards.core.policy.decision import PolicyRequest
from toolcards.core.policy.matching.read_names import reads_by_name

READS: list[tuple[str, str, dict[str, Any]]] = [
    ("get_order_details", "", {"order_id": "A-1"}), ("mcp__shop__list_orders", "", {}), ("find_customer", "shop", {}),
    ("check_stock", "", {"sku": "K"}), ("validate_address", "", {"street": "Sample Lane 22"}), ("count_words", "", {}),
    ("find_notes", "", {"title": "merge-text: memory"}),
    ("search_docs", "", {"query": "how to delete a branch; see also: merge", "country_code": "NL"}),
    ("find_posts", "", {"filter": {"title": "Do you copy that?", "tags": ["a", {"b": "c"}]}}),
]  # fmt: skip
NEAR_MISSES: list[tuple[str, str, dict[str, Any]]] = [
    ("get_api_key", "", {}), ("list_secrets", "", {}), ("mcp__shop__get_session_cookie", "", {}), ("show_env", "", {}),
    ("check_out_cart", "", {}), ("check_in_guest", "", {}), ("check_out", "", {}), ("get_and_delete", "", {}),
    ("find_or_create_user", "", {}), ("search_then_replace", "", {}), ("list_delete", "", {}), ("get_run", "", {}),
    ("get_rows", "", {"sql": "select 1"}), ("read_rows", "", {"q": "DELETE FROM a"}), ("view_x", "", {"code": "1"}),
    ("getorder", "", {}), ("get_", "", {}), ("GET_ORDER", "", {}), ("get_\u043erder", "", {}), ("create_order", "", {}),
    ("mcp__a__get_b__delete_c", "", {}), ("get-order", "", {}), ("forget_user", "", {}), ("list_orders\n", "", {}),
    ("read_rows", "", {"q": "/* a */ DROP TABLE a"}), ("read_rows", "", {"q": "-- a\nDROP TABLE a"}),
    ("read_rows", "", {"q": "(delete from a)"}), ("read_rows", "", {"q": "a; drop table a"}),
    ("read_rows", "", {"q": "\ufeffDROP TABLE a"}), ("read_rows", "", {"q": "EXPLAIN ANALYZE DELETE FROM a"}),
    ("read_rows", "", {"q": "EXEC a"}), ("read_rows", "", {"q": "DO $$ begin end $$"}),
    ("read_rows", "", {"params": {"sql": "a"}}), ("read_rows", "", {"params": [{"q": "drop table a"}]}),
    ("read_rows", "", {"sqlQuery": "a"}), ("get_x", "", {"python_code": "a"}), ("get_x", "", {"runShell": "a"}),
    ("get_x", "", {"pipeline": [{"$out": "a"}]}),
    ("get_x", "", {"query": "mutation { deletePost }"}), ("get_x", "", {"q": "MATCH (n) DETACH DELETE n"}),
]  # fmt: skip


@loop_over(("tool", "source", "args"), READS)
def test_a_tool_that_is_named_as_reading_reads_by_name(tool: str, source: str, args: dict[str, Any]) -> None:
    assert reads_by_name(PolicyRequest.for_tool(tool, source=source, input=args))


@loop_over(("tool", "source", "args"), NEAR_MISSES)
def test_near_misses_do_not(tool: str, source: str, args: dict[str, Any]) -> None:
    assert not reads_by_name(PolicyRequest.for_tool(tool, source=source, input=args))
