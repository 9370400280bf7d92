"""What commands change: every word that may be a path, in every folder in which the command may run."""

from __future__ import annotations

import posixpath
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.policy.changes.changed_commands import InsideCondition, locate_commands
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import PolicyError, parse
from toolcards.core.policy.places.project import read_project
from toolcards.core.policy.shell.script import read_line
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN, Truth

ROOT = "/home/ann/shop"


def locate(line: str, folder: str = "", *, names_command: bool = True) -> Truth:
    project = read_project(ROOT, folder)
    assert project is not None
    return min(locate_commands(read_line(line), project, names_command=names_command))


INSIDE = [
    "rm a", "rm -rf build", f"rm {ROOT}/a", "mkdir -p src/a", "touch a b c", "mv a b", "cp -r src/a src/b",
    "chmod +x a.sh",
    "cat /etc/hosts", "ls ~", "grep -rn x /usr/include", "git status", "git add .", "git add src/a.py",
    "git commit -m 'fix: read /etc/hosts again'", "git commit -am 'See ../notes'",
    "pytest -q tests/a.py::test_b -k 'a or b'",
    "cargo test -p shop", "npx jest tests/a", "npm test -- part1", "make test", "cd src && rm a", "cd src; touch a",
    f"cd {ROOT} && rm a",
    "cd src && cd a && touch b", "docker compose up -d db", "ruff check .", "timeout 5 rm a", "sort -o out.txt in.txt",
]  # fmt: skip
NOT_INSIDE = [
    ("rm /etc/a", FALSE), ("rm ../a", FALSE), ("rm -rf ~", UNKNOWN), ("rm -rf .", UNKNOWN), (f"rm -rf {ROOT}", UNKNOWN),
    ("rm -rf *", UNKNOWN), ("rm -rf .git", FALSE), ("rm .GIT/hooks/a", FALSE), ("mv a package.json", FALSE),
    ("cp a /etc", FALSE), ("cp a b /etc", FALSE), ("cp -t/etc a", FALSE), ("cp --target-directory=/etc a", FALSE),
    ("install -D a /usr/bin/a", FALSE), ("ln -s /etc a", FALSE), ("ln -s ../.. a", FALSE), ("cp evil/CLAUDE.md .",
    FALSE),
    ("npm install --prefix=/etc", FALSE), ("npm install --prefix /etc", FALSE), ("make -C /etc", FALSE),
    ("git -C /etc add a", FALSE),
    ("git -C .. add a", FALSE), ("git --git-dir=/etc/a add a", FALSE), ("git --work-tree /etc add a", FALSE),
    ("gcc -o/etc/x a.c", FALSE), ("gcc -xo/etc/x a.c", FALSE), ("gcc -o../x a.c", FALSE), ("gcc -o.git/x a.c", FALSE),
    ("gcc @/etc/args", FALSE), ("curl -o /etc/a http://x", FALSE), ("sed -i s/a/b/ /etc/hosts", FALSE),
    ("dd if=a of=/etc/x", FALSE), ("tee /etc/a", FALSE), ("touch file:///etc/a", UNKNOWN), ("rm a/../../b", UNKNOWN),
    ("rm src/../.git/x", UNKNOWN), ("rm $X", UNKNOWN), ("rm ~ann/a", UNKNOWN), ("rm a\u2215b", UNKNOWN),
    ("tar -xf a.tar", UNKNOWN), ("tar -C /etc -xf a.tar", UNKNOWN), ("unzip a.zip", UNKNOWN), ("git apply a.patch",
    UNKNOWN),
    ("patch -p1", UNKNOWN), ("echo /etc/a | xargs rm", UNKNOWN), ("ls | xargs rm", UNKNOWN), ("rsync -a a b", UNKNOWN),
    ("find . -delete", UNKNOWN), ("find / -delete", FALSE), ("bash -c 'rm /etc/a'", FALSE), ("sudo rm /etc/a", FALSE),
    ("cd ..", UNKNOWN), ("cd /etc && ls", UNKNOWN), ("touch a && cd", UNKNOWN), ("cd .. && rm a", UNKNOWN),
    ("cd /tmp && rm a", UNKNOWN), ("cd a && cd ../.. && rm x", UNKNOWN),
    ("cd a; rm ../x", FALSE), ("cd a || rm ../x", FALSE), ("cd .git && rm a", FALSE), ("cd && rm a", UNKNOWN),
    ("cd - && rm a", UNKNOWN),
    ("pushd /etc && rm a", UNKNOWN), ("rm a && rm /etc/b", FALSE), ("eval 'cd ..; rm a'", FALSE),
    ("bash -c \"rm '/etc/a'\"", FALSE),
    ("env -C /etc rm a", FALSE), ("bash -c 'cd ..&&rm a'", FALSE), ("rm `echo /etc`",
    UNKNOWN),
    ("rm -x" + "a" * 200, UNKNOWN),
]  # fmt: skip


@loop_over("line", INSIDE)
def test_a_command_whose_words_stay_inside_changes_only_the_project(line: str) -> None:
    assert locate(line) is TRUE


@loop_over(("line", "answer"), NOT_INSIDE)
def test_a_command_that_may_reach_outside_is_not_inside(line: str, answer: Truth) -> None:
    assert locate(line) is answer or (answer is FALSE and locate(line) is UNKNOWN)
    assert locate(line) is not TRUE


REDIRECTIONS = [
    ("echo a > b", TRUE), ("echo a >> src/b", TRUE), ("echo a > /tmp/out.txt", TRUE),
    ("echo a > .git/hooks/pre-commit", FALSE),
    ("echo a > /etc/b", FALSE), ("echo a > ../b", FALSE), ("echo a > ~/.bashrc", UNKNOWN),
    ("echo a > /tmp/a/../../etc/b", UNKNOWN),
    ("cat <<'EOF' > package.json\n{}\nEOF", FALSE), ("cd src && echo a > ../b", FALSE), ("echo a > /tmp/.x", FALSE),
    ("for f in a b; do rm $f; done", TRUE), ("for f in a /etc/b; do rm $f; done", FALSE), ("X=/etc/a; rm $X", FALSE),
    ("cat > src/a.py <<'EOF'\nopen('/etc/a')\nEOF", TRUE), ("D=/etc; cd $D && rm a", UNKNOWN), ("echo x >| /etc/a",
    FALSE),
    ("rm a > /dev/null 2>&1", TRUE), ("tee src/a < b", TRUE), ("ls > .env", FALSE), ("echo a >> Makefile", FALSE),
]  # fmt: skip


@loop_over(("line", "answer"), REDIRECTIONS)
def test_a_redirection_changes_its_file(line: str, answer: Truth) -> None:
    assert locate(line) is answer


@loop_over(("line", "answer"), [
    ("rm a", TRUE), ("mkdir a", TRUE), ("ls", TRUE), ("python a.py", UNKNOWN), ("make", UNKNOWN), ("npm test", UNKNOWN),
    ("curl http://x.example", UNKNOWN), ("unknown-program a", UNKNOWN),
])  # fmt: skip
def test_without_a_condition_on_the_command_only_plain_changes_of_files_are_inside(line: str, answer: Truth) -> None:
    assert locate(line, names_command=False) is answer


def test_a_folder_below_the_root_is_where_a_command_begins() -> None:
    assert locate("rm ../a", "src") is TRUE and locate("rm ../../a", "src") is FALSE


PIECES = st.sampled_from([
    "a", "..", ".", "/etc", ROOT, ".git", "~", "src", "-o", "--out=", "of=", "@", "*", "CLAUDE.md", "../a", "-x/etc",
    "b c", "'",
])  # fmt: skip
WORDS = st.lists(PIECES, min_size=1, max_size=3).map("/".join) | st.lists(PIECES, min_size=1, max_size=3).map("".join)


@draw(300)
@example(["rm"], ["-o/../etc"], [])
@given(
    st.sampled_from([["rm"], ["touch"], ["cp", "a"], ["mv", "a"], ["gcc"], ["timeout", "5", "rm"]]),
    st.lists(WORDS, min_size=1, max_size=3),
    st.lists(st.sampled_from(["src", "..", "a", "/etc", ROOT]), max_size=2),
)
def test_whatever_the_words_what_is_inside_lies_below_the_root(
    program: list[str], words: list[str], moves: list[str]
) -> None:
    line = " && ".join([*(f"cd {move}" for move in moves), " ".join([*program, *words])])
    if locate(line) is not TRUE:
        return
    folder = ROOT
    for move in moves:
        folder = posixpath.normpath(posixpath.join(folder, move))
    for word in " ".join(words).replace("'", "").split():
        for piece in [word, *re.split("[=@]", word), re.sub("^-[a-z]", "", word)]:
            place = posixpath.normpath(posixpath.join(folder, piece.removeprefix("-")))
            assert place == ROOT or place.startswith(f"{ROOT}/") or piece.startswith("-")
            assert not {".git", "CLAUDE.md"} & set(place.split("/"))


def find_effect(document: dict[str, Any], tool: str, value: Any, root: str = ROOT, **fields: Any) -> Effect:
    return decide(parse(document), PolicyRequest.for_tool(tool, input=value, root=root, **fields)).effect


INSIDE_CONDITION_INSIDE = {"path": "", "op": "inside_project"}
ROWS = [
    ("allow", "ask", "a.py", "allow"), ("allow", "ask", "/etc/a", "ask"), ("allow", "ask", "a/../b", "ask"),
    ("allow", "ask", ".git/config", "ask"), ("ask", "allow", "a.py", "ask"), ("ask", "allow", "a/../b", "ask"),
    ("ask", "allow", "/etc/a", "allow"), ("deny", "allow", "a.py", "deny"), ("deny", "allow", ".git/config", "allow"),
]  # fmt: skip


@loop_over(("effect", "default", "file", "answer"), ROWS)
@pytest.mark.parametrize("path", ["", "/file_path"])
def test_a_path_counts_as_inside_where_a_rule_needs_it(
    path: str, effect: str, default: str, file: str, answer: str
) -> None:
    rule = {"effect": effect, "match": {"args": [{"path": path, "op": "inside_project"}]}}
    assert find_effect({"default": default, "rules": [rule]}, "Edit", {"file_path": file}) == answer


EDITS = {
    "default": "allow",
    "rules": [
        {"effect": "ask", "match": {"kind": ["edit"]}, "unless": [{"args": [{"path": "", "op": "inside_project"}]}]}
    ],
}


@loop_over(
    ("root", "file", "answer"),
    [
        (ROOT, "a", "allow"), (ROOT, "/etc/a", "ask"), (ROOT, "a/../b", "ask"), ("", "a", "ask"), ("/", "a", "ask"),
        ("/home/ann", "/home/ann/shop/a", "ask"), ("~", "a", "ask"), (f"{ROOT}/..", "a", "ask"),
    ],
)  # fmt: skip
def test_everything_but_edits_inside_can_be_asked_about(root: str, file: str, answer: str) -> None:
    assert find_effect(EDITS, "Edit", {"file_path": file}, root) == answer


def test_without_a_project_a_rule_that_allows_holds_for_nothing_and_others_for_all() -> None:
    for effect, default, answer in (("allow", "ask", "ask"), ("deny", "allow", "deny")):
        rule = {"effect": effect, "match": {"args": [{"path": "", "op": "inside_project"}]}}
        document = {"default": default, "rules": [rule]}
        assert find_effect(document, "Edit", {"file_path": "a"}, root="") == answer
        assert find_effect(document, "Edit", None, has_input=False) == answer


def test_all_or_any_of_the_values_count() -> None:
    for quant, answer in (("any", "deny"), ("all", "allow")):
        argument = {"path": "/paths/*", "op": "inside_project", "quant": quant}
        document = {"default": "allow", "rules": [{"effect": "deny", "match": {"args": [argument]}}]}
        assert find_effect(document, "save_file", {"paths": ["a", "/etc/a"]}) == answer
        assert find_effect(document, "save_file", {"paths": []}) == "allow"
        assert find_effect(document, "save_file", {"paths": [5]}) == "deny"


def test_a_condition_has_a_name_for_people() -> None:
    assert InsideCondition((), every=True).name.strip() == "inside_project"
    assert InsideCondition(("file_path",), every=True).name == "/file_path inside_project"


# ---------------------------------------------------------------- commands
COMMANDS = {
    "default": "ask",
    "rules": [
        {
            "effect": "allow",
            "match": {
                "args": [{"path": "", "op": "effect", "value": ["none", "writes", "deletes"]}, INSIDE_CONDITION_INSIDE]
            },
        }
    ],
}
LINES = [
    ("Bash", {"command": "touch a"}, "allow"), ("Bash", {"command": "touch /etc/a"}, "ask"), ("Bash",
    {"command": "ls"}, "allow"),
    ("Bash", {"command": "ls /etc && touch a"}, "allow"), ("Bash", {"command": "touch a && touch ../b"}, "ask"),
    ("Bash", {"command": "touch a; curl x"}, "ask"), ("Bash", {"command": "cat .env"}, "allow"),
    ("shell", {"command": ["touch", "a"], "workdir": "src"}, "allow"), ("shell", {"command": ["touch", "/etc/a"]},
    "ask"),
    ("shell", {"command": ["touch", "a"], "workdir": ROOT}, "allow"), ("shell", {"command": ["touch", "a"],
    "workdir": "/etc"}, "ask"),
    ("shell", {"command": ["touch", "hooks/a"], "workdir": ".git"}, "ask"), ("shell", {"command": ["ls"],
    "workdir": ".."}, "ask"),
    ("exec_command", {"cmd": "touch a", "workdir": f"{ROOT}/src", "yield_time_ms": 1000}, "allow"),
    ("exec_command", {"cmd": "touch ../a", "workdir": f"{ROOT}/src"}, "allow"),
    ("exec_command", {"cmd": "touch ../../a", "workdir": f"{ROOT}/src"}, "ask"),
    ("exec_command", {"cmd": "touch a", "workdir": 5}, "ask"), ("exec_command", {"cmd": "touch a", "env": {"A": "b"}},
    "ask"),
    ("local_shell", {"action": {"command": ["touch", "a"], "working_directory": "/etc"}}, "ask"),
    ("local_shell", {"action": {"command": ["touch", "a"], "working_directory": "src"}}, "allow"),
    ("run_shell_command", {"command": "touch a", "directory": ""}, "allow"), ("powershell", {"command": "touch a"},
    "ask"),
    ("exec_command", {"action": "close", "session_id": 1}, "ask"),
]  # fmt: skip


@loop_over(("tool", "value", "answer"), LINES)
def test_a_command_is_judged_where_its_tool_takes_it(tool: str, value: Any, answer: str) -> None:
    assert find_effect(COMMANDS, tool, value) == answer
    assert find_effect(COMMANDS, tool, value, root="/") == "ask"


def test_a_command_without_a_project_is_not_inside() -> None:
    assert find_effect(COMMANDS, "Bash", {"command": "touch a"}, root="") == "ask"


def test_rules_can_cover_a_line_together() -> None:
    arguments = [
        [{"path": "/command", "op": "effect", "value": "none"}],
        [{"path": "/command", "op": "effect", "value": "writes"}, INSIDE_CONDITION_INSIDE],
    ]
    document = {
        "default": "ask",
        "rules": [{"effect": "allow", "match": {"tool": ["Bash"], "args": each}} for each in arguments],
    }
    for command, answer in (
        ("ls /etc && touch a", "allow"),
        ("ls && touch /etc/a", "ask"),
        ("touch a; touch ../b", "ask"),
    ):
        assert find_effect(document, "Bash", {"command": command}) == answer


def test_alone_it_allows_only_plain_changes_of_files() -> None:
    document = {"default": "ask", "rules": [{"effect": "allow", "match": {"args": [INSIDE_CONDITION_INSIDE]}}]}
    for command, answer in (
        ("touch a", "allow"),
        ("python a.py", "ask"),
        ("make", "ask"),
        ("rm ../a", "ask"),
        ("ls", "allow"),
    ):
        assert find_effect(document, "Bash", {"command": command}) == answer


def test_a_look_in_a_folder_of_the_project_needs_no_question() -> None:
    looks = {
        "default": "ask",
        "rules": [{"effect": "allow", "match": {"args": [{"path": "", "op": "effect", "value": "none"}]}}],
    }
    for folder, answer in ((f"{ROOT}/src", "allow"), (ROOT, "allow"), ("/etc", "ask"), ("..", "ask"), (None, "ask")):
        assert find_effect(looks, "exec_command", {"cmd": "git status", "workdir": folder}) == answer
        assert find_effect(looks, "exec_command", {"cmd": "git status", "workdir": f"{ROOT}/src"}, root="") == "ask"


PROJECT = "/home/dev/work/shop"
PATCH = "*** Begin Patch\n*** Update File: {}\n@@\n-a\n+b\n*** End Patch\n"
MANIFEST_ROWS = [
    ("Edit", {"file_path": f"{PROJECT}/pom.xml"}, True), ("Edit", {"file_path": f"{PROJECT}/web/pom.xml"}, True),
    ("apply_patch", {"input": PATCH.format("core/pom.xml")}, True), ("Edit", {"file_path": f"{PROJECT}/a.py"}, True),
    ("apply_patch", {"input": PATCH.format("a.py")}, True),
    # near misses
    ("Edit", {"file_path": f"{PROJECT}/Makefile"}, False),
    ("Edit", {"file_path": f"{PROJECT}/.github/pom.xml"}, False),
    ("Edit", {"file_path": f"{PROJECT}/.git/pom.xml"}, False), ("Edit", {"file_path": "/home/dev/pom.xml"}, False),
    ("Edit", {"file_path": f"{PROJECT}/pom.xml/../../x/pom.xml"}, False),
    ("Edit", {"file_path": f"{PROJECT}/pom.xml/../.env"}, False),
    ("Edit", {"file_path": f"{PROJECT}/package.json"}, False),
    ("apply_patch", {"input": PATCH.format("pom.xml") + PATCH.format(".github/workflows/a.yml")}, False),
    ("apply_patch", {"input": PATCH.format("../pom.xml")}, False), ("Bash", {"command": "rm pom.xml"}, False),
    ("Bash", {"command": "sed -i s/a/b/ pom.xml"}, False),
    ("mcp__fs__edit_file", {"path": f"{PROJECT}/pom.xml"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "args", "allowed"), MANIFEST_ROWS)
def test_a_rule_may_name_manifests_that_edit_tools_change(tool: str, args: dict[str, Any], allowed: bool) -> None:
    condition = {"path": "", "op": "inside_project", "value": ["pom.xml"]}
    clause = {"kind": ["edit"], "args": [condition]}
    request = PolicyRequest.for_tool(tool, input=args, root=PROJECT)
    for rule, default in (
        ({"effect": "allow", "match": clause}, "ask"), ({"effect": "ask", "match": {}, "unless": [clause]}, "allow"),
    ):  # fmt: skip
        policy = parse({"default": default, "rules": [rule]})
        assert (decide(policy, request).effect is Effect.ALLOW) is allowed


@pytest.mark.parametrize("value", [".env", ["pom.xml", ".mcp.json"], "settings.json", 1, [None], "*.xml", "a/pom.xml"])
def test_only_manifests_can_be_named(value: Any) -> None:
    condition = {"path": "", "op": "inside_project", "value": value}
    with pytest.raises(PolicyError, match="expects nothing, or names of"):
        parse({"rules": [{"effect": "allow", "match": {"args": [condition]}}]})
