"""A table of many rows as one test: every row is tested, and each one that fails is named.

As a test of its own, a row takes 4 ms of CPU, and collecting it takes each process of a run another 0.25 ms.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

NAMES_SHOWN = 50  # failed rows in the first line of a failure
LONGEST_NAME = 80
PARAM = type(pytest.param())


def loop_over(
    columns: str | Sequence[str], rows: Iterable[Any], *, ids: Callable[[Any], object] | Iterable[object] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a test: run it for every row, with the arguments of `pytest.mark.parametrize`.

    The rows share the test's fixtures, so this is for functions that keep nothing. All rows are run; the failure is a
    group of the rows' own failures.
    """
    names = [name.strip() for name in columns.split(",")] if isinstance(columns, str) else list(columns)
    params = [row if isinstance(row, PARAM) else pytest.param(*([row] if columns == names[0] else row)) for row in rows]
    assert params, "a table without rows tests nothing"
    assert not any(param.marks for param in params), "a row with a mark takes pytest.mark.parametrize"
    table = [param.values for param in params]
    titles = _titles(params, ids)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        assert not inspect.iscoroutinefunction(test), "an asynchronous test takes pytest.mark.parametrize"

        @functools.wraps(test)
        def test_all_rows(**fixtures: Any) -> None:
            failures: dict[str, BaseException] = {}
            for title, row in zip(titles, table, strict=True):
                try:
                    test(**fixtures, **dict(zip(names, row, strict=True)))
                except pytest.skip.Exception as error:
                    raise AssertionError(f"the row {title} cannot be skipped alone") from error
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"This is the row {title}")
                    failures[title] = error
            if failures:
                failure_names = "; ".join([*failures][:NAMES_SHOWN])
                raise BaseExceptionGroup(
                    f"{len(failures)} of {len(table)} rows failed: {failure_names}", [*failures.values()]
                ) from None

        signature = inspect.signature(test)
        parameters = [parameter for name, parameter in signature.parameters.items() if name not in names]
        test_all_rows.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return test_all_rows

    return decorate


def _titles(params: list[Any], ids: Callable[[Any], object] | Iterable[object] | None) -> list[str]:
    """Return a different name for each row: its number, and its id, what `ids` says, or its values."""
    if ids is None or callable(ids):
        spell = ids or repr
        names = [param.id or ", ".join(str(spell(value)) for value in param.values) for param in params]
    else:
        names = [str(name) for name in ids]
    return [f"{number} ({name[:LONGEST_NAME]})" for number, name in zip(range(len(params)), names, strict=True)]
