"""What the reader takes for plain, what it sees of the rest, and what it costs."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.shell.plain.parser import MAX_COMMANDS, parse_line
from toolcards.core.policy.shell.script import Likelihood, read_command, read_line

PLAIN = [
    ("ls -la", [("ls", "-la")]),
    ("ls  'a b' \"c d\"", [("ls", "a b", "c d")]),
    ("e'c'h\"o\" x", [("echo", "x")]),
    ("a && b || c; d | e\nf", [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)]),
    ("\n ls\n\n rm x ;\n", [("ls",), ("rm", "x")]),
    ("a |\n b", [("a",), ("b",)]),
    ("ls 2>&1", [("ls",)]),
    ("ls >/dev/null 2>&1 | wc", [("ls",), ("wc",)]),
    ("find . -exec ls {} \\; ! -name x", [("find", ".", "-exec", "ls", "{}", ";", "!", "-name", "x")]),
    ("find . \\( -name a \\)", [("find", ".", "(", "-name", "a", ")")]),
    ("a b{}c 'é' é", [("a", "b{}c", "é", "é")]),
    ("ls # x", [("ls",)]),
    ("ls > f 2>> g", [("ls",)]),
    ("cat < f", [("cat",)]),
    ("ls \\\n x", [("ls", "x")]),
    ("ls 'a\nb'", [("ls", "a\nb")]),
    ("for f in a b; do cat $f; done", [("cat", "a"), ("cat", "b")]),
]


@pytest.mark.parametrize(("line", "words"), PLAIN)
def test_plain_lines_are_read_word_by_word(line, words):
    assert [command.words for command in parse_line(line).commands] == words


OPAQUE = [
    "",
    " ",
    "\n",
    ";",
    "&& ls",
    "ls &&",
    "ls;;ls",
    "ls &; ls",
    "(ls) & ls",
    "# ls",
    "ls $X",
    "ls `x`",
    "ls $(x)",
    "(ls)",
    "{ ls; }",
    "! ls",
    "[ x ]",
    "[[ x ]]",
    "A=1",
    "ls <<E\nE\n",
    "ls <<< x",
    "ls |& x",
    "l\\s",
    "coproc ls",
    "if x",
    "then ls",
    "- ls",
    "noglob ls",
    "'' ls",
    "~/ls",
    "l?",
    "ls {a,b}",
    "ls {a",
    "ls a}",
    "ls !x",
    "ls !!",
    "é",
    "ls 'a",
    'ls "a',
    "ls\tx",
    "ls\rx",
    "ls\0x",
    "ls \x1b[2J",
    "ls 'a\x07'",
    "ls 2>&1 x",
    "ls >/dev/null x",
    "2>/dev/null ls",
    "f() { ls; }",
    "function f { ls; }",
    "select a in b; do ls; done",
    "ls $'x'",
    'ls $"x"',
    "ls *(x)",
    "ls ?(x)",
    "ls\u2028x",
    "\ud800",
    "export A=1",
    "unset A",
    "ls " + "x" * 8200,
    "ls\n" * 101,
    "ls " + "a " * 1100,
    "ls " + "'a'" * 300,
]


@loop_over("line", OPAQUE)
def test_everything_else_is_opaque_and_says_why(line):
    parsed = parse_line(line)
    assert parsed.opaque and not parsed.commands
    assert len(read_line(line).segments) == 1 and read_line(line).hidden and read_line(line).doubt


def test_commands_inside_an_opaque_line_are_seen():
    for line in (
        "if true; then rm -r x; fi",
        "for f in *; do rm $f; done",
        "(rm x)",
        "echo $(rm x)",
        "A=1 rm x",
        "r\\m x",
        "(rm x) &",
    ):
        assert read_line(line).effects["deletes"] is Likelihood.YES
    assert read_line("echo x > f").effects["writes"] is Likelihood.YES
    assert read_line("echo $X").effects["writes"] is Likelihood.MAYBE


def test_a_pattern_that_may_expand_to_options_hides_what_runs():
    deny = ruled(0)
    for line in ("find *", "tar cf a.tar *", "xargs *", "sort *", "env *"):  # a file may be called -delete, or -exec
        assert decide(deny, PolicyRequest.for_tool("Bash", input={"command": line})).effect is Effect.ASK
    for line in ("ls *", "cp * d", "find ./*", "sort -- *", "git add *"):
        assert decide(deny, PolicyRequest.for_tool("Bash", input={"command": line})).effect is Effect.ALLOW


def test_a_program_in_another_folder_may_do_anything():
    for line in ("./cp a b", "/tmp/ls", "uv run ls", "npx prettier f", "/usr/local/bin/mkdir x"):
        assert read_line(line).effects["sends"] is not Likelihood.NO
    assert read_line("cp a b").effects["sends"] is Likelihood.NO


def test_threads_do_not_disturb_each_other():
    lines = [line for line, _ in PLAIN] * 50
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(parse_line, lines))
    assert results == [parse_line(line) for line in lines]


def test_a_list_is_words_or_lines_or_opaque():
    assert read_command(["ls", "a; rm x"], "words").segments[0].words == ("ls", "a; rm x")
    assert [part.words for part in read_command(["ls", "rm x"], "lines").segments] == [("ls",), ("rm", "x")]
    assert read_command(["ls", "rm x"]).segments[0].opaque
    for wrong in ([], [1], ["ls", None], {}, 5, None):
        assert read_command(wrong) is None
    for wrong in ([""], ["ls", "a\0b"], ["x" * 9000]):
        assert read_command(wrong, "words").segments[0].opaque


def ruled(count, effect="deny", **more):
    rules = [
        {"id": "zz-rm", "value": "rm"},
        *({"id": f"r{number}", "value": f"prog{number}"} for number in range(count)),
    ]
    return parse(
        {
            "default": "allow",
            "rules": [
                {
                    "id": rule["id"],
                    "effect": effect,
                    "match": {"args": [{"path": "/command", "op": "cmd", "value": rule["value"]}]},
                }
                | more
                for rule in rules
            ],
        }
    )


@pytest.mark.parametrize(
    "shell", ["bash", "bash -c 'ls'", 'sh -c "ls; sh -c ls"', "sudo -a -b -c sh -c x", "python -c 1"]
)
@pytest.mark.parametrize("name", ["40", "80"])
def test_many_shells_in_one_line_use_up_no_budget(shell, name):
    line = "; ".join([shell] * int(name)) + "; rm x"
    policy, question = ruled(300), PolicyRequest.for_tool("Bash", input={"command": line})
    decision = decide(policy, question)
    assert (decision.effect, decision.rule) == (Effect.DENY, "zz-rm")


def test_the_last_of_a_hundred_commands_is_still_read():
    line = "; ".join(["ls"] * (MAX_COMMANDS - 1) + ["rm x"])
    assert decide(ruled(3), PolicyRequest.for_tool("Bash", input={"command": line})).effect is Effect.DENY
    assert read_line(line + "; ls").segments[0].opaque


HOSTILE = "([{<$`'\"\\;|&!#~*?=\0 \n"


@draw(300)
@given(st.text(alphabet=HOSTILE + "ab-/é\ud800", max_size=60), st.integers(1, 150))
def test_reading_always_answers(text, times):
    line = text * times
    script = read_line(line)
    assert script.segments and script.line == line
    assert all(part.opaque or part.words[0] for part in script.segments)
    assert bool(script.doubt) or not script.hidden


@draw(300)
@given(st.text(alphabet="ab'\" ;|&\n>2/1-*{}\\", max_size=25))
def test_what_is_plain_gives_the_line_back(line):
    commands = parse_line(line).commands
    at = 0
    for command in commands:  # the line contains every command, in order, with only operators between
        result = line.index(command.text, at)
        assert not line[at:result].replace("\\\n", "").strip(" ;|&\n")
        at = result + len(command.text)
    assert not commands or not line[at:].replace("\\\n", "").strip(" ;&\n")
