"""The server that the attacks are about, one for each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.attacked_site import Person, serve_attacked_site
from tests.support.server import Server


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve_attacked_site(tmp_path_factory.mktemp("attacked")) as running:
        yield running


@pytest.fixture(scope="module")
def people(site: Server) -> dict[str, Person]:
    return {name: Person(site, name) for name in ("ann", "ben", "vic")} | {"admin": site.root}  # type: ignore[attr-defined]
