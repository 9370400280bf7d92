"""Commands that replace text in files: only in files of the project that are named, and with no code."""

from __future__ import annotations

from tests.support.tables import loop_over
from toolcards.core.policy.places.project import read_project
from toolcards.core.policy.shell.script import read_line

PROJECT = read_project("/home/dev/work/shop")
PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** {} File: {}\n@@\n-a\n+b\n*** End Patch\nEOF"
EDITS = [
    "sed -i 's/a/b/' src/a.py", "sed -i -E 's/(a)+/b/g' src/a.py src/b.py", "sed -i '' 's/a/b/' a.py",
    "sed -i.bak -e 's/a/b/' -e '3d' a.py", "perl -pi -e 's/a/b/g' src/a.rs", "perl -0pi -e 's/A: u64 = 50/A = 0/' a.rs",
    "perl -i -pe 's/(a)b/$1/' a.rs", PATCH.format("Update", "README.md"),
]  # fmt: skip
OTHERS = [
    "sed -i 's/a/b/e' a.py", "sed -i 'e touch x' a.py", "sed -i 's/a/b/w /etc/x' a.py", "sed -i 's/a/b/' /etc/hosts",
    "sed -i 's/a/b/' ~/.bashrc", "sed -i 's/a/b/' .git/config", "sed -i 's/a/b/' *.py", "sed -i 's/a/b/' ../a.py",
    "sed -i -f x.sed a.py", "sed -i 's/a/b/'", "perl -pi -e 's/a/`x`/' a.rs", "perl -pi -e 's/a/x/e' a.rs",
    "perl -pi -e 's/(?{system})/x/' a.rs", "perl -pi -e 's/a/@{[x]}/' a.rs", "perl -pi -e 'unlink' a.rs",
    "perl -Mx -pi -e 's/a/b/' a.rs", "perl -i -e 's/a/b/' a.rs", "perl -pi -e 's/a/b/' CLAUDE.md",
    PATCH.format("Delete", "tests/a.py"), PATCH.format("Update", "/etc/hosts"), PATCH.format("Update", ".git/config"),
    "apply_patch x", "perl -pi -e 's/${\\x}/b/' a.rs",
]  # fmt: skip


@loop_over("line", EDITS)
def test_a_plain_replacement_in_named_files_changes_files(line: str) -> None:
    assert read_line(line, PROJECT).segments[0].work == {"files"}


@loop_over("line", OTHERS)
def test_code_and_other_places_have_no_class(line: str) -> None:
    assert not read_line(line, PROJECT).segments[0].work
