"""Projects: what is inside by its spelling, what is protected there, and which folders are no project."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.policy.decision import PolicyRequest
from toolcards.core.policy.places.project import Project, read_project
from toolcards.core.policy.request import read_moment
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN, Truth

ROOT = "/home/ann/shop"
SUPERUSER = "/root"


def open_project(root: str = ROOT, folder: str = "") -> Project:
    project = read_project(root, folder)
    assert project is not None
    return project


INSIDE = [
    "a", "./a", "src/a.py", "src//a.py", ROOT, f"{ROOT}/a", f"{ROOT}/", ".", "./", "a..b", "src/test_*.py", "*.pyc",
    "tests/test_?.py", "app/[id]/page.tsx", "app/[...slug]/page.tsx", "app/(shop)/page.tsx", ".gitignore",
    ".editorconfig", "a b", "ä/ö",
    ".env.example", "src/environment.ts", "docs/git/HEADER.md", "tests/test_a.py::test_b", ".github-notes/a",
    "gradle/a", "requirements/notes.md",
]  # fmt: skip
OUTSIDE_OR_PROTECTED = [
    "/etc/passwd", "/home/ann", "/home/ann/shop2/a", "/", "..", "../..", "../other/a", "../../../../etc",
    "/home/bob/shop",
    ".git", ".git/hooks/pre-commit", ".GIT/hooks", "a/.Git/config", f"{ROOT}/.git/config", ".github/workflows/a.yml",
    ".gitlab-ci.yml", ".gitlab-ci.deploy.yml", "Jenkinsfile", ".claude/settings.json",
    "a/b/.claude/settings.local.json",
    ".codex/config.toml", ".cursor/rules/a.mdc", ".mcp.json", "CLAUDE.md", "claude.MD", "a/AGENTS.md",
    "CLAUDE.local.md",
    ".env", ".env.local", "packages/a/.env.production", ".env.example/x/.env", "prod.env", ".envrc", "package.json",
    "packages/a/package.json", "package-lock.json", ".npmrc", ".husky/pre-commit", ".pre-commit-config.yaml",
    "pyproject.toml", "requirements-dev.txt", "requirements/dev.txt", "Cargo.toml", ".cargo/config.toml", "go.mod",
    "gradle/wrapper/gradle-wrapper.jar", ".bashrc", ".vscode/tasks.json", ".devcontainer/Dockerfile", "a/HEAD",
    "a.git/config", ".git::x", "src/package.json::$x".replace("$", ""), "toolcards.sqlite3", ".toolcards/a",
    ".env[x]".replace("[x]", "1"), "ﬁx/.ｇit".replace("ｇ", "g"),
]  # fmt: skip
UNTOLD = [
    "", " a", "a ", "~", "~/a", "~ann/a", "$HOME/a", "a/$b", "`a`", "a/../b", "a/..", "./.git/../.git/hooks", "..\\a",
    f"{ROOT}/../a", f"{ROOT}/a/../b", "../shop/a", "../shop", "../*/a", "//a", f"/{ROOT}/a", "a\\b", "file:///etc/a",
    "http://a/b", "C:/a", "C:\\a", "a\u2215b", "a\uff0fb", "\u2025/a", "a\u200b", "a\nb", ".g\u200cit/a",
    "/HOME/ann/shop/a",
    "/home/ann/Shop/a", "/home/*/shop/a", "/proc/self/cwd/a", "*", "?*", ".*", ".e*", ".g?t/hooks", "p*.json",
    "src/*.py", "docs/*.md",
    "package.jso[n]", "package.jso[[:alpha:]]", "package.js[!]a]n", "{a,.git}/x", "{a..z}", "a{b/c,.git}", "git~1/a",
    "a/.git./b", "a:b", ":a", "x" * 300, "a/" * 70, "a" * 5_000, "**/CLAUDE.md".replace("CLAUDE",
    "C*"),
]  # fmt: skip


@loop_over("word", INSIDE)
def test_a_path_that_is_plainly_below_the_root_is_inside(word: str) -> None:
    assert open_project().locate(word) is TRUE


@loop_over("word", OUTSIDE_OR_PROTECTED)
def test_a_path_outside_or_at_a_protected_place_is_not(word: str) -> None:
    assert open_project().locate(word) is FALSE


@loop_over("word", UNTOLD)
def test_a_path_that_may_lead_elsewhere_is_not_certain(word: str) -> None:
    assert open_project().locate(word) is UNKNOWN


@loop_over(("word", "answer"), [("a", TRUE), (".git", TRUE), ("src/*.py", TRUE), ("/etc", FALSE), ("a/../b", UNKNOWN)])
def test_a_project_contains_its_protected_places(word: str, answer: Truth) -> None:
    assert open_project().contains(word) is answer


WHOLE = [
    ("src", TRUE), (".", UNKNOWN), (ROOT, UNKNOWN), (".config", UNKNOWN), ("gradle", UNKNOWN), ("a/gradle", UNKNOWN),
    (".git", FALSE), ("gradle/a", TRUE), ("..", FALSE),
]  # fmt: skip


@loop_over(("word", "answer"), WHOLE)
def test_a_folder_with_everything_below_it_is_not_certain_if_protected_places_are_there(
    word: str, answer: Truth
) -> None:
    assert open_project().locate(word, recursive=True) is answer


# ---------------------------------------------------------------- folders
MOVES = [
    ("", ["src"], "a", TRUE), ("src", [], "../a", TRUE), ("", ["src", ".."], "a", TRUE), ("src/a", [], "../../b", TRUE),
    ("src/a", [], "./.././../b", TRUE), ("src", [], "../../shop2", FALSE), ("src", [], "../../shop/a", UNKNOWN),
    ("src", [], "../.git", FALSE), ("", [".git"], "hooks", FALSE), ("", ["a", "b"], "../c/../d", UNKNOWN),
    ("", [ROOT + "/src"], "..", TRUE), (f"{ROOT}/src/", [], "x", TRUE), ("requirements", [], "a.txt", FALSE),
]  # fmt: skip


@loop_over(("folder", "words", "path", "answer"), MOVES)
def test_a_path_is_seen_from_the_folder(folder: str, words: list[str], path: str, answer: Truth) -> None:
    project: Project | None = open_project(folder=folder)
    for word in words:
        assert project is not None
        project = project.move(word)
    assert project is not None and project.locate(path) is answer


@loop_over("word", ["..", "/", "/tmp", "~", "-", "a/../..", "$X", "*", "src*", "[a]", "{a,b}", "", "../shop"])
def test_a_folder_outside_or_uncertain_ends_the_project(word: str) -> None:
    next_project = open_project().move(word)
    assert next_project is None or word == "-"


# ---------------------------------------------------------------- roots
NO_PROJECTS = [
    "", "/", "//", "/.", "~", "~/shop", "shop", "./shop", "/home", "/home/ann", "/home/ann/", "/HOME/Ann", "/root",
    "/etc",
    "/etc/nginx", "/usr", "/usr/lib/x", "/usr/src", "/tmp", "/var", "/var/lib", "/var/lib/toolcards/x", "/proc/1/cwd",
    "/Users", "/Users/ann", "/Users/ann/Library/x", "/mnt/c", "/mnt/c/Users/ann", "/home/ann/.claude",
    "/home/ann/.config/x",
    "/home/ann/shop/.git", "/home/ann/shop/.git/worktrees/a", "/home/ann/shop/.claude",
    "/home/ann/shop/.claude/worktrees",
    "/home/ann/shop/..", "/home/ann/shop/../other", "/home/ann/*", "/home/ann/[a]", "/home/ann/$x", "C:/",
    "C:\\Users\\ann",
    "C:/Windows/x", "D:\\users\\ann", "\\\\host\\share\\a", " /home/ann/shop", "file:///home/ann/shop",
    "/" + "a/" * 3_000,
    "/home/ann/sh\u200bop", "/home/ann/.ssh/worktrees",
]  # fmt: skip
PROJECTS = [
    ROOT, f"{ROOT}/", "/home//ann/./shop", f"{SUPERUSER}/shop", "/tmp/shop", "/srv/shop", "/opt/shop", "/app",
    "/workspaces/shop",
    "/usr/src/app", "/Users/ann/code/shop", "/mnt/c/Users/ann/shop", "/home/ann/shop/.claude/worktrees/fix",
    "/home/ann/.codex/worktrees/1/shop", "/home/ann/My work/shop", "C:\\Users\\ann\\shop", "D:/work",
]  # fmt: skip


@loop_over("root", NO_PROJECTS)
def test_a_folder_of_the_system_or_of_a_person_is_no_project(root: str) -> None:
    assert read_project(root) is None


@loop_over("root", PROJECTS)
def test_a_folder_below_is_one(root: str) -> None:
    assert open_project(root).locate("a") is TRUE


@loop_over("folder", ["/home/ann", "/", "..", "~", "../shop2", "a/../b", "/home/ann/shop/../x"])
def test_a_folder_that_is_not_inside_leaves_no_project(folder: str) -> None:
    assert read_project(ROOT, folder) is None


WINDOWS = [
    ("src\\a.py", TRUE), ("src/a.py", TRUE), ("c:/Users/ANN/shop/a", TRUE), ("C:\\Users\\ann\\shop\\.git\\x", FALSE),
    (".GIT\\x", FALSE), ("..\\x", FALSE), ("D:\\x", UNKNOWN), ("\\x", UNKNOWN), ("/etc", UNKNOWN), ("a\\..\\b",
    UNKNOWN),
    ("GIT~1\\x", UNKNOWN), (".git.\\x", UNKNOWN), ("a:b", UNKNOWN), ("C:a", UNKNOWN), ("a ", UNKNOWN), ("%HOME%",
    UNKNOWN),
    ("src\\..", UNKNOWN), ("C:\\Users\\bob", FALSE), ("\\\\host\\a", UNKNOWN),
]  # fmt: skip


@loop_over(("word", "answer"), WINDOWS)
def test_a_project_of_windows_reads_paths_like_windows(word: str, answer: Truth) -> None:
    assert open_project("C:\\Users\\ann\\shop").locate(word) is answer


# ---------------------------------------------------------------- requests
def test_a_request_knows_its_project_and_its_record_too() -> None:
    request = PolicyRequest("Edit", root=ROOT, folder=f"{ROOT}/src")
    assert request.project == read_project(ROOT, "src") and PolicyRequest("Edit").project is None
    assert request.moment == {"root": ROOT, "folder": f"{ROOT}/src"}
    assert PolicyRequest("Edit", **read_moment(request.moment)).project == request.project
    assert PolicyRequest("Edit", **read_moment({})).project is None


# ---------------------------------------------------------------- a property
PIECES = st.sampled_from([
    "a", "b", ".", "..", "...", "", " ", "~", "*", "?", "[a]", ".git", ".GIT", ".g*", "{a,..}", "a.", "\\", "C:",
    "home",
    "ann", "shop", "．．", ".env.x", "package.json", "$A", "-",
])  # fmt: skip
WORDS = st.lists(PIECES, max_size=7).flatmap(
    lambda pieces: st.sampled_from(["", "/", f"{ROOT}/", "../"]).map(lambda start: start + "/".join(pieces))
)


@draw(300)
@example(["src"], "../../shop/a")
@example([], f"{ROOT}/../a")
@given(st.lists(st.sampled_from(["src", "..", "a/b", ROOT, ".git", ".", "../x"]), max_size=4), WORDS)
def test_a_path_that_is_inside_is_so_for_the_system_too(moves: list[str], word: str) -> None:
    project, folder = read_project(ROOT), ROOT
    for move in moves:
        next_project = project.move(move) if project is not None else None
        if next_project is None:
            continue
        project, folder = next_project, posixpath.normpath(posixpath.join(folder, move))
    assert project is not None and (folder == ROOT or folder.startswith(f"{ROOT}/"))
    if project.locate(word) is not TRUE:
        return
    place = posixpath.normpath(posixpath.join(folder, word))
    assert place == ROOT or place.startswith(f"{ROOT}/")
    assert not {".git", ".env.x", "package.json"} & set(place.casefold().removeprefix(ROOT).split("/"))


@pytest.mark.parametrize("word", ["/".join(["*a" * 30] * 60), "a*" * 2_000, "/".join(["x" * 60] * 60)])
def test_a_path_that_is_hard_to_read_ends(word: str) -> None:
    assert open_project().locate(word) is UNKNOWN or "*" not in word
