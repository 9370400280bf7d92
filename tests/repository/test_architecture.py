"""docs/architecture.md shows the code that is there: its tree lacks nothing, and no room is left out or crowded."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.tables import loop_over

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "architecture.md").read_text()
TREE = MAP[MAP.index("## The tree") : MAP.index("## One frame")]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PATH = re.compile(r"`((?:toolcards|adapters|client|core|connect|tests|dashboard|gate|templates)/[\w/.]+)`")
NAMED_PATHS = sorted(set(PATH.findall(MAP + CONTRIBUTING)) - {"toolcards/_site/"})  # which is in the wheel alone
ROWS = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", TREE, re.MULTILINE))
MAX_MODULES = 12
# Django and Python look for modules of these names in fixed places, and for packages of the others.
GIVEN_MODULES = {"__init__", "__main__", "apps", "asgi", "settings", "urls"}
GIVEN_PACKAGES = {"migrations", "commands", "templatetags"}
ROOMS = sorted(
    path.parent.relative_to(ROOT)
    for site in ("toolcards", "dashboard")
    for path in (ROOT / site).rglob("__init__.py")
    if path.parent.name not in GIVEN_PACKAGES
)
# Tests of more than one module: of the repository, of whole servers, in browsers, with real agent programs.
OTHER_TESTS = {
    "bench", "browser", "chaos", "clients", "packaging", "page_scripts", "repository", "scripts", "support", "system",
    "traces",
}  # fmt: skip
# Tests of one theme that goes through several modules.
THEMES = {
    "gate/approvals/test_refused_calls", "gate/decisions/test_retries",
    "acp/test_requests_to_server",
    "adapters/test_faults", "adapters/test_traces", "adapters/test_unknown_kinds",
    "client/common/test_digest_agreement", "client/test_bad_answers", "client/test_bad_answers_javascript",
    "client/test_call_identity", "client/test_fail_closed", "client/test_javascript", "client/test_real_server",
    "client/test_stopping", "core/policy/shell/test_differential", "core/policy/shell/test_everyday",
    "core/policy/shell/test_real_programs", "core/policy/test_attention", "core/policy/test_decision_laws",
    "core/policy/test_reference_model",
    "dashboard/inbox/test_ended_sessions", "dashboard/inbox/test_forms_of_servers",
    "dashboard/inbox/test_votes_by_middleware_and_page", "dashboard/live/test_confirmations",
    "dashboard/runs/test_run_names", "dashboard/test_templates", "gate/approvals/test_quorum",
    "gate/maintenance/test_deletion", "gate/writer/test_faults", "gate/writer/test_outages",
    "hook_relay/test_hooks_to_server", "models/test_migrations",
    "transports/agents/test_every_frame", "transports/agents/test_faulty_frames",
    "transports/agents/test_frozen_calls", "transports/agents/test_result_shapes", "transports/agents/test_reused_ids",
    "transports/agents/test_states_that_end", "transports/agents/test_traces",
}  # fmt: skip
# They need an agent library, so their tests play the same scenarios in `tests/clients/` with the real ones.
FRAMEWORK_MODULES = {
    "toolcards/client/framework_support/langchain_pauses", "toolcards/client/langchain",
    "toolcards/client/openai_agents", "toolcards/client/pydantic_ai",
}  # fmt: skip
MODULES = sorted(
    path.relative_to(ROOT).with_suffix("")
    for site in ("toolcards", "dashboard")
    for path in (ROOT / site).rglob("*.py")
    if path.stem != "__init__" and "migrations" not in path.parts
)
MAX_LINES = 300
LONG_MODULES = {
    "dashboard/cards/card_view", "toolcards/client/common/exception_codes", "toolcards/client/gate_client",
    "toolcards/client/stream", "toolcards/gate/writer/transaction", "toolcards/transports/agents/agent_socket",
    "dashboard/serving/http_protocol", "toolcards/core/policy/matching/matchers",
}  # fmt: skip
TEST_MODULES = sorted(path.relative_to(ROOT / "tests").with_suffix("") for path in (ROOT / "tests").rglob("test_*.py"))
TEST_FOLDERS = sorted({path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")})


@loop_over("place", ROWS)
def test_what_the_tree_names_is_there(place: str) -> None:
    path = ROOT / place
    assert path.is_dir() if place.endswith("/") else path.is_file()


@loop_over("room", [room for room in ROOMS if len(room.parts) > 1])
def test_every_room_is_in_the_tree(room: Path) -> None:
    assert f"{room}/" in ROWS or f"`{room.name}/`" in ROWS.get(f"{room.parent}/", "")


@loop_over("room", ROOMS)
def test_no_room_is_crowded(room: Path) -> None:
    modules = {path.stem for path in (ROOT / room).glob("*.py")} - GIVEN_MODULES
    assert len(modules) <= MAX_MODULES, "find what belongs together, or give some of them a room"


@loop_over("room", ROOMS)
def test_every_room_says_what_it_is_for(room: Path) -> None:
    assert ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text()))


@loop_over("path", NAMED_PATHS)
def test_every_path_that_is_named_exists(path: str) -> None:
    assert any((ROOT / base / path).exists() for base in (".", "toolcards"))


@loop_over("folder", TEST_FOLDERS)
def test_every_folder_of_tests_mirrors_a_room(folder: Path) -> None:
    is_room = any((ROOT / site / folder).is_dir() for site in (".", "toolcards"))
    assert is_room or folder.parts[0] in OTHER_TESTS


def has_name_of_module_or_room(module: Path) -> bool:
    """Return whether a module or a room has the name of this test module, at the same path."""
    name = module.name.removeprefix("test_")
    sites = [ROOT / site / module.parent for site in (".", "toolcards")]
    return (
        any((site / f"{name}.py").is_file() or (site / name / "__init__.py").is_file() for site in sites)
        or name == module.parent.name
    )


@loop_over("module", MODULES)
def test_every_module_has_a_test_module_of_its_name(module: Path) -> None:
    folder = Path("clients") if str(module) in FRAMEWORK_MODULES else module.parent
    mirrored = folder.relative_to("toolcards") if folder.parts[0] == "toolcards" else folder
    assert mirrored / f"test_{module.name}" in TEST_MODULES


@loop_over("module", MODULES)
def test_a_module_is_short_or_says_why_not(module: Path) -> None:
    text = (ROOT / module).with_suffix(".py").read_text()
    assert (len(text.splitlines()) > MAX_LINES) == (str(module) in LONG_MODULES)
    assert str(module) not in LONG_MODULES or "long" in (ast.get_docstring(ast.parse(text)) or "").casefold()


@loop_over("module", TEST_MODULES)
def test_every_test_module_has_the_name_of_a_module_or_room_or_a_theme(module: Path) -> None:
    assert module.parts[0] in OTHER_TESTS or has_name_of_module_or_room(module) or str(module) in THEMES, (
        "name it after the module that it tests, or name its theme above"
    )


@loop_over("theme", sorted(THEMES))
def test_every_theme_is_a_test_module_without_a_module_or_room(theme: str) -> None:
    assert Path(theme) in TEST_MODULES and not has_name_of_module_or_room(Path(theme))
