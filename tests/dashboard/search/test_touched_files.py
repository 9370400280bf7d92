"""The files that a call names, reads and writes apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.search.touched_files import list_touched_files, names_file
from toolcards.core.calls.card import Card, CardTool

PATCH = "*** Begin Patch\n*** Update File: src/tax.py\n@@\n-a\n+b\n*** End Patch"


@pytest.mark.parametrize(
    ("tool", "kind", "arguments", "reads", "writes"),
    [
        ("Read", "read", {"file_path": "/srv/a.py"}, {"/srv/a.py"}, set()),
        ("Edit", "edit", {"file_path": "a.py", "old_string": "x.py"}, set(), {"a.py"}),
        ("read_many_files", "read", {"paths": ["a", "b"]}, {"a", "b"}, set()),
        ("apply_patch", "edit", {"input": PATCH}, set(), {"src/tax.py"}),
        ("Bash", "execute", {"command": "cat a.py && rm -f b.py > log.txt"}, {"a.py"}, {"b.py", "log.txt"}),
        ("Bash", "execute", {"command": "cd src && wc -l < tax.py"}, {"src", "tax.py"}, set()),
        ("move", "move", {"edits": [{"source": "a", "destination": "b"}]}, set(), {"a", "b"}),
        ("think", "think", {"thought": "a.py"}, set(), set()),
        ("x", "other", "a.py", set(), set()),
        ("x", "other", None, set(), set()),
    ],
)
def test_files_are_found_where_tools_name_them(
    tool: str, kind: str, arguments: Any, reads: set[str], writes: set[str]
) -> None:
    card = Card("c", tool=CardTool(tool, kind), input=arguments, has_input=True)
    assert list_touched_files(card) == (reads, writes)


@pytest.mark.parametrize(
    ("path", "wanted_path", "is_named"),
    [
        ("/srv/app/src/tax.py", "src/tax.py", True),
        ("./src/tax.py", "src/tax.py", True),
        ("C:\\app\\src\\tax.py", "src/tax.py", True),
        ("src/tax.py", "tax.py", True),
        ("src/syntax.py", "tax.py", False),
        ("src/tax.py", "src", True),
        ("src/tax.py.bak", "tax.py", False),
        ("src/tax.py", "*.py", True),
        ("src/tax.py", "s?c/*.py", True),
        ("src/tax.pyc", "*.py", False),
        ("src/tax.py", "/", False),
    ],
)
def test_a_path_is_named_by_its_last_names_or_a_folder(path: str, wanted_path: str, is_named: bool) -> None:
    assert names_file(path, wanted_path) is is_named


JSON = st.recursive(st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.sampled_from(["path", "input", "command", "files", "x"]), inner, max_size=3
), max_leaves=8)  # fmt: skip


@given(JSON, st.sampled_from(["Bash", "Edit", "x"]))
def test_no_arguments_fail(arguments: Any, tool: str) -> None:
    files = list_touched_files(Card("c", tool=CardTool(tool, "execute"), input=arguments, has_input=True))
    assert all(isinstance(path, str) for path in files.reads | files.writes)
