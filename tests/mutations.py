"""Prove that the lines of the architecture can fail: break each one in a copy of the tree, and see it caught.

`make lint-mutations` runs this. It takes a few minutes; `--only WORD` chooses by name.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTEST = ["-m", "pytest", "-q", "-n", "0", "-x", "-p", "no:cacheprovider"]
CHECKS = {
    "imports": ["lint-imports", "--no-cache"],
    "language": ["python", "scripts/lint_language.py"],
    "types": ["python", "-m", "mypy"],
    "style": ["python", "-m", "ruff", "check", "."],
    "layers": ["python", *PYTEST, "tests/repository/test_layers.py"],
    "rooms": ["python", *PYTEST, "tests/repository/test_architecture.py", "-k", "room"],
    "log": ["python", *PYTEST, "tests/models/test_write_guard.py", "-m", "not postgres"],
    "pages": ["python", *PYTEST, "tests/repository/test_doors.py", "-k", "names_its_permission or without_a_guard"],
}


@dataclass(frozen=True)
class Mutation:
    """A violation: what is broken, the check that must catch it, and the files that break it.

    A file that is there gets the text at its end; with `old`, that text is replaced in it.
    """

    name: str
    check: str
    path: str
    text: str
    old: str = ""
    more: tuple[tuple[str, str], ...] = ()


def new_module(room: str, *lines: str) -> tuple[str, str]:
    """Return the path and the source of a new module in a room."""
    return f"{room}/mutation.py", "\n".join(['"""A mutation."""', "", *lines, ""])


ORM = "from toolcards.models import Event, Run"
FIRST_VIEW = 'RUN_PAGES = [\n    path("new/", {view}, name="new"),'
MUTATIONS = [
    Mutation("the core imports Django", "imports", *new_module("toolcards/core", "import django.db")),
    Mutation("the core imports the tables", "imports", *new_module("toolcards/core", "import toolcards.models")),
    Mutation("the core has a clock", "imports", *new_module("toolcards/core", "import time")),
    Mutation("the core reads the environment", "imports", *new_module("toolcards/core", "import os")),
    Mutation("the core asks for today", "layers",
             *new_module("toolcards/core", "from datetime import datetime", "NOW = datetime.now()")),
    Mutation("the gate changes a frozen value", "layers",
             *new_module("toolcards/gate", "def stamp(fact):", '    object.__setattr__(fact, "at", 1.0)')),
    Mutation("an adapter imports the tables", "imports",
             *new_module("toolcards/adapters", "import toolcards.models")),
    Mutation("an adapter imports Channels", "imports", *new_module("toolcards/adapters", "import channels")),
    Mutation("the tables import the gate", "imports", *new_module("toolcards/models", "import toolcards.gate")),
    Mutation("the gate imports a transport", "imports", *new_module("toolcards/gate", "import toolcards.transports")),
    Mutation("the engine imports the dashboard", "imports", *new_module("toolcards/gate", "import dashboard.cards")),
    Mutation("the cards import the live sockets", "imports",
             *new_module("dashboard/cards", "import dashboard.live.hub")),
    Mutation("a room of the dashboard has no place", "imports", *new_module("dashboard", "import json")),
    Mutation("a room is crowded", "rooms", "toolcards/gate/writer/mutation.py", '"""One."""\n',
             more=tuple((f"toolcards/gate/writer/mutation_{number}.py", '"""One more."""\n') for number in range(12))),
    Mutation("a room is not in the map", "rooms", "dashboard/runs/mutation/__init__.py", '"""A room."""\n'),
    Mutation("a unit is on no floor", "imports", *new_module("toolcards", "import json")),
    Mutation("a transport imports a command", "imports",
             *new_module("toolcards/transports", "import toolcards.management.commands")),
    Mutation("a page goes past the doors of the gate", "imports",
             *new_module("dashboard", "from toolcards.gate.writer import group_commit")),
    Mutation("the server imports the client", "imports", *new_module("toolcards/gate", "import toolcards.client")),
    Mutation("the client imports pydantic", "imports", *new_module("toolcards/client", "import pydantic")),
    Mutation("the client imports a package of its own", "layers", *new_module("toolcards/client", "import httpx")),
    Mutation("the client imports the core", "imports", *new_module("toolcards/client", "import toolcards.core")),
    Mutation("two modules of a room import each other", "imports",
             *new_module("toolcards/sources", "from toolcards.sources import mutation_two"),
             more=(("toolcards/sources/mutation_two.py", "from toolcards.sources import mutation\n"),)),
    Mutation("a function imports to dodge a cycle", "layers",
             *new_module("toolcards/sources", "def find():", "    from toolcards.sources import badges",
                         "    return badges")),
    Mutation("a folder of tests mirrors no room", "rooms", "tests/verdicts/test_mutation.py", '"""Tests."""\n'),
    Mutation("a test module has the name of no module", "rooms", "tests/gate/test_mutation.py", '"""Tests."""\n'),
    Mutation("a template tag asks the database", "layers",
             *new_module("dashboard/templatetags", ORM, "RUNS = Run.objects.count()")),
    Mutation("a view writes a run", "layers", *new_module("dashboard", ORM, 'Run.objects.create(name="r")')),
    Mutation("a view changes events", "layers", *new_module("dashboard", ORM, 'Event.objects.update(fact="")')),
    Mutation("a statement changes events", "layers",
             *new_module("toolcards/gate", 'SQL = "UPDATE toolcards_event SET fact = NULL"')),
    Mutation("a statement outside of the gate writes runs", "layers",
             *new_module("dashboard", "SQL = \"UPDATE toolcards_run SET title = ''\"")),
    Mutation("a row of the log is saved by anyone", "log", "toolcards/models/write_guard.py",
             "if False:", old="if not _log_writes.get():"),
    Mutation("the database lets events change", "log", "toolcards/migrations/0011_event_triggers.py",
             'for action in ():', old='for action in ("update", "delete"):'),
    Mutation("a page has no permission", "pages", "dashboard/urls.py",
             FIRST_VIEW.format(view="lambda request: None"), old="RUN_PAGES = ["),
    Mutation("a page is open to anyone", "pages", "dashboard/urls.py",
             FIRST_VIEW.format(view="allow_anyone(lambda request: None)"), old="RUN_PAGES = ["),
    Mutation("pages are open by default", "pages", "dashboard/settings.py", "",
             old='    "dashboard.accounts.access.AccessMiddleware",\n'),
    Mutation("a docstring has a word of the list", "language", "dashboard/mutation.py",
             '"""Read this anew, whoever you are."""\n'),
    Mutation("a template has a word of the list", "language", "templates/mutation.html", "<p>Nobody is told.</p>\n"),
    Mutation("a message of the client has a phrase", "language",
             *new_module("toolcards/client", 'TEXT = "The connection broke off."')),
    Mutation("a message of a page has a phrase", "language",
             *new_module("dashboard", 'TEXT = "There is no such run."')),
    Mutation("a template has a phrase for users", "language", "templates/mutation.html",
             '<p aria-label="Whose fault">Switched off</p>\n'),
    Mutation("a document has a phrase", "language", "docs/mutation.md", "# Tools\n\nA tool that only looks.\n"),
    Mutation("the README has a phrase", "language", "README.md", "\nEnter a mail address.\n"),
    Mutation("a page script has a phrase", "language", "static/toolcards/mutation.js", "say('It went away.');\n"),
    Mutation("a JavaScript client has a phrase", "language", "static/clients/mutation.mjs",
             "export const TEXT = 'This cannot be opened.';\n"),
    Mutation("a function is a participle", "language",
             *new_module("dashboard", "def told() -> None:", '    """Notify."""')),
    Mutation("a field is a participle", "language",
             *new_module("dashboard", "class Notice:", '    """A notice."""', "", '    said: str = ""')),
    Mutation("a module is a participle", "language", "dashboard/runs/settled.py", '"""Outcomes."""\n'),
    Mutation("a docstring repeats the name", "language",
             *new_module("dashboard", "def send_message() -> None:", '    """Send the message."""')),
    Mutation("a docstring is not imperative", "style",
             *new_module("dashboard", "def send_message() -> None:", '    """Sends it to all people."""')),
    Mutation("a local variable is a participle", "language",
             *new_module("dashboard", "def count_it() -> int:", '    """Count."""', "    routed = 1",
                         "    return routed")),
    Mutation("a variable of a test is a participle", "language",
             *new_module("tests/gate", "def test_a_call_waits():", '    told = "ask"', "    assert told")),
    Mutation("a fixture is a participle", "language",
             *new_module("tests/gate", "@pytest.fixture", "def lost():", '    return "call-1"')),
    Mutation("a parameter of a test is a participle", "language",
             *new_module("tests/support", "def read_answer(heard):", "    return heard")),
    Mutation("a class name is used twice", "language",
             *new_module("dashboard", "class Transaction:", '    """Another one."""')),
    Mutation("a function of a page has no types", "types", *new_module("dashboard", "def render_it(value):",
             '    """Render."""', "    return value")),
    Mutation("the core returns the wrong type", "types", *new_module("toolcards/core", "def count_it() -> int:",
             '    """Count."""', '    return "one"')),
    Mutation("a public function has no docstring", "style",
             *new_module("dashboard", "def render_it() -> None:", "    return")),
]  # fmt: skip


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Yield a copy of the checkout with its environment, whose language baseline is what the copy has."""
    with tempfile.TemporaryDirectory(prefix="toolcards-mutations-") as folder:
        tree = Path(folder) / "tree"
        listing = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for name in listing.splitlines():
            if (ROOT / name).is_file() and not name.startswith("tests/traces/"):
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, tree / name)
        (tree / ".venv").symlink_to(ROOT / ".venv")
        run_check(["python", "-c", ACCEPT_LANGUAGE], tree)
        yield tree


ACCEPT_LANGUAGE = """
import collections, json, sys
sys.path.insert(0, "scripts")
import lint_language as lint
counts = collections.Counter(each.key for each in lint.find_offenses(lint.WordList(), lint.list_files()))
lint.BASELINE.write_text(json.dumps(counts))
"""


def run_check(command: list[str], tree: Path) -> subprocess.CompletedProcess[str]:
    """Run a check in the tree with a data directory of its own."""
    program = tree / ".venv" / "bin" / command[0]
    environment = os.environ | {"TOOLCARDS_DATA_DIR": str(tree.parent / "data"), "PYTHONDONTWRITEBYTECODE": "1"}
    (tree.parent / "data").mkdir(exist_ok=True)
    return subprocess.run([program, *command[1:]], cwd=tree, env=environment, capture_output=True, text=True)


@contextmanager
def applied(mutation: Mutation, tree: Path) -> Iterator[None]:
    """Apply the mutation to the tree, and take it back in the end."""
    before: dict[Path, str | None] = {}
    for path, text, old in [(mutation.path, mutation.text, mutation.old), *((*each, "") for each in mutation.more)]:
        file = tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        source = file.read_text() if file.exists() else None
        before[file] = source
        if old and old not in (source or ""):
            raise SystemExit(f"{mutation.name}: {path} does not have {old!r} any more")
        file.write_text((source or "").replace(old, text, 1) if old else (source or "") + text)
    try:
        yield
    finally:
        for file, source in before.items():
            if source is None:
                file.unlink()
            else:
                file.write_text(source)


def main() -> int:
    """Apply the mutations one by one; return 1 if a check passes with one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="mutations whose name or check contains this")
    only = parser.parse_args().only
    chosen = [mutation for mutation in MUTATIONS if only in mutation.name or only == mutation.check]
    missed: list[str] = []
    with copied_tree() as tree:
        for check in sorted({mutation.check for mutation in chosen}):
            result = run_check(CHECKS[check], tree)
            if result.returncode:
                print(
                    f"The check {check!r} fails without any mutation:\n{result.stdout[-3000:]}{result.stderr[-1000:]}"
                )
                return 1
        for mutation in chosen:
            started = time.monotonic()
            with applied(mutation, tree):
                caught = run_check(CHECKS[mutation.check], tree).returncode != 0
            print(f"{'caught' if caught else 'MISSED'}  {mutation.check:8}  {mutation.name}"
                  f"  ({time.monotonic() - started:.0f} s)", flush=True)  # fmt: skip
            if not caught:
                missed.append(mutation.name)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} caught.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
