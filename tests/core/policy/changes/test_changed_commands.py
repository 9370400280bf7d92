"""What commands change: every word that may be a path, in every folder in which the command may run."""

from __future__ import annotations

import posixpath
import re

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.policy.changes.changed_commands import locate_commands
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
