"""Python on a command line: what only calculates, what works in the project, and tricks that are neither."""

from __future__ import annotations

from tests.support.tables import loop_over
from toolcards.core.policy.places.project import read_project
from toolcards.core.policy.shell.script import read_line
from toolcards.core.policy.shell.work.inline_code import add_document, find_code_work, only_calculates

ROOT = "/home/dev/work/meter-ingest"
PROJECT = read_project(ROOT)
UNDERSTOOD = [
    ("from decimal import Decimal; print(Decimal('10.00') / 3)", "project"),
    ("import statistics as s\nprint(s.mean([1, 2]))", "project"),
    ("import json; print(json.dumps({'a': [1]}, indent=2))", "project"),
    ("for i in range(3):\n    print(i, i ** 2)", "project"),
    ("from meter_ingest.timeutil import hours_of_day; print(hours_of_day(3))", "scripts"),
    ("import meter_ingest; print(meter_ingest.__version__)", "scripts"),
    ("from pathlib import Path\np = Path('src/a.rs')\np.write_text(p.read_text().replace('a', 'b'))", "files"),
    ("with open('docs/a.md') as f:\n    print(len(f.read()))", "project"),
    ("with open('docs/a.md', 'w') as f:\n    f.write('x')", "files"),
]
HIDING = [
    "import os; os.remove('a')", "import shutil; shutil.rmtree('/home/dev/work')", "__import__('os').system('x')",
    "eval('1')", "exec('1')", "getattr(1, 'real')", "().__class__.__base__.__subclasses__()", "from os import system",
    "import random; random._os.system('x')", "import enum; enum.sys.modules['os'].system('x')", "import uuid; uuid.os",
    "import csv; csv.io.open('a', 'w')", "import string; string.Formatter().get_field('0.__class__', [1], {})",
    "import typing; typing.get_type_hints('x')", "from functools import singledispatch", "open('/etc/passwd')",
    "open('../a')", "open('.env')", "open(x)", "o = open", "open('a', m)", "open('.git/config', 'w')", "print(open)",
    "from pathlib import Path; Path('/etc/x').write_text('a')", "from pathlib import Path; Path('a').unlink()",
    "from pathlib import Path; Path('a').replace('/etc/x')", "from pathlib import Path; (Path('a') / x).read_text()",
    "from pathlib import Path; Path.home()", "from pathlib import Path as P; P('/a').write_text('x')",
    "import requests", "import pandas", "import numpy as np; np.load('a')",
    "import polars as pl; pl.Config.save_to_file('a')",
    "x = '../../.ssh/authorized_keys'; open(f'src/{x}').read()", "[open(f'src/{n}', 'a') for n in ['../x']]",
    "import time; time.clock_settime(0, 0)", "from time import clock_settime",
    "from pathlib import Path; Path('src/a').replace(*['package.json'], *[])",
    "from pathlib import Path; r = Path('src/a').replace; r('package.json')",
    "from pathlib import Path; Path('src/a').copy('package.json')", "from pathlib import Path; m = Path('src/a').move",
    "from meter_ingest.db import drop_all; drop_all()",
    "from meter_ingest import db; db.delete_everything()", "from meter_ingest import send_mail", "from x import *",
    "def print(x): pass", "import json as print", "from . import a", "class A: pass", "async def f(): pass",
    "import math as open", "import base64, pickle; pickle.loads(b'')", "import collections.abc as a; a.sys", "1 +",
    "import json; json.load(open('/a'))", "print('a'", "x" * 9000, "import os.path", "lambda: __builtins__",
]  # fmt: skip


@loop_over(("code", "work"), UNDERSTOOD)
def test_code_that_is_understood_has_a_class_of_work(code: str, work: str) -> None:
    assert find_code_work(code, PROJECT) == work


@loop_over("code", HIDING)
def test_code_that_may_do_more_has_none(code: str) -> None:
    assert find_code_work(code, PROJECT) == ""


def test_without_a_project_code_only_calculates() -> None:
    assert only_calculates("print(1 + 1)")
    assert not only_calculates("open('a')") and not only_calculates("import pandas")


def test_a_here_document_is_an_argument_of_the_program_that_runs_it() -> None:
    assert add_document(("python", "-"), "python - <<'EOF'\nprint(1)\nEOF") == ("python", "-c", "print(1)")
    assert add_document(("cat",), "cat <<'EOF'\nprint(1)\nEOF") == ("cat",)
    for line, work in [
        ("cd src && .venv/bin/python - <<'EOF'\nprint(1)\nEOF", {"project"}),
        ("uv run python - <<'EOF'\nimport meter_ingest\nEOF", {"scripts"}),
        ("python3 - <<'EOF' 2>&1\nprint(1)\nEOF", {"project"}),
        ("python - <<'EOF'\nimport os\nEOF", set()),
        ("python -c 'print(1)' /etc/passwd", set()),
        ("/usr/bin/python -c 'print(1)'", set()),
        ("python - < a.py", set()),
    ]:
        assert set(read_line(line, PROJECT).segments[-1].work) == work, line


def test_a_module_of_python_is_no_package_of_a_project_with_its_name() -> None:
    project = read_project("/home/dev/work/os")
    assert project is not None and find_code_work("import os; os.system('x')", project) == ""


STREAM_EDITS_PROJECT = read_project("/home/dev/work/shop")
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
    assert read_line(line, STREAM_EDITS_PROJECT).segments[0].work == {"files"}


@loop_over("line", OTHERS)
def test_code_and_other_places_have_no_class(line: str) -> None:
    assert not read_line(line, STREAM_EDITS_PROJECT).segments[0].work
