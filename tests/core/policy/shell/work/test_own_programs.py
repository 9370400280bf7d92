"""The project's own programs: scripts, named scripts and installed tools, and no program that is given to it."""

from __future__ import annotations

import shlex

from tests.support.tables import loop_over
from toolcards.core.policy.places.project import read_project
from toolcards.core.policy.shell.plain.globs import NO_GLOBS, Globs
from toolcards.core.policy.shell.work.own_programs import runs_own_program

PROJECT = read_project("/home/dev/work/shop")
OWN = [
    "python scripts/a.py",
    ".venv/bin/python -u scripts/a.py x",
    "./scripts/a.sh",
    "bin/app serve",
    "uv run scripts/a.py",
    "uv run alembic upgrade head",
    ".venv/bin/jupytext --to ipynb a.py",
    "node_modules/.bin/drizzle-kit generate",
    "pnpm --filter @a/b exec drizzle-kit generate --name x",
    "npm run dev",
    "yarn storybook",
    "make report",
    "just check",
    "./gradlew lint",
    "./mvnw dependency:tree",
    "cargo run -- --once",
    "go run ./cmd/a",
    "python manage.py runserver 8031",
    "poetry run interrogate src",
]
OTHERS = [
    "make -f - report",
    "make -f- report",
    "python .venv/bin/twine.py",
    "node node_modules/vercel/dist/index.js",
    "cargo run --config target.x.runner=evil -- --once",
    "pnpm dlx exec cowsay",
    "yarn dlx exec cowsay",
    "uv tool run cowsay",
    "uv run --with cowsay x",
    "pnpm -F a dlx cowsay",
    "./mvnw org.evil:plugin:1.0:goal",
    "mvn evil:plugin:goal",
    "mvn org.evil:goal",
    "go run a.example/tools/x@latest",
    "go run -exec x .",
    "python manage.py connect claude-code --undo",
    "python manage.py killswitch off",
    "python",
    "python -c 1",
    "python -m http.server",
    "python -",
    "bash",
    "bash -c ls",
    "node -e 1",
    "uv run",
    "uv run twine check x",
    "uv run python -c 1",
    "uv run --with x y",
    ".venv/bin/twine upload",
    ".venv/bin/pip install x",
    "/tmp/x.sh",
    "../x.sh",
    "~/x.sh",
    "/usr/bin/x",
    "node_modules/.bin/vercel",
    "pnpm exec wrangler dev",
    "pnpm exec node x.js",
    "pnpm exec",
    "pnpm",
    "npm exec x",
    "npx cowsay",
    "npm x",
    "make deploy",
    "make -f /tmp/x all",
    "cargo run --config /etc/x",
    "go run https://a.example",
    "./scripts/publish.sh",
    "python scripts/send_mail.py",
    "A=1",
    "A=x/y",
    ".git/hooks/x",
    ".env",
    "uv run codex exec x",
    "vendor/bin/x",
    "scripts/a.py /etc/passwd",
    "poetry run python /tmp/x.py",
]


@loop_over("line", OWN)
def test_a_program_of_the_project_is_its_own(line: str) -> None:
    assert PROJECT is not None and runs_own_program(tuple(shlex.split(line)), NO_GLOBS, PROJECT)


@loop_over("line", OTHERS)
def test_every_other_program_is_not(line: str) -> None:
    assert PROJECT is not None and not runs_own_program(tuple(shlex.split(line)), NO_GLOBS, PROJECT)


def test_a_pattern_that_may_become_an_option_is_not_understood() -> None:
    words = ("python", "scripts/a.py", "*")
    place = frozenset({2})
    assert PROJECT is not None and not runs_own_program(words, Globs(place, place), PROJECT)
