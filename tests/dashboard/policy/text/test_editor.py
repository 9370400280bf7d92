"""The draft as text: findings with their lines, and nothing that is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate import policy_draft, policy_store

pytestmark = pytest.mark.django_db


def text(client: Client, expected_text: str, **more: str) -> Any:
    based_on = client.get("/policy/draft/text/").context["based_on"]
    return client.post("/policy/draft/text/", {"text": expected_text, "based_on": based_on, "what": "save", **more})


@pytest.mark.parametrize("name", list(PRESETS))
def test_the_draft_as_text_and_back_is_the_same(admin: Client, name: str) -> None:
    policy_draft.replace_draft(json.loads(json.dumps(dict(PRESETS[name].document))), author="a test")
    before = policy_draft.load_draft()
    response = admin.get("/policy/draft/text/").context["text"]
    assert text(admin, response).status_code == 302 and policy_draft.load_draft() == before


def test_what_is_wrong_is_said_with_its_line(admin: Client) -> None:
    policy_draft.ensure_first_version()
    before = policy_draft.load_draft()
    policy_text = "v: 1\nrules:\n  - effect: deny\n    match:\n      args:\n        - path: /a\n          op: like\n"
    answer = text(admin, policy_text)
    remark = answer.context["remarks"][0]
    assert (answer.status_code, remark.line, remark.finding.pointer) == (422, 7, "/rules/0/match/args/0/op")
    page = answer.content.decode()
    assert "Line 7" in page and "op: like" in page and policy_draft.load_draft() == before


@pytest.mark.parametrize("expected_text", [
    "a: &x 1\nb: *x", "a: !!python/object:os.system x", "default: ask\ndefault: allow", "1: 2", "[[1]]: 2",
    "a: 1\n---\nb: 2", "a: [", "\t- x", "[" * 5000, "<<: {a: 1}", "x: \x00", "null", "- 1", "''",
    "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]", "{" * 5000, "? {a: 1}\n: 2",
])  # fmt: skip
def test_text_that_is_no_policy_is_refused_and_nothing_is_lost(admin: Client, expected_text: str) -> None:
    policy_draft.ensure_first_version()
    before = policy_draft.load_draft()
    refusal = 400 if "\x00" in expected_text else 422  # a NUL is refused at the door
    answer = text(admin, expected_text)
    assert answer.status_code == refusal and policy_draft.load_draft() == before
    imported = admin.post("/policy/import/", {"document": expected_text})
    assert imported.status_code == refusal and policy_draft.load_draft() == before


def test_text_over_a_draft_that_changed_meanwhile_is_kept_back(admin: Client) -> None:
    policy_draft.ensure_first_version()
    assert text(admin, "v: 1\nrules: []\n", based_on="0" * 64).status_code == 409
    assert policy_draft.load_draft()["rules"]


def test_a_comment_that_another_person_saved_meanwhile_is_kept(admin: Client) -> None:
    policy_draft.ensure_first_version()
    mine = admin.get("/policy/draft/text/").context
    assert text(admin, "# Theirs\n" + mine["text"]).status_code == 302
    assert text(admin, "# Mine\n" + mine["text"], based_on=mine["based_on"]).status_code == 409
    assert policy_store.load_draft_text().startswith("# Theirs")


def test_checking_saves_nothing(admin: Client) -> None:
    policy_draft.ensure_first_version()
    answer = text(admin, "v: 1\nrules:\n  - effect: allow\n", what="check")
    assert answer.status_code == 200 and "Warnings" in answer.content.decode() and policy_draft.load_draft()["rules"]
