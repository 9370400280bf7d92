"""A target in a home directory of its own, and a server that asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import Server
from toolcards import connect


@pytest.fixture
def target(tmp_path: Path) -> connect.Target:
    return connect.Target(url="http://127.0.0.1:8123", key="tck_the_key_of_a_test", home=tmp_path)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), default_effect="ask") as running:
        yield running
