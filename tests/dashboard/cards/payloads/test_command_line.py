"""A command line that a person answers: each command in a row of its own, all of the text, and it stays text."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cards.payloads.command_line import CommandLine, render_command_line
from tests.support.payloads import MARKUP, S, render_input
from toolcards.core.policy.shell.command_lines import spell_commands

_HIDDEN = re.compile(r'<span class="(?:sr|reason)">.*?</span>|<svg.*?</svg>')


def read_rows(html: str) -> list[str]:
    """Return the text of each row, without marks and reasons."""
    rows = re.findall(r"<li[^>]*>(.*?)</li>", _HIDDEN.sub("", html), re.DOTALL)
    return [unescape(re.sub(r"<[^>]+>", "", row)).strip() for row in rows]


def test_each_command_has_a_row_with_its_mark_and_reason() -> None:
    line = "pytest -q && git push origin 'fix/a b'; ls"
    html = render_command_line(CommandLine(line, [["allow", ""], ["ask", "git push can send data"], ["", ""]]))
    assert read_rows(html) == ["pytest -q", "&& git push origin 'fix/a b'", "; ls"]
    assert re.findall(r'data-mark="(\w*)"', html) == ["allow", "ask", ""]
    assert '<span class="reason">git push can send data</span>' in html
    assert "<b>git</b> push origin <span class=\"tok-string\">'fix/a b'</span>" in html.replace("&#x27;", "'")


@pytest.mark.parametrize("judgements", [[], [["allow", ""]], [["allow", ""]] * 3])
def test_marks_of_another_line_are_not_drawn(judgements: list[list[str]]) -> None:
    assert 'data-mark="allow"' not in render_command_line(CommandLine("ls && pwd", judgements))


def test_many_empty_lines_between_commands_are_named() -> None:
    html = render_command_line(CommandLine("echo a" + "\n" * 40 + "rm -rf /srv/x"))
    assert "39 empty lines" in html and read_rows(html)[1].endswith("rm -rf /srv/x")


@pytest.mark.parametrize("line", ["for f in a; do rm $f; done", "echo $(id)", "", "x\u202ey && ls"])
def test_a_line_that_policy_does_not_understand_stays_one_text(line: str) -> None:
    html = render_input({"command": line}, S.APPROVAL_REQUESTED)
    assert ("<ol" in html) == bool(spell_commands(line))


def test_the_text_of_agents_stays_text() -> None:
    html = render_command_line(CommandLine(f"echo '{MARKUP}' && ls", [["ask", MARKUP], ["", ""]]))
    assert MARKUP not in html and "<script" not in html


PIECES = st.sampled_from(
    ["ls", "git push 'a  b' \"c\"", "A='x y' make", "# note", "cat <<'E'\n<b>\nE", 'echo "a\\"b" > /tmp/x']
)


@given(st.lists(st.tuples(PIECES, st.sampled_from([" && ", "; ", " | ", "\n", " &\n"])), max_size=5))
def test_the_rows_have_all_of_the_line(pairs: list[tuple[str, str]]) -> None:
    line = "".join(piece + joint for piece, joint in pairs)
    html = render_command_line(CommandLine(line))
    if html:
        assert "".join("".join(read_rows(html)).split()) == "".join(line.split())
