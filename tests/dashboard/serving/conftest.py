"""A server that is quick to lose patience with peers that it does not know."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.server import MAX_UNKNOWN_PEERS, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("unknown")
    limits = {"head_seconds": 1, "body_seconds": 1.5, "max_unauthenticated": MAX_UNKNOWN_PEERS, "max_head": 16_384}
    with Server(folder, **limits) as running:
        yield running
