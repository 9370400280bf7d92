"""Hints in single values: the leaves of an input, places of files, SQL statements, amounts of money."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.risk.hints import ACCESS_FILES, OUTSIDE, SECRETS, SYSTEM_FILES, Hint
from toolcards.core.risk.values import (
    LARGE_AMOUNT,
    MAX_VALUES,
    Leaf,
    find_location_hints,
    find_written_hints,
    is_destructive_sql,
    is_large_amount,
    is_secret_place,
    list_leaves,
)


@loop_over(("value", "leaves"), [
    (7, [("", "", 7)]), ("a", [("", "", "a")]), (None, [("", "", None)]), ({}, []), ([], []), ([[], {}], []),
    ({"Path": "a", "n": [1, [2]]}, [("path", "", "a"), ("n", "", 1), ("n", "", 2)]),
    ({"a": {"B": {"c": True}}}, [("c", "b", True)]), ([{"a": 1}, {"a": 2}], [("a", "", 1), ("a", "", 2)]),
    ({"A": [{"b": None}]}, [("b", "a", None)]), ({7: "x"}, [("7", "", "x")]),
])  # fmt: skip
def test_leaves_are_named_after_their_fields_in_their_order(value: Any, leaves: list[tuple[str, str, Any]]) -> None:
    assert list_leaves(value) == (leaves, True)


def test_an_input_of_too_many_values_is_not_complete() -> None:
    assert list_leaves([0] * (MAX_VALUES - 1))[1] and not list_leaves([0] * MAX_VALUES)[1]
    nested: Any = "end"
    for _ in range(MAX_VALUES - 1):
        nested = [nested]
    assert list_leaves(nested) == ([Leaf("", "", "end")], True) and list_leaves([nested]) == ([], False)


PLACES: list[tuple[set[Hint], list[str]]] = [
    ({SYSTEM_FILES}, [
        "/", "/*", "/etc", "/etc/passwd", "//etc//passwd", "/tmp/../etc/passwd", "file:///etc/hosts", " /usr/bin/a ",
        "/lib64/a", "/System/a", "/dev/sda", "/proc/1/mem", "~", "~/", "/home", "/root/*", "$HOME", "${HOME}/*", "C:\\",
        "c:/Windows/a", "C:\\\\*", "*", "/etc/a\nb",
    ]),
    ({ACCESS_FILES}, [
        "/home/a/.ssh/authorized_keys", "~/.bashrc", ".zshrc", "a/.profile", "/etc/sudoers", "/etc/sudoers.d/x",
        "/etc/cron.daily/x", ".git/hooks/pre-commit", "C:\\a\\.ssh\\config", "~/.netrc", "~/.SSH/AUTHORIZED_KEYS",
        "/home/a/b/../.ssh/rc", "~/.config/systemd/user/a.service", "/Library/LaunchAgents/a.plist",
    ]),
    (set(), [
        "", "a", "src/a.py", "/home/a/b", "/tmp/x", "/dev/null", "/dev/stdout", "/dev/shm/a", "/etcetera/a", "~/a",
        "C:\\a\\b", "/srv/etc/a", "etc/passwd", "my.bashrc", "a/sudoers.txt", "$HOMER", "https://a.example/etc/hosts",
    ]),
]  # fmt: skip


@loop_over(("place", "expected"), [(place, hints) for hints, places in PLACES for place in places])
def test_a_written_place_is_of_the_system_of_access_or_of_neither(place: str, expected: set[Hint]) -> None:
    assert set(find_written_hints(place)) == expected


@loop_over(("place", "expected"), [
    ("/etc/hosts", {OUTSIDE}), ("../a", {OUTSIDE}), ("a/../b", {OUTSIDE}), ("~/a", {OUTSIDE}), ("a..b/c", set()),
    (".env", {SECRETS}), ("a/.env.local", {SECRETS}), ("environment", set()), ("/home/a/.ssh/id_rsa", {SECRETS}),
    ("a/key.PEM", {SECRETS}), ("secrets/a", {SECRETS}), ("secretary", set()), ("/tmp/a", set()), ("src/a.py", set()),
])  # fmt: skip
def test_a_place_that_is_read_leaves_the_project_or_holds_secrets(place: str, expected: set[Hint]) -> None:
    assert set(find_location_hints(Leaf("file_path", "", place), is_read_only=True)) == expected
    assert is_secret_place(place) is (SECRETS in expected)


@loop_over("field", ["path", "file_path", "folder", "target_dir", "destination", "uri", "location"])
def test_only_fields_of_places_are_read_as_places(field: str) -> None:
    hints = set(find_location_hints(Leaf(field, "", "/etc/passwd"), is_read_only=False))
    assert hints == {SYSTEM_FILES, OUTSIDE}
    assert not list(find_location_hints(Leaf("text", "path", "/etc/passwd"), is_read_only=False))


DESTRUCTIVE = [
    "drop table users", "DROP\n\tTABLE users", "drop /* a */ table users", "drop--x\ntable users", "drop schema public",
    "select 1; drop database a", "truncate table a", "truncate users", 'truncate "a".b, c', "TRUNCATE ONLY a",
    "delete from users", "delete from a; select 1 from b", "DELETE FROM [a].[b]", "FLUSHALL", "db.dropDatabase()",
    "db.a.drop()", "db.a.deleteMany({ })", "a.delete_many({})", "drop owned by a",
]  # fmt: skip
HARMLESS = [
    "", "select 1", "delete from users where id = 1", "delete from users\nusing b where a.id = b.id", "drop the idea",
    "insert into drops values (1)", "update a set deleted = 1 where b = 2",
    "truncate the text to 10", "dropped the table",
    "create table truncates (a int)", "db.a.deleteMany({a: 1})", "raindrop table", "flush tables",
]  # fmt: skip


@loop_over(("text", "expected"), [(text, True) for text in DESTRUCTIVE] + [(text, False) for text in HARMLESS])
def test_a_statement_that_drops_or_empties_is_destructive(text: str, expected: bool) -> None:
    assert is_destructive_sql(text) is expected


@loop_over(("text", "expected"), [
    ("drop table users", True), ("select 1; drop table a", True), (" /* a */ -- b\n drop table a", True),
    ("how to drop table users", False), ("please delete from users", False), ("a; how to drop table", False),
])  # fmt: skip
def test_in_prose_a_statement_stands_at_the_beginning(text: str, expected: bool) -> None:
    assert is_destructive_sql(text, may_be_prose=True) is expected


@loop_over(("field", "value", "expected"), [
    ("amount", LARGE_AMOUNT, True), ("amount", LARGE_AMOUNT - 1, False), ("amount", -LARGE_AMOUNT, True),
    ("amount", 999.99, False), ("amount", "999.99", False), ("amount", "1000", True), ("amount", "1,000", True),
    ("amount", "1.000", True), ("amount", "1.000,00", True), ("amount", "1 000.50", True), ("amount", "1’000", True),
    ("amount", "1_000", True), ("amount", "1,00", False), ("amount", "10,00.5", True), ("amount", "€ 5.000", True),
    ("amount", "five", False), ("amount", "", False), ("amount", "12.34.", False), ("amount", True, False),
    ("amount", None, False), ("amount", float("nan"), False), ("amount", float("inf"), True), ("amount", 10**400, True),
    ("amount_cents", 100 * LARGE_AMOUNT, True), ("amount_cents", 100 * LARGE_AMOUNT - 1, False),
    ("amount", "1,00,000", True), ("amount", "12,34,567.00", True), ("amount", "50\u202f000,00 €", True),
    ("amount", "50\u00a0000", True), ("amount", "1,234.567", True), ("amount", "999.999,9", True),
    ("amount", "12.5", False), ("amount", "1e9", True), ("amount", "1E+3", True), ("amount", "5 EUR", False),
    ("total_pence", 99_999, False), ("price", 5_000, True), ("balance_eur", "5000 EUR", True), ("count", 5_000, False),
    ("id", 5_000, False), ("value", 5_000, True), ("total", "x" * 100 + "5000", False),
])  # fmt: skip
def test_an_amount_is_large_in_whole_units_of_money(field: str, value: Any, expected: bool) -> None:
    assert is_large_amount(Leaf(field, "", value)) is expected


@loop_over(("field", "parent", "expected"), [
    ("value", "amount", True), ("units", "price", True), ("value", "weight", True), ("units", "weight", False),
    ("count", "amount", False),
])  # fmt: skip
def test_a_plain_name_is_money_inside_of_an_amount(field: str, parent: str, expected: bool) -> None:
    assert is_large_amount(Leaf(field, parent, 5_000)) is expected


@draw(100)
@given(st.integers(0, 10**12), st.sampled_from([",", ".", " ", "_", "’", "'", "\u00a0"]), st.sampled_from(",.~"))
def test_a_written_amount_counts_as_its_number_whatever_separates_thousands(number: int, sign: str, point: str) -> None:
    decimals = "" if point in ("~", sign) else f"{point}99"
    leaf = Leaf("amount", "", f"{number:,}".replace(",", sign) + decimals)
    assert is_large_amount(leaf) is (number >= LARGE_AMOUNT)


@loop_over("piece", ["drop ", "/*", "drop/**/", "--\n", "delete from a ", "../", "\\", "1,", ";", "(", "truncate a"])
def test_a_long_value_is_read_quickly(piece: str) -> None:
    text, started = piece * (200_000 // len(piece)), time.thread_time()
    for may_be_prose in (False, True):
        is_destructive_sql(text, may_be_prose=may_be_prose)
    list(find_location_hints(Leaf("path", "", text), is_read_only=False))
    is_large_amount(Leaf("amount", "", text))
    assert time.thread_time() - started < 2.0
