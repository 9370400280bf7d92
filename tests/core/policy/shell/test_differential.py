"""What really ran in bash is inside what the reader said, for thousands of generated command lines."""

import os

import pytest

from tests.support.shell_samples import Writer, read_lines
from tests.support.shell_tracer import BASH, STUBS, WRAPPERS, Workshop, run_all
from toolcards.core.policy.shell.command_prefix import parse_prefix
from toolcards.core.policy.shell.rule_operands import CommandOperand
from toolcards.core.policy.shell.script import Likelihood, read_line

LINES = 3_000
SEED = int(os.environ.get("SHELL_SEED", "1"))
CHANGING = {"rm", "cp", "curl", "mytool", "make", "pwned", "sudo"}  # stubs of programs that do more than look
pytestmark = pytest.mark.skipif(BASH is None, reason="not here: bash")


_MESSAGE = "$(cat <<"


def differences(line, trace):
    """Give what the reader did not say of what really happened."""
    script = read_line(line)
    views = [view for same in script.views.values() for view in same]
    for words in trace.ran:
        if words == ("cat",) and _MESSAGE in line:  # it only passes the text on
            continue
        if CommandOperand((parse_prefix(words[0]),)).match_widely(script) is Likelihood.NO:
            yield f"a deny for {words[0]} is passed"
        if not script.hidden and not any(could_be(words, view) for view in views):
            yield f"nothing was said of {words}"
        if script.effects["runs"] is Likelihood.NO and all(bare(part.words[0]) != words[0] for part in script.segments):
            yield f"{words} ran, and nothing was said to run others"
    if trace.wrote and script.effects["writes"] is Likelihood.NO:
        yield f"{sorted(trace.wrote)} was written"
    read_only = all(part.analysis.read_only and not part.opaque for part in script.segments)
    targets = {target.removeprefix("./") for part in script.segments for target in part.targets}
    if read_only and not trace.wrote <= {f"{folder}{target}" for target in targets for folder in ("", "d/")}:
        yield f"{sorted(trace.wrote)} was written, and the files are {targets}"
    if not script.doubt and (trace.wrote or any(words[0] in CHANGING for words in trace.ran)):
        yield f"it is read-only, and it did {trace}"


def bare(word):
    return word.rsplit("/", 1)[-1]


def could_be(words, view):
    """Whether this view is what ran: the same program, and the same words unless some may expand to others."""
    if bare(view[0]) != words[0]:
        return False
    return view[1:] == words[1:] or any(char in word for word in view for char in "*?[{~")


def compare(folder, lines):
    traces = run_all([Workshop(folder / name) for name in ("one", "two")], lines)
    return traces, [(line, wrong) for line, trace in traces for wrong in differences(line, trace)]


@pytest.mark.thorough
def test_what_ran_is_inside_what_was_said(tmp_path):
    writer = Writer(SEED)
    traces, wrong = compare(tmp_path, [writer.line() for _ in range(LINES)])
    assert not wrong, wrong[:5]
    assert sum(bool(trace.ran) for _, trace in traces) > LINES / 4, "too few lines ran anything"
    assert sum(not read_line(line).doubt for line, _ in traces) > LINES / 50, "too few lines are read-only"
    assert sum(not read_line(line).hidden and bool(trace.ran) for line, trace in traces) > LINES / 20


def test_the_lines_that_fell_are_inside_what_was_said(tmp_path):
    fell = [line.partition("\t")[2] for line in read_lines("fell")]
    traces, wrong = compare(tmp_path, [line for line in fell if line.split()[0] in {*STUBS, *WRAPPERS}])
    assert not wrong, wrong
    assert any(words == ("rm", "x") for _, trace in traces for words in trace.ran)
