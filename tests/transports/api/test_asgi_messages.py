"""Requests as ASGI messages: the parameters of a query."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.asgi_messages import LONGEST_CACHED, parse_parameters


@pytest.mark.parametrize("length", [10, LONGEST_CACHED + 1])
def test_the_last_value_of_each_parameter_counts(length: int) -> None:
    value = "x" * length
    assert parse_parameters(f"run=a&agent=%C3%A4&run={value}".encode()) == {"run": value, "agent": "\u00e4"}
    with pytest.raises(Problem, match="UTF-8"):
        parse_parameters(b"run=%FF" + value.encode())


def test_long_queries_are_not_kept_in_memory() -> None:
    tracemalloc.start()
    try:
        for number in range(100):
            parse_parameters(f"run={number}{'x' * 50_000}".encode())
        gc.collect()
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 1_000_000  # of 10,000,000 bytes
