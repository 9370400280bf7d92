"""The words that a line spells: of commands, redirections, assignments and lists."""

from __future__ import annotations

from tests.support.tables import loop_over
from toolcards.core.policy.matching.spelled_words import spell_line, split_text
from toolcards.core.policy.shell.plain.parser import MAX_BYTES

ROWS = [
    ("cat 'a b' \"c\"d e\\ f", [("cat", "a b", "cd", "e f")], []),
    ('cat "$HOME/.x" ${HOME}/y $XDG_CONFIG_HOME/z', [("cat", "~/.x", "~/y", "~/.config/z")], []),
    ('cat $x/a "$(ls b)" `ls c`', [("cat", "*/a", "*", "*"), ("ls", "b"), ("ls", "c")], []),
    (r"cat $'\x2essh\u002f\101'", [("cat", ".ssh/A")], []),
    ("cat < a > 'b c' 2>&1", [("cat",)], ["a", "b c"]),
    ("x=~/a y=b cmd", [("cmd",)], ["~/a", "b"]),
    ("for f in a 'b'; do cat $f; done", [("cat", "*")], ["a", "b"]),
    ("cat <<< word", [("cat",)], ["word"]),
    ("cat <(ls a)", [("cat", "*"), ("ls", "a")], []),
    ("ls && rm a; (cd b)", [("ls",), ("rm", "a"), ("cd", "b")], []),
    ("", [], []),
]


@loop_over(("line", "commands", "loose"), ROWS)
def test_a_line_spells_its_words(line: str, commands: list[tuple[str, ...]], loose: list[str]) -> None:
    line_words = spell_line(line)
    assert sorted(line_words.commands) == sorted(commands)
    assert set(loose) <= set(line_words.loose)


def test_a_here_document_is_kept_for_the_command_that_reads_it() -> None:
    assert spell_line("cat <<'EOF'\nsome text\nEOF").texts == ["some text\n"]


def test_a_line_that_cannot_be_parsed_is_split_into_pieces() -> None:
    for line in ("cat ~/.netrc; if", "cat ~/.netrc " + "x" * MAX_BYTES, "cat ~/.netrc \x07"):
        assert "~/.netrc" in {*spell_line(line).loose, *(word for words in spell_line(line).commands for word in words)}
    assert split_text("open('/a/b', \"c\")") == ["open", "/a/b", "c"]
