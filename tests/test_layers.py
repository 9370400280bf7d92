"""The four rules of the architecture: who may import whom, and who may write."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The floors, lowest first; a unit is a module or a package. Units side by side do not know each other.
FLOORS = [
    {"toolcards.core"},
    {
        "toolcards.adapters", "toolcards.models", "toolcards.doorbell", "toolcards.ids", "toolcards.showing",
        "toolcards.audit", "toolcards.notifications", "toolcards.hooks", "toolcards.encryption", "toolcards.outages",
        "toolcards.relay", "toolcards.causes", "toolcards.files", "toolcards.database", "toolcards.postgresql",
        "toolcards.clocks",
    },
    {"toolcards.gate", "toolcards.feed", "toolcards.sources", "toolcards.backup"},
    {"toolcards.transports", "toolcards.management", "toolcards.cli", "toolcards.__main__"},
    {"dashboard"},
]  # fmt: skip
ALONE = {
    "toolcards.acp",
    "toolcards.hook_relay",
    "toolcards.client",
    "toolcards.demo",
    "toolcards.connect",
    "toolcards.apps",
    "toolcards.migrations",
}  # used by commands, or by Django
# Small things that their own floor may use: names, secrets hidden, the audit trail and its anchor, outages, files.
SHARED = {
    "toolcards.ids",
    "toolcards.showing",
    "toolcards.notifications",
    "toolcards.audit",
    "toolcards.clocks",
    "toolcards.cli",
    "toolcards.encryption",
    "toolcards.outages",
    "toolcards.relay",
    "toolcards.causes",
    "toolcards.files",
    "toolcards.database",
}
WRITTEN = {"Run", "Event", "ToolCall", "Approval"}
WRITING = {
    "create", "acreate", "bulk_create", "abulk_create", "get_or_create", "aget_or_create", "update_or_create",
    "aupdate_or_create", "update", "aupdate", "bulk_update", "delete", "adelete",
}  # fmt: skip


def modules() -> Iterator[tuple[str, Path]]:
    for package in ("toolcards", "dashboard"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = [pytest.param(name, path, id=name) for name, path in modules()]


def imported(path: Path, module: str) -> Iterator[str]:
    """Everything the file imports, inside functions too."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package.split(".")[: len(package.split(".")) - node.level + 1], base]).strip(".")
            yield from (f"{base}.{alias.name}" for alias in node.names)


def unit(name: str) -> str:
    """The unit that a dotted name belongs to."""
    parts = name.split(".")
    return parts[0] if parts[0] != "toolcards" else ".".join(parts[:2])


def floor(name: str) -> int | None:
    return next((level for level, units in enumerate(FLOORS) if unit(name) in units), None)


@pytest.mark.parametrize(("module", "path"), MODULES)
def test_a_module_imports_from_lower_floors_only(module: str, path: Path) -> None:
    here = floor(module)
    if here is None:
        assert unit(module) in {*ALONE, "toolcards"}, f"{module} is on no floor: put its unit into FLOORS"
        return
    for name in imported(path, module):
        there = floor(name)
        if there is None or unit(name) == unit(module):
            continue
        beside = there == here and unit(name) in SHARED
        assert there < here or beside, f"{module} imports {name}"


@pytest.mark.parametrize(
    ("module", "path"), [case for case in MODULES if unit(case.values[0]) in {"toolcards.core", "toolcards.adapters"}]
)
def test_the_core_and_the_adapters_know_nothing_of_the_web(module: str, path: Path) -> None:
    banned = {"django", "channels", "asgiref", "daphne", "uvicorn"}
    assert not banned & {name.partition(".")[0] for name in imported(path, module)}


@pytest.mark.parametrize(("module", "path"), [case for case in MODULES if unit(case.values[0]) != "toolcards.gate"])
def test_only_the_gate_writes(module: str, path: Path) -> None:
    if ".migrations" in module:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITING:
            root = node.func.value
            while isinstance(root, (ast.Call, ast.Attribute)):
                root = root.func if isinstance(root, ast.Call) else root.value
            assert not (isinstance(root, ast.Name) and root.id in WRITTEN), f"{module}:{node.lineno} writes {root.id}"


CHANGES_THE_LOG = re.compile(r"\b(?:UPDATE|DELETE FROM|REPLACE INTO)\s+toolcards_event\b|DROP TABLE", re.IGNORECASE)
CHANGING = {"update", "aupdate", "bulk_update", "abulk_update", "delete", "adelete", "_raw_delete", "save", "asave"}


def log_changes(source: str) -> Iterator[str]:
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


@pytest.mark.parametrize(("module", "path"), MODULES)
def test_only_retention_changes_or_deletes_events(module: str, path: Path) -> None:
    found = list(log_changes(path.read_text()))
    if module == "toolcards.gate.maintenance.retention":
        assert found  # else this looks for the wrong things
    elif module == "toolcards.gate.writer.bulk_sql":  # where the statements are that retention makes use of
        assert [line for line in found if "says 'UPDATE toolcards_event" not in line] == []
    else:
        assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "Event.objects.filter(run=1).update(fact='')", "Event.objects.all()._raw_delete('default')", "event.save()",
        "run.events.delete()", "cursor.execute('update toolcards_event SET fact = 1')", "columns.update_facts(c, [])",
        "from toolcards.gate.writer.bulk_sql import update_facts",
    ],
)  # fmt: skip
def test_a_module_that_changes_events_would_be_found(source: str) -> None:
    assert list(log_changes(source))


@pytest.mark.parametrize(("module", "path"), [case for case in MODULES if floor(case.values[0]) is not None])
def test_of_the_client_the_server_takes_only_what_both_must_agree_on(module: str, path: Path) -> None:
    for name in imported(path, module):
        assert not name.startswith("toolcards.client") or name.startswith("toolcards.client.common."), name


@pytest.mark.parametrize(
    ("module", "path"), [case for case in MODULES if unit(case.values[0]) in {"toolcards.client", "toolcards.demo"}]
)
def test_the_client_can_be_copied_alone_into_an_agent_and_the_demo_needs_no_more(module: str, path: Path) -> None:
    for name in imported(path, module):
        assert name.partition(".")[0] not in {"django", "channels", "pydantic", "dashboard"}
        own = ("toolcards.client",) if unit(module) == "toolcards.client" else ("toolcards.client", "toolcards.demo")
        assert not name.startswith("toolcards.") or name.startswith(own), f"{module} imports {name}"
