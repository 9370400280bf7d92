"""The lines that import-linter cannot draw: who writes, what the core calls, and what the client needs.

The import contracts are in `.importlinter`, which one test here runs.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOG_MODELS = {"Run", "Event", "ToolCall", "Approval"}
WRITING = {
    "create", "acreate", "bulk_create", "abulk_create", "get_or_create", "aget_or_create", "update_or_create",
    "aupdate_or_create", "update", "aupdate", "bulk_update", "delete", "adelete",
}  # fmt: skip
CLOCK_METHODS = {"now", "utcnow", "today", "monotonic", "perf_counter", "uuid1", "uuid4"}
# What an agent has installed, next to the standard library.
AGENT_FRAMEWORKS = {
    "agents", "anthropic", "langchain", "langchain_core", "langgraph", "openai", "pydantic", "pydantic_ai",
}  # fmt: skip

# The functions that import a module of ours themselves, and why it cannot be imported with their own module.
LATE_IMPORTS = {
    "toolcards.apps.ready": "models exist once Django is ready",
    "dashboard.apps.ready": "models exist once Django is ready",
    "dashboard.logs._mask_secrets": "the settings, which configure the logs, are being read",
    "dashboard.logs._drop_outage_lines": "the settings, which configure the logs, are being read",
    "dashboard.help.views.openapi": "the models of all answers are slow to build, and for one page",
    "dashboard.serving.runner.run_daphne": "installs Twisted's reactor",
    "toolcards.cli.main": "one command of several, which start without the others",
    "toolcards.client_cli.main": "one command of several, which start without the others",
}


@functools.cache
def parse(path: Path) -> ast.Module:
    """Return the tree of a module, which the tests here only read."""
    return ast.parse(path.read_text())


def list_modules(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the dotted name and the tree of each module in these packages."""
    for package in packages or ("toolcards", "dashboard"):
        for path in sorted((ROOT / package.replace(".", "/")).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), parse(path)


def list_imports(tree: ast.Module) -> Iterator[str]:
    """Yield the absolute names that a module imports, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def list_method_calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield each call of a method with the name at its root and the name of the method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            root = node.func.value
            while isinstance(root, (ast.Call, ast.Attribute)):
                root = root.func if isinstance(root, ast.Call) else root.value
            yield node, root.id if isinstance(root, ast.Name) else "", node.func.attr


@pytest.mark.slow
def test_the_import_contracts_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_no_function_imports_a_module_of_ours_to_dodge_a_cycle() -> None:
    late = {
        f"{module}.{function.name}"
        for module, tree in list_modules()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in list_imports(ast.Module(function.body, []))
        if name.partition(".")[0] in {"toolcards", "dashboard"}
    }
    assert late == set(LATE_IMPORTS)


def test_only_the_gate_writes() -> None:
    assert [
        f"{module}:{call.lineno} writes {root}"
        for module, tree in list_modules()
        if not module.startswith("toolcards.gate.") and ".migrations" not in module
        for call, root, method in list_method_calls(tree)
        if method in WRITING and root in LOG_MODELS
    ] == []


WRITES_THE_LOG = re.compile(
    r"\b(?:UPDATE|INSERT INTO|DELETE FROM|REPLACE INTO|COPY|TRUNCATE)\s+toolcards_(?:run|event|toolcall|approval)\b",
    re.IGNORECASE,
)


def test_no_statement_outside_of_the_gate_writes_the_log() -> None:
    assert [
        f"{module}:{node.lineno} has {node.value!r}"
        for module, tree in list_modules()
        if not module.startswith("toolcards.gate.") and ".migrations" not in module
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and WRITES_THE_LOG.search(node.value)
    ] == []


def test_no_template_tag_asks_the_database() -> None:
    assert [
        f"{module}:{node.lineno}"
        for module, tree in list_modules("dashboard.templatetags")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in {"objects", "cursor", "_default_manager"}
    ] == []


def test_the_core_and_the_adapters_read_no_clock() -> None:
    assert [
        f"{module}:{call.lineno} calls {method}"
        for module, tree in list_modules("toolcards.core", "toolcards.adapters", "toolcards.client.common")
        for call, _, method in list_method_calls(tree)
        if method in CLOCK_METHODS
    ] == []


def find_changed_frozen_values(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that set a field of a value past its class, unless the same function has created the value."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            created = {
                target.id
                for node in ast.walk(function)
                if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("object.__new__(")
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for node in ast.walk(function):
                is_setter = isinstance(node, ast.Call) and ast.unparse(node.func) == "object.__setattr__"
                if is_setter and ast.unparse(node.args[0]) not in created:
                    yield node.lineno


@pytest.mark.slow
def test_frozen_values_stay_frozen() -> None:
    assert [f"{module}:{line}" for module, tree in list_modules() for line in find_changed_frozen_values(tree)] == []


def test_the_client_needs_the_standard_library_and_the_framework_of_the_agent() -> None:
    allowed = {*sys.stdlib_module_names, *AGENT_FRAMEWORKS, "toolcards"}
    assert [
        f"{module} imports {name}"
        for module, tree in list_modules("toolcards.client", "toolcards.demo")
        for name in list_imports(tree)
        if name.partition(".")[0] not in allowed
        or (name.partition(".")[0] == "toolcards" and not name.startswith(("toolcards.client", "toolcards.demo")))
        or (module.startswith("toolcards.client") and name.startswith("toolcards.demo"))
    ] == []


CHANGES_THE_LOG = re.compile(r"\b(?:UPDATE|DELETE FROM|REPLACE INTO)\s+toolcards_event\b|DROP TABLE", re.IGNORECASE)
CHANGING = {"update", "aupdate", "bulk_update", "abulk_update", "delete", "adelete", "_raw_delete", "save", "asave"}


def find_log_changes(source: str) -> Iterator[str]:
    """What in a module changes or deletes events: its statements, the one function that has one, and the ORM."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CHANGES_THE_LOG.search(node.value):
            yield f"line {node.lineno}: says {node.value!r}"
        elif (getattr(node, "attr", "") or (node.name if isinstance(node, ast.alias) else "")) == "update_facts":
            yield f"line {node.lineno}: takes update_facts"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            root = node.func.value
            while isinstance(root, (ast.Call, ast.Attribute)):
                root = root.func if isinstance(root, ast.Call) else root.value
            events = isinstance(node.func.value, ast.Attribute) and node.func.value.attr == "events"
            if events or (isinstance(root, ast.Name) and root.id in {"Event", "event"}):
                yield f"line {node.lineno}: calls {node.func.attr}"


@pytest.mark.slow
def test_only_retention_changes_or_deletes_events() -> None:
    for path in sorted([*(ROOT / "toolcards").rglob("*.py"), *(ROOT / "dashboard").rglob("*.py")]):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        changes = list(find_log_changes(path.read_text()))
        if module in {"toolcards.gate.maintenance.retention", "toolcards.gate.maintenance.run_masking"}:
            assert changes  # else this looks for the wrong things
        elif module == "toolcards.gate.writer.bulk_sql":  # has the statements that retention uses
            assert [line for line in changes if "says 'UPDATE toolcards_event" not in line] == []
        else:
            assert changes == [], module


@pytest.mark.parametrize(
    "source",
    [
        "Event.objects.filter(run=1).update(fact='')", "Event.objects.all()._raw_delete('default')", "event.save()",
        "run.events.delete()", "cursor.execute('update toolcards_event SET fact = 1')", "columns.update_facts(c, [])",
        "from toolcards.gate.writer.bulk_sql import update_facts",
    ],
)  # fmt: skip
def test_a_change_of_events_is_found(source: str) -> None:
    assert list(find_log_changes(source))


@pytest.mark.slow
def test_no_test_module_imports_a_test_module_or_a_conftest() -> None:
    """What tests share is in `tests/support` or next to them, in a module that holds no tests."""
    wrong = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        tree = parse(path)
        members = (
            f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        )
        for name in (*list_imports(tree), *members):
            module = name.rpartition(".")[2]
            if name.startswith("tests.") and (module.startswith("test_") or module == "conftest"):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong
