"""Words of a line: read exactly as the program receives them, or refused with the reason."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.shell_tracer import BASH
from tests.support.tables import loop_over
from toolcards.core.policy.shell.plain.words import NotPlain, Word, read_document, read_whole_word, read_word

VALUES = {"x": Word("v w", "\0\0\0"), "f": Word("a.txt", "a.txt"), "g": Word("*.go", "*.go"), "n": Word("", "")}
WORDS = [
    ("a", "a"), ("-la", "-la"), ("12", "12"), ("a/b.c,d:e@f%g+h^i", "a/b.c,d:e@f%g+h^i"), ("{}", "{}"),
    ("a{}b", "a{}b"), ("*.py", "*.py"), ("a=b", "a=b"), ("\\;", ";"), ("\\(", "("), ("!", "!"), ("!=", "!="),
    ("''", ""),
    ("'a b'", "a b"), ("'$x`\"'", '$x`"'), ("'é'", "é"), ('"a b"', "a b"), ('""', ""), ("\"'\"", "'"),
    ("a'b c'd", "ab cd"), ("'a'\"b\"c", "abc"), ("''a", "a"), ("~/a", "~/a"), (r'"a\.b"', r"a\.b"),
    (r'"func (p \*T)"', r"func (p \*T)"), (r'"a \"b\" \$c \`d\` \\e"', 'a "b" $c `d` \\e'), (r'"a\\"', "a\\"),
    (r"\*.py", "*.py"), (r"foo\|bar", "foo|bar"), (r"a\ b", "a b"), ("é", "é"), ("→✓", "→✓"), ('"é"', "é"),
    ("'a\nb'", "a\nb"), ('"a\nb"', "a\nb"), ('"a\\\nb"', "ab"), ("a#b", "a#b"),
]  # fmt: skip


@loop_over(("spelling", "text"), WORDS)
def test_a_plain_word_is_what_the_program_receives(spelling: str, text: str) -> None:
    assert read_whole_word(spelling) == text


@pytest.mark.skipif(BASH is None, reason="not here: bash")
def test_bash_reads_the_words_in_the_same_way() -> None:
    spellings = [spelling for spelling, text in WORDS if "~" not in spelling and spelling != "*.py"]
    lines = "".join(f"printf '%s\\0' {spelling}\n" for spelling in spellings)
    result = subprocess.run([str(BASH), "-c", lines], capture_output=True, check=True, cwd="/")
    assert result.stdout.decode().split("\0")[:-1] == [read_whole_word(spelling) for spelling in spellings]


REFUSED_WORDS = [
    ("$y", "it contains $ outside single quotes"), ("${x@P}", "it contains $ outside single quotes"),
    ("${!x}", "it contains $ outside single quotes"), ("${x:=a}", "it contains $ outside single quotes"),
    ('"$y"', "it contains $ outside single quotes"), ("$(x)", "it contains a command substitution"),
    ("$x", "it contains $ outside single quotes"), ("$n", "it contains $ outside single quotes"),
    ('"$f[1]"', "it contains $ outside single quotes"), ('"$f:h"', "it contains $ outside single quotes"),
    ("$((f=1))", "it contains a command substitution"), ("$[1]", "it contains $ outside single quotes"),
    ("$'a'", "it contains $ outside single quotes"), ("${PIPESTATUS[f]}", "it contains $ outside single quotes"),
    ("${PIPESTATUS[$(x)]}", "it contains $ outside single quotes"), ("$f$(x)", "it contains a command substitution"),
    ("`x`", "it contains a command substitution"), ('"`x`"', "it contains a command substitution"),
    ('"a!"', "it contains ! outside single quotes"), (r'"a\!"', "it contains \\ outside single quotes"),
    (r"a\b", "it contains \\ outside single quotes"), ("a!b", "it contains ! outside single quotes"),
    ("a{b", "it contains { outside single quotes"), ("{a,b}", "it contains { outside single quotes"),
    ("\u00a0", "it contains U+00A0 outside single quotes"), ("à", "it contains U+00E0 outside single quotes"),
    ("\u202e", "it contains U+202E outside single quotes"), ("'a\tb'", "it contains ' outside single quotes"),
    ("<(x)", "it contains < outside single quotes"), ("'a", "it contains ' outside single quotes"),
    ('"a', "it contains an open quote outside single quotes"), ("@(a)", "it contains ( outside single quotes"),
]  # fmt: skip


@loop_over(("spelling", "why"), REFUSED_WORDS)
def test_a_word_that_is_not_plain_is_refused_with_the_reason(spelling: str, why: str) -> None:
    with pytest.raises(NotPlain) as caught:
        read_word(spelling, 0, VALUES)
    assert str(caught.value) == why


PATTERNS = [
    ("a", False, False), ("'a*'", False, False), ('"*"', False, False), ("a*", True, False), ("*", True, True),
    ("''*", True, True), ("\"\"''?x", True, True), ("'a'*", True, False), ("-[x]", True, False), (r"\*", False, False),
    (r'"\""*"\""', True, False), (r"\\*", True, False), ('"$x"', False, False), ('"$f"', False, False),
    ("$f", False, False), ('"$g"', True, True), ('"a$g"', True, False), ("a$g", True, True), ("a$f*", True, False),
]  # fmt: skip


@loop_over(("spelling", "pattern", "leading"), PATTERNS)
def test_patterns_differ_from_quoted_text(spelling: str, pattern: bool, leading: bool) -> None:
    word, end = read_word(spelling, 0, VALUES)
    assert (word.is_pattern, word.starts_with_pattern, end) == (pattern, leading, len(spelling))


def test_a_number_that_is_not_known_is_marked() -> None:
    for spelling in ("$?", '"exit: $?"', "${PIPESTATUS[0]}", "${?}", "${PIPESTATUS[@]}"):
        word, _ = read_word(spelling, 0, {})
        assert word.number and word.expanded and read_whole_word(spelling) is None


MESSAGES = [
    ("fix: a\n\nCo <a@b>", "fix: a\n\nCo <a@b>"), ("fix(x): it's `done` $(rm x)", "fix(x): it's `done` $(rm x)"),
    ("", ""), ("EOF2\n\n", "EOF2"), ('a "b" c', 'a "b" c'),
]  # fmt: skip


@loop_over(("message", "text"), MESSAGES)
def test_a_here_document_of_cat_is_its_text(message: str, text: str) -> None:
    for quote in "'\"":
        spelling = f'"$(cat <<{quote}EOF{quote}\n{message}\nEOF\n)"'
        assert read_whole_word(spelling) == text and read_whole_word(f"--body={spelling}") == f"--body={text}"


@loop_over(
    "spelling",
    [
        '"$(cat <<EOF\na\nEOF\n)"', '"$(cat f)"', '"$(cat <<\'EOF\'\na\nEOF\nrm x)"', '"$(cat <<\'EOF\' f\na\nEOF\n)"',
        '"$(rm <<\'EOF\'\na\nEOF\n)"', '"$(cat <<\'EOF\'\na\n)"', "$(cat <<'EOF'\na\nEOF\n)",
        '"$(cat <<\'EOF\'\na\n EOF\n)"',
        '"$(cat <<\'EOF\'\n:)" ; rm x ; echo "\nEOF\n)"', '"$(cat <<\'EOF\'\n:)\nEOF\n)"',
        '"a $(cat <<\'EOF\'\na\nEOF\n)"',
    ],
)  # fmt: skip
def test_other_substitutions_are_refused(spelling: str) -> None:
    """Bash 3.2 ends a substitution at the first closing parenthesis, also inside a here-document."""
    assert read_whole_word(spelling) is None


def test_a_here_document_ends_at_its_delimiter() -> None:
    assert read_document("a\nEOF \nEOF\nb", 0, "EOF") == ("a\nEOF \n", 10)
    assert read_document("EOF", 0, "EOF") == ("", 3)
    assert read_document("a\n", 0, "EOF") == (None, 0)
