"""What real programs do with their options, held against the catalogue: each danger is proven by running it."""

import os
import shutil
import subprocess

import pytest

from tests.support.shell_samples import read_lines
from tests.support.shell_tracer import BASH, Workshop, run_all
from toolcards.core.policy.shell.catalogs import find_program
from toolcards.core.policy.shell.script import Likelihood, read_line

REAL = read_lines("installed")
pytestmark = pytest.mark.skipif(BASH is None, reason="not here: bash")


FILES = {
    "f": "one\ntwo\n",
    "prog": '{ system("pwned") }',
    "edit": "1e pwned\n",
    "Makefile": "x:\n\tpwned\n",
    "other": "x:\n\tpwned\n",
    "evaluated": "x := $(shell pwned)\nx:\n\ttrue\n",
    "evil.py": "import os\nos.system('pwned')\n",
    "evil.js": "require('child_process').execSync('pwned')\n",
    "evil.sh": "pwned\n",
    "evil.m4": "syscmd(pwned)\n",
    "big": "line\n" * 9_000,
    "package.json": '{"name": "x", "version": "1.0.0", "scripts": {"evil": "pwned", "test": "pwned"}}',
    "sshconfig": "Host x\n ProxyCommand pwned\n",
    "init": ".shell pwned\n",
    "fix": "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-one\n+three\n two\n",
    "magic": "0 string x x\n",
    "a.json": '{"a": 1}',
    "pwn": "#!/bin/sh\npwned\n",
    "parts/one": "#!/bin/sh\npwned\n",
    "+": "one\n",
    '1;BEGIN{system("pwned")}': "",
    "s#a#b#;s#one#pwned#e;s#a#b#": "",
    "e;pwned": "",
    ".gitconfig": "[user]\n\tname = a\n\temail = a@example.com\n",
}
STEPS = """
git init -q . && git add f && git commit -qm one
echo three >> f && git commit -qam two
git checkout -q HEAD~1 f && git commit -qam three
git init -q evil && git -C evil config core.fsmonitor pwned
tar cf a.tar f
gzip -c f > g.gz
"""
# Builtins and programs that need no file beyond those above.
PLAIN = {"echo", "printf", "true", "test", "cd", "pwd", "set", "type", "command"}


@pytest.fixture(scope="module")
def workshops(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    template = folder / "template"
    fill(template)
    return [Workshop(folder / name, real=REAL, stubs=["pwned"], template=template) for name in ("one", "two")]


def fill(folder):
    """Put into the folder what the lines need: scripts, a repository, a hostile one inside it, archives."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in ("pwn", "parts/one"):
        (folder / name).chmod(0o755)
    (folder / "empty").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    for step in STEPS.strip().splitlines():
        subprocess.run([BASH, "-c", step], cwd=folder, env=env, check=False, capture_output=True)


def changed(trace):
    """The files that the line changed; `git status` refreshes git's index, which is no change."""
    return {name for name in trace.wrote if not name.startswith(".git/index")}


def list_missing_dangers(line, trace):
    """Give what the reader did not say of a danger that is real."""
    script = read_line(line)
    if not script.doubt:
        yield "it is listed as read-only"
    if trace.ran and script.effects["runs"] is Likelihood.NO:
        yield "it is said to run nothing"
    if changed(trace) and script.effects["writes"] is Likelihood.NO:
        yield "it is said to write nothing"


def test_every_danger_that_is_real_is_known(workshops):
    traces = run_all(workshops, read_lines("proofs"))
    dangers = [(line, trace) for line, trace in traces if trace.ran or changed(trace)]
    assert not [(line, wrong) for line, trace in dangers for wrong in list_missing_dangers(line, trace)]
    installed_lines = [line for line, _ in traces if shutil.which(line.split()[0])]
    if len(installed_lines) < len(traces) / 3:
        pytest.skip("too few of the programs are installed")
    assert len(dangers) > len(installed_lines) / 2, "most lines of lines/proofs.txt should do what they are there for"


def here(line):
    """Whether all programs of the line are installed, and it ends at once and needs nothing from outside."""
    names = {view[0].rsplit("/", 1)[-1] for part in read_line(line).segments for view in part.views}
    ends = not {*line.split()} & {"-f", "watch", "man", "sleep", "npm", "node"} and "/tmp" not in line
    return ends and names <= {*REAL, *PLAIN} and all(name in PLAIN or shutil.which(name) for name in names)


def test_a_read_only_command_leaves_no_trace(workshops):
    lines = [line for line in read_lines("everyday") if here(line)]
    assert len(lines) > 50
    for line, trace in run_all(workshops, lines):
        assert not read_line(line).doubt, line
        assert not trace.ran and not changed(trace), (line, trace)


def test_the_programs_of_the_proofs_are_in_the_catalogue():
    assert [name for name in REAL if find_program(name) is None] == []
