"""The Django admin as a whole: for admins, without inline scripts, and with hostile input escaped."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.admin_pages import READ_ONLY, address

pytestmark = pytest.mark.django_db


def test_hostile_input_is_escaped(admin: Client, a_call: Any) -> None:
    call = a_call("approval-requested", tool="Edit", input={"command": "<script>alert(1)</script>"})
    for url in (address("approval"), address("toolcall", "change", call.pk), address("event")):
        assert b"<script>alert" not in admin.get(url).content


def test_only_admins_come_in(a_person: Any, client: Client) -> None:
    client.force_login(a_person("approver"))
    assert client.get("/admin/").status_code == 302


def test_no_page_needs_inline_script_or_style(admin: Client, a_call: Any) -> None:
    a_call("approval-requested", tool="Edit")
    for model in (*READ_ONLY, "draftrule", "agentkey", "source"):
        page = admin.get(address(model)).content.decode()
        assert " style=" not in page and "<style" not in page and "onclick" not in page
