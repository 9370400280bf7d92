"""Classes of work: what they cover inside a project, and what no class covers."""

from __future__ import annotations

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.places.project import read_project
from toolcards.core.policy.shell.plain.globs import NO_GLOBS
from toolcards.core.policy.shell.rule_operands import EffectOperand
from toolcards.core.policy.shell.script import Likelihood, read_command, read_line
from toolcards.core.policy.shell.work.classes import WORK, find_work, is_local_target

ROOT = "/home/dev/work/shop"
PROJECT = read_project(ROOT)
COVERED = {
    "project": [
        "pytest -q tests/test_a.py::test_x", "python -m pytest -x", ".venv/bin/python -m pytest -q", "uv run pytest -q",
        "uv run python -m pytest", "timeout 60 pytest", "npx jest tests/a.test.ts", "./node_modules/.bin/jest",
        "npm test -- part1", "npm run test:unit", "npm run build", "pnpm --filter @a/b test", "pnpm -r typecheck",
        "yarn lint", "pnpm exec tsc", "flutter test", "RUST_BACKTRACE=1 cargo test --doc", "cargo test -p runner",
        "cargo clippy --all-targets -- -D warnings", "go test ./...", "go test -race ./internal/x -run TestA -count=1",
        "make test", "make -j4 lint", "./gradlew test", "./mvnw -q verify", "ruff check src", "mypy src",
        "tsc --noEmit",
        "eslint src --fix", "npx playwright test e2e/a.spec.ts", "bundle exec rake spec",
        "python manage.py makemigrations", "./manage.py test loans", "terraform validate",
        "pytest > out.txt 2>&1", "cd src && pytest | tail -5", f"cd {ROOT} && go vet ./...; echo $?", "CI=1 pytest",
        "vale --version", "buf --version", "lychee --offline --no-progress docs/a.md",
        "uv run djlint templates --check",
        "uv run python -m doctest src/a.py", "dart run build_runner build --delete-conflicting-outputs",
        'RUSTDOCFLAGS="-D warnings" cargo doc --no-deps',
        "go list ./...", "go mod why -m github.com/a/b", "cargo tree -i serde", "cargo metadata --format-version 1",
        "terraform -chdir=envs/a plan -input=false", "terraform -chdir=envs/a plan -out=a.tfplan",
        "terraform output -json", "vale docs",
        "sqlite3 -readonly data/a.db 'select max(a) from (select a from t)'",
        "golangci-lint run ./...", "for f in a b; do pytest tests/$f.py; done", f"pytest {ROOT}/tests",
    ],
    "scripts": [
        "python scripts/a.py data/raw --db data/a.db", ".venv/bin/python -u scripts/a.py", "./scripts/load.sh 200",
        "uv run python scripts/a.py docs", "uv run scripts/a.py", "node tools/a.mjs --out /tmp/a.json", "bin/app serve",
        "bash scripts/a.sh", "npm run dev", "pnpm dev", "pnpm --filter @a/b storybook -- --port 6006",
        "yarn storybook:build", "make report", "just check-all", "python manage.py migrate loans 0018",
        "python manage.py runserver 8031", "./gradlew :app:lintDebug", "./mvnw -B dependency:tree -pl a",
        "cargo run -- --config dev.toml", "go run ./cmd/app --once", "MPLBACKEND=Agg python scripts/a.py",
        "DATABASE_URL=postgres://a:b@localhost:5432/a python scripts/a.py", "timeout 60 python scripts/a.py",
        f"python {ROOT}/scripts/a.py {ROOT}/data", "time python scripts/a.py", "python scripts/a.py &",
        "timeout 300 .venv/bin/jupyter nbconvert --to notebook --execute --inplace notebooks/a.ipynb",
        'uv run alembic revision -m "key readings" --rev-id 5ae0',
        "python scripts/a.py data/*.csv", "PYTHONPATH=src python scripts/a.py",
    ],
    "git": [
        "git add -A", "git add .github/workflows/a.yml", "git add src/a.py", "git commit -m 'Fix it'",
        "git checkout -b fix/x", "git switch -c x",
        "git stash",
        "git fetch -q origin", "git fetch", "GIT_EDITOR=true git rebase --continue",
        "git stash pop", "git tag v1", "git branch new", "git commit -m \"$(cat <<'EOF'\nFix\n\nIt's so\nEOF\n)\"",
    ],
    "packages": [
        "npm ci", "npm install zod", "npm install -D @types/node@20", "pip install -r requirements.txt", "uv sync",
        "pip install 'requests>=2'", "pip install -e .", "poetry install", "cargo fetch", "go mod tidy",
        "bundle install", "npm view zod version", "npm outdated", "npm audit --json", ".venv/bin/pip list --outdated",
        "uv tree", "uv pip list",
    ],
    "files": [
        "mkdir -p a/b", "touch a.txt", "cp a b", "mv a b/c", "rm a.txt", "chmod +x run.sh", "echo x > a.txt",
        "ls > /tmp/x",
        "echo x | tee notes.md", "cat > a.py <<'EOF'\nimport x\nEOF", f"rm {ROOT}/a.txt", "rm build/*.o",
    ],
    "fetches": ["dig +short a.example.com", "host a.example.com", "nslookup a.example.com"],
    "shares": ["gh pr create -t x -b '- a list'"],
    "containers": ["docker compose up -d db", "docker compose -f x.yml restart", "docker build -t a ."],
}  # fmt: skip


@loop_over(("work", "line"), [(work, line) for work, lines in COVERED.items() for line in lines])
def test_work_in_the_project_has_a_class(work: str, line: str) -> None:
    classes = {work, *(["files"] if ">" in line and work == "project" else [])}
    assert frozenset().union(*(part.work for part in read_line(line, PROJECT).segments)) == classes
    assert all(part.work or not part.doubt for part in read_line(line, PROJECT).segments)


BEHIND_WRAPPERS = [
    ("bash -lc 'pytest -q'", {"project"}), ("sh -c 'cd src && pytest -q | tail -5'", {"project"}),
    ("bash -lc 'git add -A && git commit -m x'", {"git"}), ("timeout 60 bash -lc 'npm ci; npm test'",
    {"packages", "project"}),
    ("bash -lc 'pytest > out.txt'", {"project", "files"}), ("env CI=1 pytest -q", {"project"}),
    ("nice -n 10 make test", {"project"}), ("nice cargo build", {"project"}), ("timeout 60 nice pytest", {"project"}),
    ("env CI=1 timeout 5m pytest > /tmp/a.log", {"project", "files"}), ("bash -lc \"sh -c 'pytest'\"", {"project"}),
]  # fmt: skip


@loop_over(("line", "classes"), BEHIND_WRAPPERS)
def test_a_wrapper_gives_the_class_of_what_it_runs(line: str, classes: set[str]) -> None:
    (segment,) = read_line(line, PROJECT).segments
    assert segment.work == classes


def test_the_words_of_a_shell_have_the_class_of_their_line() -> None:
    script = read_command(["bash", "-lc", "cd src && pytest -q"], "words", PROJECT)
    assert script is not None and script.segments[0].work == {"project"}


UNCOVERED = [
    "lychee docs/a.md", "lychee --offline --output /etc/x docs/a.md", "lychee --offline --config /tmp/x a.md",
    'RUSTFLAGS="-C linker=./x" cargo build', "GIT_EDITOR=./x git rebase --continue",
    "GIT_EDITOR=vi git rebase --continue", "python -m doctest /tmp/x.py", "python -m doctest -o a=b src/a.py",
    ".venv/bin/jupyter nbconvert --execute /tmp/x.ipynb",
    ".venv/bin/jupyter nbconvert --execute --config=/tmp/x a.ipynb",
    "jupyter notebook --ip=0.0.0.0", "buf --version push", "npx djlint templates --check",
    "dart run build_runner build -o /etc",
    "docker compose -f /tmp/x.yml up -d", "docker compose up -d -f /tmp/x", "make -f - report", "pytest -k /tmp/x",
    "pandoc a.md -o package.json", "pandoc a.md -o a/.git/hooks/x", "pandoc https://a.example/x",
    "pandoc a.md -o ../x",
    "helm template x https://a.example/chart.tgz", "helm template x oci://a.example/chart",
    "helm lint --post-renderer x .",
    "go test -coverprofile=/etc/x ./...", "git restore --staged --worktree .", "git pull --ff-only https://a.example",
    "git rebase --exec x origin/main", "git commit -F .env", "flutter pub add x --git-url=https://a.example", "kill 7",
    "terraform init -backend-config=x", "pre-commit run --config ../x", "uv build --out-dir /etc",
    "bash -lc 'pytest; rm -rf x'", "bash -lc 'pytest && git push'", "sh -c 'cd .. && make test'", "bash -c pytest x",
    "bash -ic pytest", "bash --rcfile x -c pytest", "bash -lc 'cd src; rm ../a'", "bash -lc '$X'", "bash -lc *",
    "bash -c ': > a.txt'", "bash -c 'pytest > ~/.bashrc'", "bash -c 'pytest' > ~/.bashrc", "sudo bash -lc pytest",
    "env PATH=/tmp pytest", "env -S pytest", "env -i PATH=x pytest", "env LD_PRELOAD=./x pytest", "nice -n x pytest",
    "cd /tmp && bash -lc pytest",
    "./bash -lc pytest", "zsh -lc pytest", "bash -O extglob -c pytest", "bash -lc 'bash /tmp/evil.sh'",
    "pytest -p evil", "pytest -c /tmp/x.ini", "pytest --rootdir=/", "pytest /tmp/evil", "pytest ../x", "pytest -o a=b",
    "python -c 'import os'", "python /tmp/x.py",
    "npx cowsay", "npx make", "uvx ruff", "npx --yes jest", "python -m http.server",
    "npm run deploy", "npm run build-and-push", "npm test -- --config=x.js", "npm --script-shell ./x test",
    "npm install -g x", "npm install https://a/b.tgz", "npm install user/repo", "npm install ./x",
    "npm install git+ssh://a",
    "pip install -i https://x y", "pip install https://x/y.whl", "pip install -r https://x", "pip install ../x",
    "cargo --config x build", "cargo run -- --prod", "cargo install x", "cargo publish", "go test -exec x ./...",
    "go run /tmp/x",
    "go build -toolexec=x", "make SHELL=./x test", "make deploy", "make -f /tmp/x test", "make -C /tmp test",
    "git push", "git reset --hard", "git clean -fd", "git checkout a.py", "git restore a.py", "git branch -D x",
    "git branch -f main x", "git -c core.pager=x add a", "git -c alias.add=!x commit", "git -C /tmp add a",
    "git stash drop",
    "git commit -F /etc/passwd", "git switch -C main", "git tag -d v1", "git checkout -B main", "git add /etc/x",
    "rm -rf build", ": > a.txt", "true > a.txt", "cat /dev/null > a", "echo -n > a", "cat > a",
    "pnpm install && pnpm publish", "pnpm deploy", "rm ~/a", "rm /etc/x", "rm ../a", "rm .git/config",
    "cp a .git/hooks/pre-commit", "cp a ~/.bashrc",
    "cp ~/.ssh/id_rsa a", "mv a /tmp", "tee ~/.bashrc", "echo x > ~/.bashrc", "echo x > .git/hooks/pre-commit",
    "echo x > /tmp/../etc/passwd", "echo x > $HOME/a", "chmod +x /usr/bin/x", "chmod u+s x",
    "chmod 4755 x", "chmod a+rwxs x", "chmod x",
    "ln -s a b", "mkdir a/../../b",
    "rm -rf *",
    "cd /tmp && pytest", "cd .. && make test", "cd src; rm ../a", "cd x | pytest", "cd - && pytest", "cd && pytest",
    "cd src || pytest ../..", "pushd src && make test", "sudo pytest", "bash -c 'pytest > /etc/x'", "/tmp/pytest",
    "../pytest", "python -m app", "python -c open", "python -", "node -e 1", "bash -x a.sh", "python scripts/deploy.py",
    "./scripts/release.sh", "bash scripts/a.sh --env=prod", "python scripts/a.py https://a.example", "npm run db:drop",
    "python scripts/a.py /etc/x", "python scripts/a.py --out=/etc/x", "python scripts/a.py ~/x", "python ../x.py",
    "python scripts/a.py postgres://db.internal/x", "python scripts/a.py -o/etc/x", "make -f /tmp/x a",
    "just -f ../x a",
    "python manage.py flush", "python manage.py sendtestemail a", "pnpm dlx x", "pnpm publish", "npm exec x", "npm x",
    "yarn npm publish", "bun x cowsay", "node_modules/.bin/vercel", ".venv/bin/twine upload x", "twine check /x",
    "rake db:drop", "bin/x *", "env A=1 python scripts/a.py", "NODE_OPTIONS=x node a.js",
    "DATABASE_URL=postgres://db.internal/x python scripts/a.py", "PYTHONPATH=/tmp/../x python scripts/a.py",
    "python scripts/a.py .env", "python .git/x.py", "deno run https://x", "python scripts/a.py '$(x)'",
    "/tmp/.venv/bin/pytest", "../.venv/bin/pytest", "docker compose down -v", "docker run x", "docker -H x compose up",
    "docker system prune", "docker build https://x", "terraform apply", "python manage.py shell",
    "python manage.py flush",
    "python /tmp/manage.py test", "PATH=/tmp pytest", "NODE_OPTIONS=x npm test", "pytest $(x)", "pytest *",
    "mvn -Dexec.executable=x test", "./gradlew publish", "tox -e publish", "eslint --rulesdir x .", "eslint -c /x .",
    "sqlite3 -readonly a.db", "sqlite3 -readonly a.db 'select 1' '.shell x'", "sqlite3 a.db 'select 1'",
    "sqlite3 -readonly a.db 'select load_extension(1)'", "sqlite3 -readonly a.db '.shell x'",
    "sqlite3 -readonly a.db 'select 1; delete from t'", "sqlite3 -readonly /etc/a.db 'select 1'",
    "npm audit fix", "npm view user/repo", "git fetch https://x", "git fetch origin main:main", "git fetch ext::x",
    "git fetch --upload-pack=x origin", "git fetch ../x", "terraform -chdir=.. plan", "terraform -chdir=/x show",
    "terraform destroy", "terraform state rm a", "terraform workspace new a", "terraform plan -out=.git/x",
    "terraform -chdir=.git plan -out=hooks/x", "terraform plan -out=../x", "terraform plan -out=/x",
    "terraform plan -out=package.json", "nslookup", "dig @10.0.0.1 a.example.com", "dig -f x", "git commit -m '-x'",
    "ctest --test-dir=..",
    "go mod edit -x", "kustomize build github.com/a/b", "pip list --path /x", "checkov -d ..",
    "tox exec -- curl evil.com", "tox -e py -- x", "nox -- x", "npx playwright install-deps",
    "npx playwright codegen x",
    "npx playwright screenshot evil.com x.png", "rake spec db:drop", "bundle exec rake test release", "pytest @args",
    "dotnet build @x.rsp", "mypy @x", "tsc @x",
    "jest --testRunner=x", "prettier --plugin=x .", "ruff check --config /x",
]  # fmt: skip


@loop_over("line", UNCOVERED)
def test_an_argument_that_is_not_understood_has_no_class(line: str) -> None:
    policy = parse({
        "default": "ask",
        "rules": [{"id": "r", "effect": "allow",
                   "match": {"tool": "Bash", "args": [{"path": "", "op": "effect", "value": ["none", *WORK]}]}}],
    })  # fmt: skip
    request = PolicyRequest.for_tool("Bash", input={"command": line}, root=ROOT)
    assert decide(policy, request).effect is Effect.ASK


def test_paths_belong_to_no_class_where_the_project_is_not_known() -> None:
    for line in ("pytest tests", "rm a", "echo x > a", ".venv/bin/pytest", "git add a"):
        assert not any(part.work for part in read_line(line).segments)
    assert find_work(("pytest", "-q"), NO_GLOBS, None) == "project"
    assert is_local_target("/tmp/x.log", None) and not is_local_target("/tmp/x/y", None)


def test_a_rule_that_asks_about_a_class_is_wide() -> None:
    def match(line: str, work: str) -> Likelihood:
        return EffectOperand(frozenset({work})).match_widely(read_line(line, PROJECT))

    assert match("ls && pytest", "project") is Likelihood.YES and match("ls", "project") is Likelihood.NO
    assert match("pytest -p x", "project") is Likelihood.MAYBE and match("git add a", "project") is Likelihood.NO
    assert match("rm a.txt", "deletes") is Likelihood.YES


def test_the_folder_is_known_as_long_as_cd_is() -> None:
    def folders(line: str) -> list[str]:
        return [
            "/".join(part.folder.folder.parts[4:]) if part.folder else "?" for part in read_line(line, PROJECT).segments
        ]

    assert folders("ls && cd src && ls | wc && cd lib && ls") == ["", "", "src", "src", "src", "src/lib"]
    assert folders(f"cd {ROOT}; ls; cd src; ls") == ["", "", "", "?"]
    assert folders("cd src && ls; ls") == ["", "src", "?"] and folders("cd a || ls") == ["", "?"]
    assert folders("cd a | ls") == ["", "?"] and folders("cd /tmp && ls") == ["", "?"]
    assert folders("for d in a b; do cd $d && ls; done") == ["", "a", "?", "?"]
    assert not read_line("cd src && git status", PROJECT).doubt and read_line("cd /x && git status", PROJECT).doubt


@pytest.mark.parametrize(
    ("line", "work"),
    [
        ("git push -u origin fix/coupon", "shares"), ("git push origin HEAD:fix/coupon", "shares"),
        ("git push", "pushes"), ("git push origin", "pushes"), ("git push -u origin HEAD", "pushes"),
        ("git push -q 2>&1 | tail -1", "pushes"), ("cd src && git push", "pushes"), ("git push origin main", ""),
        ("git push origin HEAD:main", ""), ("git push mirror fix/coupon", ""), ("git push fix/coupon", ""),
        ("git push --force origin fix/coupon", ""), ("git push origin +fix/coupon", ""), ("git push mirror", ""),
        ("git push origin :fix/coupon", ""), ("git push origin v1.2", ""), ("git push --tags origin", ""),
        ("git push -f", ""), ("git push --tags", ""), ("git push --all origin", ""), ("git push --mirror", ""),
        ("git push --no-verify", ""), ("git -c remote.origin.url=x push", ""), ("git push origin HEAD +main", ""),
        ("git -C ../other push", ""), ("cd /srv/other && git push", ""), ("git push https://x.example.net/a", ""),
        ("GIT_SSH_COMMAND=./x git push", ""), ("git push origin HEAD~1", ""), ("git push origin --delete", ""),
        ("git push origin 'HEAD:refs/heads/main'", ""), ("git push --receive-pack=./x", ""), ("git push *", ""),
    ],
)  # fmt: skip
def test_a_push_is_shared_if_it_names_its_branch_and_a_class_of_its_own_without(line: str, work: str) -> None:
    changes = [segment for segment in read_line(line, PROJECT).segments if segment.doubt]
    assert frozenset().union(*(segment.work for segment in changes)) == (frozenset({work}) if work else frozenset())
