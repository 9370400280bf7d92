"""The table of error codes: the same as in the documents, with words and known values in each row."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

from tests.support.tables import loop_over
from toolcards.client.common import error_codes

# The page of the design, typed in: row, codes, who caused it, again (yes, no, ? if idempotent, - if nothing was written),
# and what the tool may have done where the page says so.
PAGE = """
3 plugin_veto plugin no | 4 plugin_crash plugin no | 5 plugin_timeout plugin yes | 5 plugin_missing plugin no | 6 after_hook_crash plugin no confirmed
7 policy_denied runtime no | 7 kill_switch runtime no | 8 approval_denied runtime no
9 approval_expired runtime no | 9 permit_expired runtime no | 9 permit_revoked runtime no | 10 integrity runtime no
11 gate_unavailable runtime yes | 12 no_such_tool runtime no | 13 invalid_input tool no
14 connect_failed tool yes none | 15 tls_invalid tool no | 16 timeout tool ? possible | 16 conn_lost tool ? possible
17 deadline runtime ? | 18 rate_limited tool yes | 19 quota tool no | 20 upstream tool ? | 21 upstream_auth tool no
22 conflict tool no | 23 upstream_rejected tool no | 24 tx_conflict tool yes | 25 tool_failed tool no
26 resource_busy tool - | 27 resource_exhausted tool no | 28 exit_status tool no | 29 tool_reported tool unknown
30 protocol runtime no | 30 transport runtime ? | 31 bad_output tool no confirmed | 32 lost runtime unknown | 33 internal tool unknown
"""
ROWS = [row.split() for row in PAGE.replace("|", "\n").strip().splitlines()]


@loop_over("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_table_is_the_page(row: list[str]) -> None:
    number, code, authority, again, *effects = row
    entry = error_codes.TABLE[code]
    assert (entry.number, entry.authority) == (int(number), authority)
    assert [entry.effects] == (effects or [entry.effects])
    retryable = {
        "yes": (True, True, True), "no": (False, False, False), "?": (False, True, False), "-": (False, False, True),
        "unknown": (None, None, None),
    }[again]  # fmt: skip
    value = ({}, {"idempotent": True}, {"unwritten": True})
    assert tuple(error_codes.make_fault(code, **more).retryable for more in value) == retryable  # type: ignore[arg-type]


def test_the_table_has_nothing_that_the_page_has_not() -> None:
    assert [row[1] for row in ROWS] == list(error_codes.TABLE)


def test_what_an_agent_said_stands_and_the_table_fills_in_the_rest() -> None:
    assert error_codes.complete_failure() == error_codes.StatedFailure("tool_failed", "tool", None, "execute")
    assert error_codes.complete_failure("timeout", kind="read").retryable is True
    assert error_codes.complete_failure("timeout", kind="execute").retryable is False
    assert (
        error_codes.complete_failure("timeout").retryable
        is error_codes.complete_failure("timeout", kind="other").retryable
        is None
    )
    assert error_codes.complete_failure("no_such_tool").phase == "resolve"
    assert error_codes.complete_failure("rate_limited", retryable=False).retryable is False
    assert error_codes.complete_failure("ENOENT", authority="plugin") == error_codes.StatedFailure(
        "ENOENT", "plugin", None, "execute"
    )
    assert error_codes.complete_failure("x", authority="<b>").authority == "tool"


def test_every_row_has_words_and_known_values() -> None:
    assert len(error_codes.TABLE) == 37
    for row in error_codes.TABLE.values():
        assert row.authority in error_codes.AUTHORITIES
        assert row.retry in {"yes", "no", "idempotent", "unwritten", "unknown"}
        assert row.effects in {"none", "possible", "confirmed"}
        assert row.title[0].isupper()
