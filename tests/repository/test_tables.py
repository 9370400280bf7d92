"""A test that loops over a table tests every row and names the ones that fail."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.support.tables import loop_over


def test_every_row_is_tested_and_each_failed_one_is_named() -> None:
    rows: list[tuple[int, str]] = []

    @loop_over(("number", "word"), [(1, "one"), (2, "three"), pytest.param(3, "four", id="the last")])
    def check(number: int, word: str, start: int) -> None:
        rows.append((number, word))
        assert start + number == len(word)

    with pytest.raises(ExceptionGroup) as caught:
        check(start=2)
    assert rows == [(1, "one"), (2, "three"), (3, "four")]
    assert str(caught.value) == "2 of 3 rows failed: 1 (2, 'three'); 2 (the last) (2 sub-exceptions)"
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["This is the row 1 (2, 'three')"],
        ["This is the row 2 (the last)"],
    ]


def test_what_was_expected_to_raise_and_did_not_is_a_failure() -> None:
    @loop_over("text", ["1", "x"], ids=["a number", "a letter"])
    def check(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(BaseExceptionGroup, match=r"1 of 2 rows failed: 0 \(a number\)"):
        check()


def test_tables_multiply_and_leave_the_fixtures() -> None:
    rows: list[tuple[str, int]] = []

    @loop_over("letter", "ab")
    @loop_over("number", [1, 2])
    def check(letter: str, number: int, tmp_path: Path) -> None:
        rows.append((letter, number))

    assert list(inspect.signature(check).parameters) == ["tmp_path"]
    check(tmp_path=Path())
    assert rows == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_a_row_that_would_skip_the_rest_is_a_failure() -> None:
    @loop_over("number", [1, 2])
    def check(number: int) -> None:
        pytest.skip("not here")

    with pytest.raises(AssertionError, match=r"the row 0 \(1\) cannot be skipped alone"):
        check()


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(AssertionError, match="tests nothing"):
        loop_over("number", [])
