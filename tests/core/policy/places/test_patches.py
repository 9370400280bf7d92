"""Patches: every line that some program may take for a header names a file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.policy.places.patches import read_patch

BEGIN, END = "*** Begin Patch\n", "*** End Patch\n"
PATCHES = [
    (f"{BEGIN}*** Add File: a.py\n+x\n{END}", ("a.py",)),
    (
        f"{BEGIN}*** Update File: a.py\n*** Move to: b/c.py\n@@ def f\n-x\n+y\n*** End of File\n{END}",
        ("a.py", "b/c.py"),
    ),
    (f"{BEGIN}*** Add File: a\n+x\n  *** Delete File: /etc/b\n{END}", ("a", "/etc/b")),
    (f"{BEGIN}*** Update File: a b.py \n{END}", ("a b.py",)),
    (f"{BEGIN}*** Update File:a\n{END}", ("a",)),
    ("*** Add File: a\u2028*** Delete File: b\n", ("a\u2028*** Delete File: b", "a", "b")),
    ("*** Add File: a\r\n+x\r\n", ("a",)),
    ("--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n", ("x.py", "a/x.py", "b/x.py")),
    ("--- x.py\t2026-01-01\n+++ x.py\n", ("x.py",)),
    ("--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+a\n", ("new.py", "b/new.py")),
    ("diff --git a/x b/x\nnew file mode 100644\nindex 1..2\n--- /dev/null\n+++ b/x\n", ("x", "b/x")),
    ("diff --git a/.git/x b/.git/x\n", (".git/x",)),
    ("a text\nof lines\n", ()),
    ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", ()),
    ("", ()),
]


@loop_over(("text", "paths"), PATCHES)
def test_a_patch_names_its_files(text: str, paths: tuple[str, ...]) -> None:
    patch = read_patch(text)
    assert set(patch.paths) == set(paths) and patch.certain


UNCERTAIN = [
    "*** Rename File: a\n", "*** Environment ID: x\n", "***Add File: a\n", "*** add file: a\n", "*** Add File: \n",
    "diff --git a/x b/y\n", "diff -u x y\n", "rename to x\n", "copy from x\n", "Index: x\n", "new file mode 120000\n",
    "old mode 100644\nnew mode 120000\n", "GIT binary patch\n", '+++ "b/\\303\\244"\n', "diff --git a/x y b/x y\n",
]  # fmt: skip


@loop_over("text", UNCERTAIN)
def test_a_header_with_several_readings_is_not_certain(text: str) -> None:
    assert not read_patch(f"*** Add File: a\n{text}").certain


LINES = st.sampled_from(
    ["*** Add File: ", "*** Move to: ", "+++ b/", "--- ", "+", " ", "-", "*** ", "\t", "\u2028", "\r"]
)


@draw(100)
@given(
    st.lists(st.tuples(LINES, LINES | st.just("")), max_size=5),
    st.sampled_from(["*** Delete File: ", "*** Add File: "]),
)
def test_a_file_with_a_header_of_its_own_is_found_in_any_patch(parts: list[tuple[str, str]], header: str) -> None:
    before = "".join(f"{start}{more}x\n" for start, more in parts)
    assert "victim" in read_patch(f"{before}{header}victim\n{before}").paths
