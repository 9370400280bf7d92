"""The sub-command that words name, and the effects of options among them."""

from __future__ import annotations

from tests.support.tables import loop_over
from toolcards.core.policy.shell.arguments import read_arguments
from toolcards.core.policy.shell.plain.parser import parse_line
from toolcards.core.policy.shell.program_match import find_named_effects, guess_effects, match_program

MATCHES = [  # the line, the form, its words; k: known, s: safe, v: varies
    ("ls x", "ls", 1, "ks"), ("git", "git", 1, "ks"), ("git status -s", "git status", 2, "ks"),
    ("git -C /x status", "git status", 4, "k"), ("git --no-pager status", "git status", 3, "ks"),
    ("git --nope status", "git status", 3, "s"), ("git unheard-of", "git", 1, "s"),
    ("git * status", "git status", 3, "sv"),
    ("ip addr show", "ip addr show", 3, "ks"), ("npm run test", "npm run", 2, "ks"),
]  # fmt: skip


@loop_over(("line", "name", "length", "marks"), MATCHES)
def test_the_words_name_the_innermost_sub_command(line: str, name: str, length: int, marks: str) -> None:
    (command,) = parse_line(line).commands
    place = match_program(command.words, command.globs)
    assert place is not None
    shown_marks = "k" * place.is_known + "s" * place.safe + "v" * place.varies
    assert (place.form.name, place.length, shown_marks) == (name, length, marks)


def test_a_program_that_is_not_in_the_catalog_matches_nothing() -> None:
    assert match_program(("nope", "x")) is None and match_program(("rm.py",)) is None


def test_an_option_has_an_effect_also_where_it_is_abbreviated() -> None:
    place = match_program(("git", "diff"))
    assert place is not None
    words = ("git", "diff", "--output=x")
    assert find_named_effects(place.form, read_arguments(words, 2, place.form.kinds, "gnu")) == {"writes"}
    assert guess_effects(place.form, ["--outp", "x"]) == {"writes"} and not guess_effects(place.form, ["--stat"])
