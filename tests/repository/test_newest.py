"""The run against the newest libraries: which versions it asks for, and what it reports."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.clients.versions import choose

ROOT = Path(__file__).parents[2]
JUNIT = """<testsuites><testsuite>
<testcase classname="a" name="good"/>
<testcase classname="a" name="bad"><failure message="assert 1 == 2&#10;more">…</failure></testcase>
<testcase classname="a" name="unknown"/>
<testcase classname="a" name="unknown"><error message="frames of unknown kinds: {'r': {'foo': 1}}">…</error></testcase>
<testcase classname="a" name="away"><skipped message="npm is not there"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture(scope="module")
def newest() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("newest", ROOT / "scripts" / "newest.py")
    assert spec is not None and spec.loader is not None
    sys.modules["newest"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("folder", "package", "pin", "newest"),
    [
        ("opencode", "opencode-ai", "1.18.33", "latest"),
        ("ai-sdk-7", "ai", "7.0.173", "latest"),
        ("ai-sdk-6", "ai", "6.0.326", "^6.0.326"),
        ("ai-sdk-7", "zod", "4.6.7", "^4.6.7"),
        ("opencode", "node", "24.21.0", "24.21.0"),
        ("ag-ui-python", "fastapi", "", "latest"),
    ],
)
def test_the_newest_is_asked_for_where_it_can_be(folder: str, package: str, pin: str, newest: str) -> None:
    assert choose(folder, {package: pin}, newest=True) == {package: newest}
    assert choose(folder, {package: pin}, newest=False) == {package: pin}


def test_failures_are_counted_once_and_named(newest: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(JUNIT)
    outcome = newest.read_report(tmp_path / "junit.xml")
    assert (outcome.passed, outcome.skipped) == (1, 1)
    assert outcome.failed == {
        "a::bad": "assert 1 == 2", "a::unknown": "frames of unknown kinds: {'r': {'foo': 1}}",
    }  # fmt: skip
    assert newest.read_report(tmp_path / "missing.xml") == newest.Outcome(0, 0, {})


def test_versions_that_differ_are_marked(newest: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "opencode").mkdir()
    (tmp_path / "opencode" / "versions.json").write_text(
        '{"opencode-ai": {"pin": "1.18.33", "installed": "1.19.0"}, "node": {"pin": "24.21.0", "installed": "24.21.0"},'
        ' "uvicorn": {"pin": "", "installed": "1"}}'
    )
    rows = list(newest.read_versions(tmp_path))
    assert [row.package for row in rows if row.differs] == ["opencode-ai"]
    report = newest.describe(rows, newest.Outcome(3, 1, {"a::bad": "no"}))
    assert [line for line in report.splitlines() if "differs" in line] == [
        f"{'opencode':18} {'opencode-ai':34} {'1.18.33':12} 1.19.0  <- differs"
    ]
    assert "3 passed, 1 skipped, 1 failed\nFAILED a::bad: no" in report


def test_every_client_test_has_a_library_to_choose(newest: ModuleType) -> None:
    chosen = " ".join(newest.libraries().values())
    assert all(path.stem in chosen for path in (ROOT / "tests" / "clients").glob("test_*.py"))
    assert {"opencode", "langchain", "ai-sdk", "claude-code"} <= set(newest.libraries())


def test_what_follows_two_dashes_is_for_pytest(newest: ModuleType) -> None:
    options, more = newest.parse(["--only", "opencode", "--", "-k", "deny"])
    assert (options.only, more) == (["opencode"], ["-k", "deny"])
    with pytest.raises(SystemExit):
        newest.parse(["--only", "no-such-library"])
