"""Files of pages are small: scripts without comments, and no headers that mean nothing for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.serving.static_files import remove_comments
from tests.support.server import Server
from tests.support.tables import loop_over

SCRIPTS = sorted((Path(__file__).parents[3] / "static/toolcards").glob("*.js"))


def test_comments_of_whole_lines_leave_a_script_and_nothing_else() -> None:
    script = "// one\nlet a = 'http://x';  // stays\n/**\n * @param {x} y\n */\n  /** Do. */\nf(/\\/\\*/);\n"
    assert remove_comments(script) == "let a = 'http://x';  // stays\nf(/\\/\\*/);\n"


@loop_over("path", SCRIPTS, ids=lambda path: path.name)
def test_no_text_of_a_script_looks_like_a_comment(path: Path) -> None:
    assert all(line.count("`") % 2 == 0 for line in path.read_text().splitlines())  # texts of several lines


@pytest.mark.parametrize(("path", "governs"), [("base.css", False), ("main.js", False), ("favicon.svg", True)])
def test_a_file_has_the_policy_of_documents_only_if_it_can_be_opened_as_one(
    server: Server, path: str, governs: bool
) -> None:
    status, _, headers = server.request("GET", f"/static/toolcards/{path}", key=None)
    by_name = {name.lower(): value for name, value in headers.items()}
    assert status == 200 and by_name["x-content-type-options"] == "nosniff"
    assert by_name["cross-origin-resource-policy"] == "same-origin"
    assert ("content-security-policy" in by_name) == governs == ("permissions-policy" in by_name)
