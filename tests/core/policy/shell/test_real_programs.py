"""What real programs do with their options, held against the catalogue: each danger is proven by running it."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.server import PATIENCE
from tests.support.shell_samples import read_lines
from tests.support.shell_tracer import BASH, Workshop, run_all
from toolcards.core.policy.shell.catalogs import find_program, load_programs
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


@pytest.mark.slow
def test_every_danger_that_is_real_is_known(workshops):
    traces = run_all(workshops, read_lines("proofs"))
    dangers = [(line, trace) for line, trace in traces if trace.ran or changed(trace)]
    assert not [(line, wrong) for line, trace in dangers for wrong in list_missing_dangers(line, trace)]
    installed_lines = [line for line, _ in traces if shutil.which(line.split()[0])]
    if len(installed_lines) < len(traces) / 3:
        pytest.skip("too few of the programs are installed")
    assert len(dangers) > len(installed_lines) / 2, "most lines of lines/proofs.txt should do what they are there for"


def runs_here(line):
    """Whether all programs of the line are installed, and it ends at once and needs nothing from outside."""
    names = {view[0].rsplit("/", 1)[-1] for part in read_line(line).segments for view in part.views}
    ends = not {*line.split()} & {"-f", "watch", "man", "sleep", "npm", "node"} and "/tmp" not in line
    return ends and names <= {*REAL, *PLAIN} and all(name in PLAIN or shutil.which(name) for name in names)


@pytest.mark.slow
def test_a_read_only_command_leaves_no_trace(workshops):
    lines = [line for line in read_lines("everyday") if runs_here(line)]
    assert len(lines) > 50
    for line, trace in run_all(workshops, lines):
        assert not read_line(line).doubt, line
        assert not trace.ran and not changed(trace), (line, trace)


def test_the_programs_of_the_proofs_are_in_the_catalogue():
    assert [name for name in REAL if find_program(name) is None] == []


# Files that programs look for where they start; each would run `pwned`.
HOSTILE = {
    ".yarnrc": 'yarn-path "./pwn.js"\n',
    ".yarnrc.yml": "yarnPath: ./pwn.js\n",
    "pwn.js": "#!/bin/sh\npwned\n",
    ".npmrc": "script-shell=./pwn\nnode-options=--require=./evil.js\n",
    ".pnpmfile.cjs": "PWN_JS",
    ".coveragerc": "[run]\nplugins = evil\n",
    ".mvn/jvm.config": "-javaagent:evil.jar\n",
    ".sbtopts": "-J-javaagent:evil.jar\n",
    "rust-toolchain.toml": '[toolchain]\npath = "."\n',
    "bin/rustc": "#!/bin/sh\npwned\n",
    "bin/cargo": "#!/bin/sh\npwned\n",
    ".cargo/config.toml": '[build]\nrustc = "./pwn"\n',
    "go.mod": "module x\ntoolchain go1.99.0\n",
    "evil.py": "import os\nos.system('pwned')\n",
    "conftest.py": "import os\nos.system('pwned')\n",
    "toxfile.py": "import os\nos.system('pwned')\n",
    "sitecustomize.py": "import os\nos.system('pwned')\n",
    "pytest.ini": "[pytest]\naddopts = -p evil\npythonpath = .\n",
    "setup.cfg": "[coverage:run]\nplugins = evil\n",
    "evil.js": "require('child_process').execSync('pwned')\n",
    "Makefile": "x := $(shell pwned)\nx:\n\tpwned\n",
    "package.json": '{"name": "x", "version": "1.0.0", "scripts": {"preversion": "pwned", "ls": "pwned"}}',
    ".gdbinit": "shell pwned\n",
    ".lesskey": "#env\nLESSOPEN=|pwned\n",
    ".vimrc": "!pwned\n",
    ".screenrc": "exec pwned\n",
    "Rakefile": "`pwned`\n",
    "Gemfile": "`pwned`\n",
    "global.json": '{"sdk": {"paths": ["."]}}',
    ".rgrc": "--pre=./pwn\n",
    "docker-compose.yml": "services: {}\n",
    ".envrc": "pwned\n",
    ".tool-versions": "python ../../../pwn\n",
    ".python-version": "../../pwn\n",
    "poetry.toml": "[virtualenvs]\ncreate = false\n",
    "pwn": "#!/bin/sh\npwned\n",
    "node_modules/.bin/jest": "#!/bin/sh\npwned\n",
    ".sqliterc": ".shell pwned\n",
    ".wgetrc": "use_askpass=./pwn\n",
}
READ_ONLY_SAMPLES = [
    "npm ls",
    "npm prefix",
    "npm config get registry",
    "git --version",
    "git log --oneline",
    "git branch --list",
    "ls -la",
    "make --version",
    "pip list",
    "rg --files",
    "grep -r x .",
    "jq . package.json",
    "sqlite3 -safe -readonly x.db .tables",
    "tar tf a.tar",
    "less f",
    "tree",
    "find . -name x",
    "bat f",
    "man -w ls",
    "file f",
    "stat f",
    "arch",
    "uname -a",
    "env",
]


@pytest.mark.slow
def test_no_read_only_row_runs_what_a_hostile_folder_holds(tmp_path: Path) -> None:
    """Each program here prints its version, or what the samples say, among files that would leave a mark."""
    folder, mark = tmp_path / "hostile", tmp_path / "mark"
    for name, text in HOSTILE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HOSTILE["evil.js"] if text == "PWN_JS" else text)
        path.chmod(0o755)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "pwned").write_text(f"#!/bin/sh\necho \"$PPID\" >> '{mark}'\n")
    (tools / "pwned").chmod(0o755)
    versions = [f"{name} {min(form.version)}" for name, form in load_programs().forms.items() if form.version]
    lines = [line for line in (*versions, *READ_ONLY_SAMPLES) if shutil.which(line.split()[0])]
    assert lines and not [line for line in READ_ONLY_SAMPLES if read_line(line).doubt]
    environment = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(tools),
        "COREPACK_ENABLE_NETWORK": "0",
    }
    marked_lines = []
    for line in lines:
        if read_line(line).doubt:
            continue
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                line.split(),
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
        if mark.exists():
            marked_lines.append(line)
            mark.unlink()
    assert not marked_lines


LAUNCHERS = [
    "yarn --version",
    "yarn list",
    "yarn why x",
    "pnpm --version",
    "pnpm list",
    "coverage report",
    "coverage --version",
    "mvn --version",
    "sbt --version",
    "gradle --version",
    "cargo --version",
    "cargo version",
    "rustc --version",
    "go version",
    "go env GOPATH",
    "dotnet --version",
    "poetry --version",
    "tox --version",
    "arch -x86_64 ./x",
    "git bisect view",
    "git bisect visualize",
    "find . -execdir git status ;",
    "bash -c 'cd evil && git status'",
    "sh -c 'pushd evil; git log'",
    "git log --format=%+G?",
    "git for-each-ref --format='%(*signature)'",
    "openssl rsa -noout -in org.openssl.engine:./x.so:k",
    'gawk \'BEGIN { extension("./x.so", "f") }\'',
]


@pytest.mark.parametrize("line", LAUNCHERS)
def test_what_takes_code_from_the_folder_is_never_read_only(line: str) -> None:
    script = read_line(line)
    assert script.doubt and script.effects["runs"] is not Likelihood.NO


NETWORK_READERS = [
    "gh pr list",
    "gh run view 1",
    "aws s3 ls",
    "aws ec2 describe-instances",
    "kubectl get pods",
    "helm list",
    "gcloud projects list",
    "az vm list",
    "docker ps",
    "docker compose ps",
    "timeout 5 docker ps",
    "bash -c 'gh pr list'",
]


@pytest.mark.parametrize("line", NETWORK_READERS)
def test_what_reads_from_a_server_is_read_only_and_sends(line: str) -> None:
    script = read_line(line)
    assert not script.doubt and script.effects["sends"] is Likelihood.YES


@pytest.mark.parametrize(
    "line",
    [
        "make --version",
        "git status",
        "git -P log",
        "npm ls",
        "bash -c 'git status'",
        "arch",
        "find . -exec git status ;",
        "git bisect log",
        "ls",
        "docker --version",
    ],
)
def test_what_reads_only_here_sends_nothing(line: str) -> None:
    script = read_line(line)
    assert not script.doubt and script.effects["sends"] is Likelihood.NO
