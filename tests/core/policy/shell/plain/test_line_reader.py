"""Lists of commands, loops and variables of a line: read as bash reads them, or not at all."""

from __future__ import annotations

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.shell.plain.line_reader import MAX_COMMANDS, read_commands
from toolcards.core.policy.shell.plain.words import NotPlain

LINES = [
    ("ls # all of them", "ls"), ("# first\nls\n# last", "ls"), ("ls; # x\nwc", "ls|wc"),
    ("a \\\n  b && \\\n c", "a b|c"),
    ("a \\\n  | b", "a|b"), ("X=1; cat \"$X\"", "cat 1"), ("X='a b' && cat \"$X\" c", "cat a b c"),
    ("a && X=1 && cat $X", "a|cat 1"), ("f=a; g=\"$f/b\"; cat ${g}", "cat a/b"), ("CI=1 pytest -q", "pytest -q"),
    ("for f in a b; do cat \"$f\"; done", "cat a|cat b"), ("for f in a; do cat $f | wc; done | sort", "cat a|wc|sort"),
    ("for f in a b\ndo\n cat $f\n # x\ndone\nls", "cat a|cat b|ls"),
    ("for f in *.go; do wc $f; done", "wc *.go|wc *.go"),
    ("for a in 1 2; do for b in x y; do echo $a$b; done; done", "echo 1x|echo 1y|echo 2x|echo 2y"),
    ("a; echo \"exit: $?\"", "a|echo exit: 0"), ("a | b; echo ${PIPESTATUS[0]}", "a|b|echo 0"),
    ("a; exit $?", "a|exit 0"),
    ("a; rc=$?; echo $rc; exit $rc", "a|echo 0|exit 0"), ("cat <<'E'\n$x `y` (\nE\nls", "cat|ls"),
    ("for f in a; do ls $f; done 2>&1", "ls a"), ("X=; ls \"$X\"", "ls "), ("cd x && ls 2>&1 | wc", "cd x|ls|wc"),
    ("a & b", "a|b"), ("a > /tmp/x 2>&1 &", "a"), ("a & echo $! > p", "a|echo 0"), ("a && b &\nc", "a|b|c"),
    ("time a | b", "a|b"), ("FOO=1 a b", "env FOO=1 a b"), ("A=1 B=2 ls *.c", "env A=1 B=2 ls *.c"),
    ("GIT_DIR=x git status", "env GIT_DIR=x git status"), ("CI=1 X=1 ls", "env CI=1 X=1 ls"),
]  # fmt: skip


@loop_over(("line", "commands"), LINES)
def test_a_line_is_its_commands_with_their_values(line: str, commands: str) -> None:
    assert "|".join(" ".join(command.words) for command in read_commands(line)) == commands


REFUSED_LINES = [
    "", ";", "X=1", "# ls", "a &&", "a |", "&& a", "a;;b", "a &; b", "a &! b", "X=1 & ls",
    "X=1 && a & b", "for f in a; do b & done", "time", "time X=1 ls", "time time ls", "time for f in a; do b; done",
    "a | time (b)", "a |& b", "a ||| b", "(a)", "a\n&& b", "ls\\\nx",
    "ls # rm x; rm y", "ls # it's", "ls # -o x", "ls # a/b", "# $(x)\nls", "a && # x\nb", "ls 'a'#b c'", "X=1 | a",
    "a | X=1", "a || X=1; cat $X", "a && X=1; cat $X", "X=a; b && X=c && d; cat $X", "X=a; b && X=c || cat $X",
    "X=1; read X; cat $X", "X=1; . f; cat $X", "X=1; printf -v X y; cat $X", "PATH=/x; ls", "IFS=x; ls", "X=(1); ls",
    "X+=1; ls", "X[0]=1; ls", "X=~/a; ls", "X=$(a); ls", "X=rm; $X f", "X='a b'; cat $X", "X='*'; cat $X", "X=; cat $X",
    "PATH=/tmp ls", "LD_PRELOAD=x ls", "A=1 LD_PRELOAD=x ls", "CI=$? ls", "FOO=1 cd x", "FOO=1 . x", "FOO=1 eval x",
    "FOO=1 env ls",
    "for PATH in a; do ls; done", "for path in a; do ls; done", "for IFS in a; do ls; done", "for f; do ls; done",
    "for f in; do ls; done", "for f in $x; do ls; done", "for f in $(a); do ls; done", "for f in ~/a; do ls; done",
    "for f in a; do done", "for f in a; ls; done", "for f in a; do ls", "for f in a; do X=1; ls $X; done",
    "f=a; ls; for f in b; do c; done; ls $f",
    "for ((i=0;i<3;i++)); do ls; done", "for f in r m; do $f x; done", "for f in 'a b'; do cat $f; done",
    "for f in a; do read f; cat $f; done", "for f in a; do cat ${f@P}; done", "ls $?", "X=$?; rm $X", "cat <<E\nx\nE",
    "cat <<'E'\nx", "cat <<'E' && echo 'a\nb'\nx\nE", "cat <<'E' <<'F'\nE\nF", "cat <<-'E'\nE", "cat <<< x",
    "for f in a; do cat <<'E'; done\nx\nE", "cat <<'E' \\\n\nE", "done", "do ls", "if a; then b; fi",
    "select f in a; do ls; done",
    "for f in " + "a " * 60 + "; do ls; ls; done", "X=" + "a" * 4_000 + "; ls " + "$X" * 20,
    "ls\n" * (MAX_COMMANDS + 1),
    "for a in x; do for b in x; do for c in x; do for d in x; do ls; done; done; done; done",
]  # fmt: skip


@loop_over("line", REFUSED_LINES)
def test_every_other_line_is_refused(line: str) -> None:
    with pytest.raises(NotPlain):
        read_commands(line)


def test_a_name_in_a_loop_that_may_be_several_words_is_a_pattern() -> None:
    quoted, bare = (read_commands(f"for f in src/*.go; do wc {word}; done")[0].globs for word in ('"$f"', "$f"))
    assert quoted == (frozenset(), frozenset({1}))
    assert bare == (frozenset({1}), frozenset({1}))  # a file may be called `a -x.go`
