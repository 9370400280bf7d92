"""Options of a command line, read as the program reads them."""

from __future__ import annotations

from tests.support.tables import loop_over
from toolcards.core.policy.shell.arguments import Arguments, read_arguments, read_specification


def read(words, specification, style="gnu", **more):
    arguments = read_arguments(tuple(words.split()), 0, read_specification(specification), style, **more)
    return arguments.options, [word for _, word in arguments.operands], arguments.unknown


@loop_over(
    ("words", "style", "expected"),
    [
        ("-ab f", "gnu", ([("-a", ""), ("-b", "")], ["f"], [])),
        ("f -a", "gnu", ([("-a", "")], ["f"], [])),
        ("f -a", "posix", ([], ["f", "-a"], [])),
        ("-v x f", "gnu", ([("-v", "x")], ["f"], [])),
        ("-avx f", "gnu", ([("-a", ""), ("-v", "x")], ["f"], [])),
        ("-oxa", "gnu", ([("-o", "xa")], [], [])),
        ("-o x", "gnu", ([("-o", "")], ["x"], [])),
        ("--long=x", "gnu", ([("--long", "x")], [], [])),
        ("--long x f", "gnu", ([("--long", "x")], ["f"], [])),
        ("--lon=x", "gnu", ([], [], ["--lon=x"])),
        ("--flag=x", "gnu", ([], [], ["--flag=x"])),
        ("-z", "gnu", ([], [], ["-z"])),
        ("-az", "gnu", ([("-a", "")], [], ["-az"])),
        ("-- -z", "gnu", ([], ["-z"], [])),
        ("- -a", "gnu", ([("-a", "")], ["-"], [])),
        ("-v", "gnu", ([], [], ["-v"])),
        ("-12 f", "gnu", ([("-#", "12")], ["f"], [])),
        ("-m x", "gnu", ([("-m", "x")], [], [])),
        ("-m -a", "gnu", ([("-m", ""), ("-a", "")], [], [])),
        ("av x f", "tar", ([("-a", ""), ("-v", "x")], ["f"], [])),
        ("va x f", "tar", ([("-v", "x"), ("-a", "")], ["f"], [])),
        ("az f", "tar", ([("-a", "")], ["f"], ["az"])),
        ("--single x", "long", ([("-single", "x")], [], [])),
        ("-single=x", "long", ([("-single", "x")], [], [])),
        ("-ax v f", "gnu", ([("-a", "")], ["v", "f"], ["-ax"])),
        ("-na v f", "gnu", ([("-n", "v"), ("-a", "")], ["f"], [])),
        ("-an", "gnu", ([("-a", "")], [], ["-an"])),
        (". -single x -y", "find", ([("-single", "x")], ["."], ["-y"])),
    ],
)
def test_options_are_read_as_programs_read_them(words, style, expected):
    assert read(words, "-[ab] -v: -o? -m~ -n! -# --long= --flag -single:", style) == expected


def test_a_pattern_may_be_an_option():
    assert read("x -a *", "-a", patterns=frozenset({2}))[2] == ["*"]
    assert read("-- *", "-a", patterns=frozenset({1}))[1] == ["*"]
    assert Arguments().names == set()
