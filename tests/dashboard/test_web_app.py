"""The dashboard can be installed as an app, which keeps no page that needs a sign-in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client

STATIC = Path(__file__).parents[2] / "static"


@pytest.mark.django_db
def test_the_manifest_names_icons_that_are_there(client: Client) -> None:
    response = client.get("/manifest.webmanifest")
    manifest = response.json()
    assert response["Content-Type"] == "application/manifest+json" and manifest["display"] == "standalone"
    for icon in manifest["icons"]:
        data = (STATIC / "toolcards" / icon["src"].rsplit("/", 1)[1].split(".")[0]).with_suffix(".png").read_bytes()
        size = f"{int.from_bytes(data[16:20])}x{int.from_bytes(data[20:24])}"  # IHDR
        assert data[:4] == b"\x89PNG" and size == icon["sizes"]


@pytest.mark.django_db
def test_the_service_worker_keeps_only_files_that_anyone_may_read(client: Client) -> None:
    response = client.get("/service-worker.js")
    script = response.content.decode()
    files = re.findall(r"'((?:/|\\u002F)[^']*)'", script.split("const FILES")[1].split("]")[0])
    assert response["Content-Type"] == "text/javascript" and files
    assert all(name.replace("\\u002F", "/").startswith("/static/") for name in files)
    assert script.count("cache.") == 1 and ".put(" not in script  # nothing is added later


@pytest.mark.django_db
def test_the_offline_page_says_nothing_of_its_reader(client: Client, an_approver: object) -> None:
    client.force_login(an_approver)  # type: ignore[arg-type]
    html = client.get("/offline/").content.decode()
    assert "cannot be reached" in html and "ann" not in html.lower().split() and "csrf" not in html
