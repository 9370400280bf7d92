"""The files that agents' programs copy from us: served with the right type, and to no web page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.server import Server

FOLDER = Path(__file__).parents[2] / "static/clients"
MODULES = sorted(file.name for file in FOLDER.glob("*.mjs"))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_served_as_javascript_to_same_origin_pages_only(server: Server, name: str) -> None:
    status, body, headers = server.request(
        "GET", f"/static/clients/{name}", key=None, Origin="https://elsewhere.example"
    )
    by_name = {header.lower(): value for header, value in headers.items()}
    assert (status, body) == (200, (FOLDER / name).read_text())
    assert by_name["content-type"].partition(";")[0] in {"text/javascript", "application/javascript"}
    assert "access-control-allow-origin" not in by_name and by_name["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_needs_nothing_but_its_neighbours(name: str) -> None:
    imported = set(re.findall(r"^(?:import|export) .* from '([^']+)'", (FOLDER / name).read_text(), re.MULTILINE))
    assert imported <= {f"./{one}" for one in MODULES}
