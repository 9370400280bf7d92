"""A rule allows only the words that it spells out, and others that change nothing."""

from __future__ import annotations

from tests.support.tables import loop_over
from toolcards.core.policy.shell.plain.parser import parse_line
from toolcards.core.policy.shell.unspelled_words import explain_unspelled_words

WORDS = [
    ("pytest -q tests", 1, True), ("pytest -p evil", 1, False), ("git add -A", 2, True), ("git add -A", 1, False),
    ("ls -la", 1, True), ("nope x", 1, False), ("nope x", 2, True), ("timeout 5 pytest -q", 3, True),
    ("timeout 5 pytest -p x", 3, False), ("bash", 1, False), ("git add *", 2, False),
]  # fmt: skip


@loop_over(("line", "count", "enough"), WORDS)
def test_words_that_a_rule_leaves_out_must_change_nothing(line: str, count: int, enough: bool) -> None:
    (command,) = parse_line(line).commands
    assert (explain_unspelled_words(command.words, command.globs, count) == "") is enough
