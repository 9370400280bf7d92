"""Help pages and the descriptions of the API: complete, true, and harmless to read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.help import views

NAMES = [document.name for document in views.list_documents()]


@pytest.mark.django_db
@pytest.mark.parametrize("name", NAMES)
def test_each_document_is_a_page_whose_links_lead_somewhere(client: Client, a_person: Any, name: str) -> None:
    client.force_login(a_person("viewer"))
    page = client.get(reverse("help-document", args=[name])).content.decode()
    article = page[page.index('<article class="help-text">') : page.index("</article>")]
    assert "<script" not in article and "style=" not in article and "&lt;!--" not in article
    for target in re.findall(r'href="(/[^"]+|#[^"]+)"', article):
        path, _, anchor = target.partition("#")
        html = client.get(path).content.decode() if path else page
        assert not anchor or f'id="{anchor}"' in html, target


@pytest.mark.django_db
def test_help_is_for_people_who_are_signed_in(client: Client) -> None:
    assert client.get("/help/").status_code == client.get("/help/api/").status_code == 302
    assert client.get("/api/v1/openapi.json").status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["nothing", "..%2fREADME", "README", "architecture"])
def test_an_unknown_document_is_not_found(client: Client, a_person: Any, name: str) -> None:
    client.force_login(a_person("viewer"))
    assert client.get(f"/help/{name}/").status_code == 404


def test_an_installed_copy_names_its_own_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "CHECKOUT", False)
    html = views.load_document.__wrapped__("operations").html
    assert "manage.py" not in html and "toolcards audit verify" in html
