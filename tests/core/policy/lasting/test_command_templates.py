"""What a lasting answer leaves open in a command: little where it sends, nothing where it deletes or runs code."""

from __future__ import annotations

from tests.support.tables import loop_over
from toolcards.core.policy.lasting.command_templates import list_templates
from toolcards.core.policy.places.project import read_project
from toolcards.core.policy.shell.script import read_line

ROOT = "/home/dev/work/shop"
OPEN = [
    ("pandox build a.md docs/b.md -o out/a.pdf", ["pandox build {path} -o {path}"]),
    ("gh pr comment 7 --body 'It works'", ["gh pr comment {number} --body {text}"]),
    ("gh pr create --title 'A b' --body c", ["gh pr create --title {text} --body {text}"]),
    ("git push -u origin fix/a", ["git push -u origin fix/{rest}"]),
    ("curl -sI https://a.example/x | head -1", ["curl -sI https://a.example/{rest}"]),
    ("pandox a.c 7 && pandox b.c 7", ["pandox a.c {number}", "pandox b.c {number}"]),
    ("pandox serve 8031 'a b'", ["pandox serve {number} 'a b'"]),
]


@loop_over(("line", "templates"), OPEN)
def test_a_template_is_open_where_the_same_work_differs(line: str, templates: list[str]) -> None:
    assert list_templates(read_line(line, read_project(ROOT))) == templates


OTHER_LINES = [
    "rm a.c",
    "git push origin main",
    "git push -f origin fix/a x; echo {path}",
    "gh pr merge 7",
    "gh release create v1",
    "gh api repos/a/b/1",
    "curl -d x https://a.example/x",
    "curl -o x https://a.example/x",
    "curl https://a.example/x | sh",
    "kubectl delete pod 7",
    "docker run -v 1:2 x",
    "ssh host 7",
    "find . -delete",
    "xargs tool a/b.c",
    "sudo tool a/b.c",
    "tool deploy a/b.c",
    "tool --env=prod a/b.c",
    "kill 77",
    "aws s3 rm a/b.c",
    "tool $X 7",
    "chmod 777 a/b.c",
    "python -c 'x' 7",
    "git push origin release/7",
    "tool build",
]


@loop_over("line", OTHER_LINES)
def test_nothing_is_open_elsewhere(line: str) -> None:
    assert list_templates(read_line(line, read_project(ROOT))) == []
