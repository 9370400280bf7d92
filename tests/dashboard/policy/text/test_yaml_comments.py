"""Comments in policies survive edits, activation and copies; and no comment ever changes a policy."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dashboard.policy.text.yaml_comments import write_with_comments
from dashboard.policy.text.yaml_io import NotYaml, read_yaml, write_yaml
from toolcards.client.common.canonical_json import NotCanonical, digest
from toolcards.gate import policy_draft, policy_store
from toolcards.models import PolicyVersion

TEXT = """\
# Our policy. Ask the platform team before you change it.
v: 1
default: ask
rules:
# Nothing is pushed on Fridays.
- id: no-push
  effect: deny  # until the release is out
  match:
    tool: [bash]
    args:
    - {path: /command, op: cmd, value: git push}
# Reading is harmless.
- id: look
  effect: allow
  match:
    kind: read
"""
COMMENTS = ("# Our policy.", "# Nothing is pushed", "# until the release", "# Reading is harmless")


def document_of(text: str) -> Any:
    return read_yaml(text).value


def with_rule(index: int, **changes: Any) -> Any:
    document = document_of(TEXT)
    document["rules"][index] |= changes
    return document


def test_an_unchanged_document_keeps_its_text_to_the_letter() -> None:
    assert write_with_comments(document_of(TEXT), TEXT) == TEXT


@pytest.mark.parametrize(
    "document",
    [
        with_rule(0, severity="high"),
        with_rule(1, effect="ask"),
        with_rule(1, match={"kind": ["read", "search"]}),
        document_of(TEXT) | {"default": "deny", "unknown_tool": "ask"},
        document_of(TEXT) | {"rules": [*document_of(TEXT)["rules"], {"id": "new", "effect": "deny"}]},
        document_of(TEXT) | {"rules": [{"id": "first", "effect": "deny"}, *document_of(TEXT)["rules"]]},
    ],
    ids=["field", "effect", "condition", "head", "appended", "put first"],
)
def test_all_comments_stay_when_something_else_changes(document: Any) -> None:
    text = write_with_comments(document, TEXT)
    assert document_of(text) == document
    assert [comment for comment in COMMENTS if comment not in text] == []


def test_the_comments_of_a_removed_rule_do_not_move_to_another_value() -> None:
    document = document_of(TEXT) | {"rules": document_of(TEXT)["rules"][1:]}
    text = write_with_comments(document, TEXT)
    assert document_of(text) == document and "# until the release" not in text


def test_rules_that_change_places_keep_their_comments() -> None:
    document = document_of(TEXT)
    document["rules"].reverse()
    text = write_with_comments(document, TEXT)
    assert document_of(text) == document and "deny  # until the release" in text


@pytest.mark.parametrize("earlier", ["", "no: [", "a: &x 1\nb: *x\n", "just text", "- a\n- b\n", "rules: 7\n", "\t"])
def test_an_earlier_text_that_cannot_be_used_changes_nothing(earlier: str) -> None:
    document = document_of(TEXT)
    assert document_of(write_with_comments(document, earlier)) == document


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), st.text(max_size=8),
    st.sampled_from(["yes", "off", "08:00", "0x1f", "1_000", "1e3", ".inf", "~", "null", "2027-01-31", "a: b", "# no"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)
DOCUMENTS = st.fixed_dictionaries(
    {"rules": st.lists(st.dictionaries(st.sampled_from(["id", "effect", "match", "when"]), VALUES), max_size=3)},
    optional={"v": SCALARS, "default": VALUES},
)


@settings(max_examples=25)
@example(before={"rules": []}, after={"rules": [{"id": {"\x85": None}}]}, comment="")
@given(before=DOCUMENTS, after=DOCUMENTS, comment=st.sampled_from(["", "# first\n", "\n\n# first\n\n"]))
def test_the_text_always_says_what_the_document_says(before: Any, after: Any, comment: str) -> None:
    try:
        earlier, expected = comment + write_yaml(before), digest(after)
        document_of(write_yaml(after))
    except (NotYaml, NotCanonical):
        return
    assert digest(document_of(write_with_comments(after, earlier))) == expected


@pytest.mark.django_db
def test_comments_go_with_the_draft_the_version_its_export_and_its_copy(client: Client, a_person: Any) -> None:
    policy_draft.ensure_first_version()
    client.force_login(a_person("admin"))
    based_on = client.get("/policy/draft/text/").context["based_on"]
    crlf = TEXT.replace("\n", "\r\n")
    client.post("/policy/draft/text/", {"text": crlf, "based_on": based_on, "what": "save"})
    assert policy_store.load_draft_text() == TEXT
    assert "# Reading is harmless." in client.get("/policy/draft/text/").content.decode()
    policy_draft.set_rule_enabled("look", False, author="ann")
    page = client.get("/policy/draft/text/").content.decode()
    assert "# Reading is harmless." in page and "enabled: false" in page
    version = policy_store.activate(policy_draft.load_draft(), author="ann")
    exported = client.get(f"/policy/export/?version={version.number}&as=yaml").content.decode()
    assert "# until the release is out" in exported and document_of(exported) == policy_store.load_document(version)
    client.post("/policy/packs/watch/")
    assert "#" not in client.get("/policy/draft/text/").content.decode().split("<textarea", 1)[1].split("</textarea")[0]
    client.post(f"/policy/versions/{version.number}/copy/")
    assert "# Our policy." in client.get("/policy/draft/text/").content.decode()
    assert PolicyVersion.objects.get(number=1).text == ""
