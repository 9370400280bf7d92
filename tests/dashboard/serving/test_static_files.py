"""Files of pages are small: scripts without comments, and no headers that mean nothing for them."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import brotli
import pytest
from django.conf import LazySettings

from dashboard.serving.static_files import HashedStaticFilesStorage, remove_comments
from tests.support.server import Server
from tests.support.tables import loop_over

STATIC = Path(__file__).parents[3] / "static"
SCRIPTS = sorted((STATIC / "toolcards").rglob("*.js"))


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


def test_every_import_of_a_page_script_leads_to_a_hashed_file_in_any_order(
    tmp_path: Path, settings: LazySettings
) -> None:
    settings.SERVESTATIC_SKIP_COMPRESS_EXTENSIONS = ("js", "css", "svg", "png")
    shutil.copytree(STATIC / "toolcards", tmp_path / "toolcards")
    storage = HashedStaticFilesStorage(tmp_path)
    worst_order = sorted(SCRIPTS, key=count_levels, reverse=True)  # each before what it imports
    paths = [script.relative_to(STATIC).as_posix() for script in worst_order]
    results = [result for _, _, result in storage.post_process({path: (storage, path) for path in paths})]
    assert not [result for result in results if isinstance(result, Exception)]
    names = {storage.stored_name(path) for path in paths}
    for name in names:
        for target in find_imports(tmp_path / name):
            assert target.relative_to(tmp_path).as_posix() in names, f"{name}: {target}"


def find_imports(script: Path) -> list[Path]:
    urls = re.findall(r"(?:from |import\()[\"']([^\"']+)", script.read_text())
    return [Path(os.path.normpath(script.parent / url)) for url in urls]


def count_levels(script: Path) -> int:
    return 1 + max((count_levels(target) for target in find_imports(script)), default=0)


def test_compressed_files_are_the_files_and_our_own_are_as_small_as_possible(
    tmp_path: Path, settings: LazySettings
) -> None:
    settings.STATIC_ROOT = tmp_path
    content = SCRIPTS[0].read_bytes() * 3
    for name in ("toolcards/a.js", "admin/a.js"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content)
    storage = HashedStaticFilesStorage(tmp_path)
    compressed_files = dict(storage.compress_files({"toolcards/a.js", "admin/a.js"}))
    assert set(compressed_files) == {"toolcards/a.js", "admin/a.js"}
    own, admin = ((tmp_path / name).with_name("a.js.br").read_bytes() for name in ("toolcards/a.js", "admin/a.js"))
    assert brotli.decompress(own) == brotli.decompress(admin) == content
    assert own == brotli.compress(content) and len(own) < len(admin) < len(content) / 2
    assert (tmp_path / "admin/a.js.gz").exists()
