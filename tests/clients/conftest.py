"""What holds for the tests of all clients: no frame of a real library is unknown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.server import Server

pytest.register_assert_rewrite("tests.clients.framework_scenarios")
_reported: set[str] = set()  # runs, so that one run fails one test


@pytest.fixture(autouse=True)
def no_frame_is_unknown(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test whose runs have frames of kinds that the adapter does not know."""
    server = request.getfixturevalue("server") if "server" in request.fixturenames else None
    yield
    if not isinstance(server, Server) or server.process is None or server.process.poll() is not None:
        return
    runs = server.request("GET", "/api/v1/runs?limit=200")[1]["runs"]
    unknown = {run["run"]: run["skipped"]["kinds"] for run in runs if run["skipped"]["frames"]}
    news = {run: kinds for run, kinds in unknown.items() if run not in _reported}
    _reported.update(news)
    assert not news, f"frames of unknown kinds: {news}"
