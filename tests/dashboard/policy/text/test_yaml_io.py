"""Policy as YAML: values mean the same on their way there and back."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from dashboard.policy.text import yaml_io
from toolcards.gate import policy_draft

pytestmark = pytest.mark.django_db


def test_yaml_is_exported_and_imported(admin: Client) -> None:
    policy_draft.ensure_first_version()
    first = policy_draft.load_draft()
    exported = admin.get("/policy/export/?as=yaml")
    assert exported["Content-Disposition"].endswith('.yaml"')
    admin.post("/policy/packs/watch/")
    assert admin.post("/policy/import/", {"document": exported.content.decode()}).status_code == 302
    assert policy_draft.load_draft() == first


@pytest.mark.parametrize("value", [
    "no", "on", "08:00", "1e5", "0123", "~", "", "null", "true", "2027-01-01", "=", "<<", "\u202e", "x\ny", "- a", "#c",
    "a: b", " x ", "é", "\ufeff", "'", '"\\', 1, -2, 1.5, None, True, [], {}, [{}], {"a": [None]},
])  # fmt: skip
def test_a_value_means_the_same_after_the_way_through_yaml(value: Any) -> None:
    yaml_text = yaml_io.write_yaml({"a": value})
    back = yaml_io.read_yaml(yaml_text).value
    assert back == {"a": value} and type(back["a"]) is type(value) and "\u202e" not in yaml_text
