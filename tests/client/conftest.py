"""A server with a policy for `bash`, and a client of it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.support import gating
from tests.support.server import PATIENCE, Server
from toolcards.client import Toolcards


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy("bash", "/command"))
        yield running


@pytest.fixture
def cards(ruled: Server) -> Toolcards:
    return Toolcards(ruled.base, ruled.key, timeout=PATIENCE)


@pytest.fixture
def run() -> str:
    return f"run-{secrets.token_hex(4)}"
