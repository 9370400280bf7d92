"""Words that stay inside the project, and words that do not."""

from __future__ import annotations

from tests.support.tables import loop_over
from toolcards.core.policy.places.project import read_project
from toolcards.core.policy.shell.work.tame_words import is_inside, is_loud, is_tame, is_tame_assignment

PROJECT = read_project("/home/dev/work/shop")
TAME = [
    "a",
    "a/b.py",
    "--db=data/a.db",
    "-o",
    "200",
    "tests/a.py::test_x",
    ":app:lintDebug",
    "/tmp/x/y.log",
    "a=b,c=d",
    "http://localhost:8000/a?b=1",
    "postgres://a:b@127.0.0.1:5432/x",
    "127.0.0.1:9950",
    "--url=http://localhost:3000",
    "/home/dev/work/shop/a.py",
    "--in=/home/dev/work/shop/a",
    "head",
    "0018",
    "-j4",
]
WILD = [
    "../a",
    "/etc/passwd",
    "~/a",
    "--db=/etc/x",
    "--db=~/x",
    "-o/etc/x",
    "-o../x",
    "https://a.example",
    "a=https://a.example",
    "postgres://db.internal/x",
    "http://localhost.evil.net/",
    "http://localhost@evil.net/",
    "http://evil.net/localhost",
    ".env",
    ".git/hooks/x",
    "a/../../b",
    "deploy",
    "--force",
    "prod",
    "x" * 300,
    "a b",
    "a;b",
    "$X",
    "a\nb",
    "--in=.env",
    "a,/etc/x",
    "a=/etc/x",
    "db:drop",
    "http://[::1]x",
    "/tmp/../etc/x",
    "s3://bucket/x",
    "user@host:/x",
    "//host/x",
]


@loop_over("word", TAME)
def test_a_word_that_stays_inside_is_tame(word: str) -> None:
    assert PROJECT is not None and is_tame(word, PROJECT)


@loop_over("word", WILD)
def test_a_word_that_leads_outside_or_is_loud_is_not_tame(word: str) -> None:
    assert PROJECT is not None and not is_tame(word, PROJECT)


def test_variables_are_tame_by_name_and_value() -> None:
    for text in ("DATABASE_URL=postgres://a@localhost/x", "MPLBACKEND=Agg", "APP_ENV=test", "PYTHONPATH=src", "CI=1"):
        assert is_tame_assignment(text, PROJECT) and not is_tame_assignment(text, None)
    for text in ("DATABASE_URL=postgres://db.internal/x", "NODE_OPTIONS=x", "APP_ENV=production", "PYTHONPATH=/etc",
                 "X", "FOO=1", "GIT_SSH_COMMAND=x", "=x", "API_HOST=evil.net", "API_URL=a.example/x",
                 "PYTHONPATH=/tmp/x"):  # fmt: skip
        assert not is_tame_assignment(text, PROJECT)


def test_places_of_tmp_are_inside_and_loud_names_are_known() -> None:
    assert PROJECT is not None and is_inside("/tmp/a.log", PROJECT) and not is_inside("/etc/a", PROJECT)
    assert not is_inside("", PROJECT) and is_loud("npm-publish") and not is_loud("test")
