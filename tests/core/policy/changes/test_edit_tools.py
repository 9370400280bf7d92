"""Edit tools: every path that they may write counts, and an argument that is not known makes the answer unknown."""

from __future__ import annotations

import json
import posixpath
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.client.common.tool_kinds import find_kinds, is_known_tool
from toolcards.core.policy.changes.edit_tools import load_edit_tools, locate_edits
from toolcards.core.policy.places.project import read_project
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN, Truth

ROOT = "/home/ann/shop"
PATCH = "*** Begin Patch\n*** Update File: {}\n@@\n-a\n+b\n*** End Patch\n"


def locate(tool: str, value: Any, folder: str = "", **fields: Any) -> Truth:
    project = read_project(ROOT, folder)
    assert project is not None
    return min(locate_edits(PolicyRequest.for_tool(tool, input=value, **fields), project))


INSIDE = [
    ("Write", {"file_path": f"{ROOT}/a.py", "content": "see /etc/passwd\n*** Delete File: /etc/a"}),
    ("Edit", {"file_path": "a.py", "old_string": "/etc", "new_string": "~/.ssh", "replace_all": True}),
    ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "a", "new_string": "b", "replace_all": False}]}),
    ("NotebookEdit", {"notebook_path": "a.ipynb", "new_source": "x", "cell_id": "c", "edit_mode": "insert"}),
    ("edit", {"filePath": "src/a.ts", "oldString": "a", "newString": "b", "replaceAll": None}),
    ("replace", {"file_path": "a", "instruction": "Do", "old_string": "a", "new_string": "b",
    "expected_replacements": 2}),
    ("write_to_file", {"path": "a", "content": "x", "task_progress": "- [x] a"}),
    ("replace_in_file", {"path": "a", "diff": "------- SEARCH\n- a\n=======\nb\n+++++++ REPLACE\n"}),
    ("edit_file", {"target_file": "a.ts", "instructions": "Do it", "code_edit": "// …"}),
    ("multi_replace_string_in_file", {"explanation": "x", "replacements": [{"filePath": "a", "oldString": "b"}]}),
    ("replace_file_content", {"TargetFile": "a", "ReplacementChunks": [{"TargetContent": "a", "StartLine": 1}]}),
    ("str_replace_based_edit_tool", {"command": "create", "path": "a", "file_text": "x"}),
    ("str_replace_editor", {"command": "view", "path": "a", "view_range": [1, 5]}),
    ("apply_patch", {"input": PATCH.format("src/a.py")}),
    ("apply_patch", {"patch": PATCH.format(f"{ROOT}/a.py")}),
    ("apply_patch", {"patchText": PATCH.format("a.py"), "justification": "x"}),
    ("apply_patch", {"command": PATCH.format("a.py")}),
    ("apply_patch", PATCH.format("a.py")),
    ("apply_patch", {"operation": {"type": "update_file", "path": "a", "diff": "@@\n-a\n+b\n"}}),
    ("apply_patch", {"input": PATCH.format("a.py"), "workdir": "src"}),
    ("patch", {"patch": "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"}),
    ("delete_path", {"path": "old"}),
    ("move_path", {"source_path": "a", "destination_path": "b"}),
    ("create_directory", {"dirPath": "a/b"}),
]  # fmt: skip
NOT_INSIDE = [
    ("Write", {"file_path": "/etc/cron.d/a", "content": ""}, FALSE),
    ("Write", {"file_path": f"{ROOT}/.git/hooks/post-merge", "content": ""}, FALSE),
    ("Edit", {"file_path": "package.json", "old_string": "a", "new_string": "b"}, FALSE),
    ("Edit", {"file_path": "Makefile", "old_string": "test:", "new_string": "test:\n\tcurl x | sh"}, FALSE),
    ("Edit", {"file_path": f"{ROOT}/a/../../x"}, UNKNOWN),
    ("Edit", {"file_path": "~/a"}, UNKNOWN),
    ("Edit", {"file_path": ["a", "/etc/a"]}, FALSE),
    ("Edit", {"file_path": {"a": "b"}}, UNKNOWN),
    ("Edit", {"file_path": "a", "path": "/etc/a"}, FALSE),
    ("Edit", {"file_path": "a", "target": "/etc/a"}, UNKNOWN),
    ("Edit", {"file_path": "a", "File_Path": "/etc/a"}, UNKNOWN),
    ("Edit", {"old_string": "a", "new_string": "b"}, UNKNOWN),
    ("Edit", {}, UNKNOWN),
    ("Edit", None, UNKNOWN),
    ("Edit", "a", UNKNOWN),
    ("Edit", [{"file_path": "a"}], UNKNOWN),
    ("Edit", json.dumps({"file_path": "a"}), UNKNOWN),
    ("edit", {"filePath": "src/a", "cwd": "/etc"}, UNKNOWN),
    ("edit", {"filePath": "a", "cwd": 5}, UNKNOWN),
    ("edit", {"filePath": "a", "cwd": "src", "workdir": "b"}, UNKNOWN),
    ("edit", {"filePath": "hooks/a", "cwd": ".git"}, FALSE),
    ("multiedit", {"filePath": "a", "edits": [{"filePath": "/etc/a", "oldString": "x"}]}, FALSE),
    ("multiedit", {"filePath": "a", "edits": [{"cwd": "/etc", "oldString": "x"}]}, UNKNOWN),
    ("multiedit", {"filePath": "a", "edits": '[{"filePath": "/etc/a"}]'}, UNKNOWN),
    ("str_replace_based_edit_tool", {"command": "rm -rf /", "path": "a"}, UNKNOWN),
    ("apply_patch", {"input": PATCH.format(".github/workflows/a.yml")}, FALSE),
    ("apply_patch", {"input": PATCH.format("a") + PATCH.format("AGENTS.md")}, FALSE),
    ("apply_patch", {"input": "*** Begin Patch\n*** Update File: a\n*** Move to: ../b\n*** End Patch"}, FALSE),
    ("apply_patch", {"input": PATCH.format("src/../../b")}, UNKNOWN),
    ("apply_patch", {"input": PATCH.format("a"), "workdir": "/"}, UNKNOWN),
    ("apply_patch", {"input": "no patch"}, UNKNOWN),
    ("apply_patch", "no patch", UNKNOWN),
    ("apply_patch", {"input": PATCH.format("a") + "*** Rename File: b\n"}, UNKNOWN),
    ("patch", {"patch": "--- a/x\n+++ b/../../x\n"}, FALSE),
    ("patch", {"patch": "--- a/x\n+++ /etc/x\n"}, FALSE),
    ("patch", {"patch": "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@\n+/etc\n"}, UNKNOWN),
    ("replace_in_file", {"path": "a", "diff": "*** Update File: /etc/a\n"}, FALSE),
    ("delete_path", {"path": "."}, UNKNOWN),
    ("delete_path", {"path": ROOT}, UNKNOWN),
    ("move_path", {"source_path": "a", "destination_path": "/tmp/b"}, FALSE),
    ("save_memory", {"fact": "a"}, UNKNOWN),
    ("image_generation", {"path": "a"}, UNKNOWN),
    ("upload_file", {"path": "a"}, UNKNOWN),
    ("add_pull_request_review_comment", {"path": "a", "body": "b"}, UNKNOWN),
    ("Read", {"file_path": "a"}, UNKNOWN),
    ("WRITE", {"file_path": "a"}, UNKNOWN),
    ("Wrіte", {"file_path": "a"}, UNKNOWN),
    ("mcp__filesystem__write_file", {"path": f"{ROOT}/a"}, UNKNOWN),
]  # fmt: skip


@loop_over(("tool", "value"), INSIDE)
def test_an_edit_of_files_of_the_project_is_inside(tool: str, value: Any) -> None:
    assert locate(tool, value) is TRUE


@loop_over(("tool", "value", "answer"), NOT_INSIDE)
def test_an_edit_with_another_file_or_an_unknown_argument_is_not(tool: str, value: Any, answer: Truth) -> None:
    assert locate(tool, value) is answer


def test_a_path_above_the_folder_is_not_certain_since_some_programs_begin_at_the_root() -> None:
    assert locate("Edit", {"file_path": "../a"}, folder="src") is UNKNOWN
    assert locate("Edit", {"file_path": "a"}, folder="src") is TRUE


def test_a_tool_of_a_server_or_one_that_claims_to_run_something_is_not_certain() -> None:
    value = {"file_path": "a"}
    assert locate("Edit", value, source="files") is UNKNOWN and locate("Edit", value, source="builtin") is TRUE
    assert locate("Edit", value, claimed_kind="execute") is UNKNOWN
    assert locate("Edit", value, has_input=False) is UNKNOWN


def test_every_tool_of_the_catalog_is_one_that_programs_bring_along() -> None:
    catalog = load_edit_tools()
    assert not catalog.files & catalog.trees and not (catalog.files | catalog.trees) & catalog.patches
    for tool in catalog.files | catalog.trees | catalog.patches:
        assert is_known_tool(tool) and set(find_kinds(tool)) <= {"edit", "delete", "move"}


WORDS = st.sampled_from(
    ["a", "..", ".git", "/etc/a", f"{ROOT}/b", "", "*", "~", "src", "file:///etc", "CLAUDE.md", "a/../b"]
)
KEYS = st.sampled_from(
    ["file_path", "path", "cwd", "workdir", "content", "target", "edits", "input", "diff", "command"]
)
VALUES = st.recursive(
    WORDS | st.builds(PATCH.format, WORDS) | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)


@draw(300)
@example("Edit", {"content": {"file_path": [".."]}, "file_path": "a"})
@given(st.sampled_from(["Edit", "apply_patch", "delete_path"]), st.dictionaries(KEYS, VALUES, max_size=4))
def test_whatever_the_arguments_an_edit_that_is_inside_names_no_path_outside(tool: str, value: dict[str, Any]) -> None:
    if locate(tool, value) is not TRUE:
        return
    for text in list_paths(value):
        place = posixpath.normpath(posixpath.join(ROOT, text))
        assert place.startswith(ROOT) and not {".git", "CLAUDE.md"} & set(place.split("/")) and ".." not in text


def list_paths(value: Any, key: str = "") -> list[str]:
    """Return the values of the arguments that are paths, and the paths of patches."""
    if isinstance(value, dict):
        return [path for name, each in value.items() for path in list_paths(each, name)]
    if isinstance(value, list):
        return [path for each in value for path in list_paths(each, key)]
    if not isinstance(value, str) or not value:
        return []
    lines = [line.removeprefix("*** Update File: ") for line in value.split("\n") if "File: " in line]
    return [value] if key in {"file_path", "path", "cwd", "workdir"} else lines if key in {"input", "diff"} else []
