"""The forms of the policy pages: documents as JSON or YAML, arguments of a tried call, and what is active."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from dashboard.policy.forms import EFFECTS, ActivateForm, DefaultForm, ImportForm, SimulationForm, TryForm
from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect

DOCUMENT = {"v": 1, "default": "ask", "rules": []}
JSON_TEXT, YAML_TEXT = '{"v": 1, "default": "ask", "rules": []}', "v: 1\ndefault: ask  # a note\nrules: []\n"


def upload(content: bytes) -> ImportForm:
    return ImportForm({}, {"file": SimpleUploadedFile("policy.yaml", content)})


@pytest.mark.parametrize(("text", "kept_text"), [
    (JSON_TEXT, ""), (f" \n{JSON_TEXT}", ""), (YAML_TEXT, YAML_TEXT), (f"---\n{YAML_TEXT}", f"---\n{YAML_TEXT}"),
])  # fmt: skip
def test_a_document_is_read_from_a_file_and_from_text_and_yaml_keeps_its_text(text: str, kept_text: str) -> None:
    for form in (ImportForm({"document": text}), upload(text.encode()), upload(b"\xef\xbb\xbf" + text.encode())):
        assert form.is_valid(), form.errors
        assert form.cleaned_data["read"] == DOCUMENT
        assert form.cleaned_data["text"].strip() == kept_text.strip()


def test_a_file_comes_before_text() -> None:
    form = ImportForm({"document": "v: 2"}, {"file": SimpleUploadedFile("policy.json", JSON_TEXT.encode())})
    assert form.is_valid() and form.cleaned_data["read"] == DOCUMENT


@loop_over(("content", "words"), [
    (b" \n", "Choose a file or paste a document"), (b"\xef\xbb\xbf", "Choose a file or paste a document"),
    (b"\xff\xfe{\x00", "This file is not UTF-8 text"), (b'{"v": 1,}', "This is not JSON"), (b'{"v": NaN}', "NaN"),
    (b'{"v": 1, "v": 2}', "duplicate key"), (b"v: 1\nrules: [", "Line 3"), (b"v: 1\nv: 2\n", "Line 2"),
    (b"a: &x 1\nb: *x\n", "Line 1"), (b"v: \x00", "Line 1"), (b'{"a":' * 100_000, "nested too deeply"),
])  # fmt: skip
def test_a_file_that_is_no_document_is_refused_with_its_place(content: bytes, words: str) -> None:
    assert words in str(upload(content).errors["__all__"])


def test_nothing_is_no_document() -> None:
    assert "Choose a file" in str(ImportForm({}).errors) and "Choose a file" in str(
        ImportForm({"document": " "}).errors
    )


@loop_over(("text", "args"), [
    ("", {}), (" \n", {}), ("{}", {}), ('{"command": "git push"}', {"command": "git push"}), ("[1]", [1]),
    ("null", None), ('"text"', "text"), ("7", 7),
])  # fmt: skip
def test_the_arguments_of_a_tried_call_are_any_json_and_none_are_an_object(text: str, args: Any) -> None:
    form = TryForm({"tool": "Bash", "args": text, "agent": "main, reviewer"})
    assert form.is_valid(), form.errors
    assert form.cleaned_data["args"] == args and form.cleaned_data["agent"] == ["main", "reviewer"]


@loop_over(("change", "field"), [({"args": "{"}, "args"), ({"tool": ""}, "tool"), ({"tool": "x" * 301}, "tool")])
def test_a_call_that_cannot_be_tried_is_refused(change: dict[str, str], field: str) -> None:
    assert set(TryForm({"tool": "Bash", "args": "{}"} | change).errors) == {field}


def test_the_first_form_of_a_tried_call_is_a_valid_one() -> None:
    fields = TryForm().fields
    form = TryForm({name: field.initial for name, field in fields.items() if field.initial is not None})
    assert form.is_valid() and form.cleaned_data["args"] == {"command": "git push"}


@loop_over(("active", "is_valid"), [("0", True), ("7", True), ("-1", False), ("", False), ("x", False), ("1.5", False)])
def test_activating_names_the_version_that_was_compared(active: str, is_valid: bool) -> None:
    assert ActivateForm({"expected_active": active}).is_valid() is is_valid


def test_a_note_and_a_digest_have_their_limits() -> None:
    fields = {"expected_active": "1", "note": "x" * 2001, "draft_sha256": "a" * 65}
    assert set(ActivateForm(fields).errors) == {"note", "draft_sha256"}
    form = ActivateForm({"expected_active": "1", "apply_to_waiting": "on"})
    assert form.is_valid() and form.cleaned_data["apply_to_waiting"] and not form.cleaned_data["note"]


def test_every_effect_can_be_the_default_and_nothing_else() -> None:
    assert {value for value, _ in EFFECTS} == set(map(str, Effect))
    assert all(DefaultForm({"default": value}).is_valid() for value, _ in EFFECTS)
    assert not DefaultForm({"default": "maybe"}).is_valid() and not DefaultForm({}).is_valid()


def test_a_simulation_has_a_choice_of_calls_and_days() -> None:
    fields = SimulationForm().fields
    assert SimulationForm({name: field.initial for name, field in fields.items() if field.initial}).is_valid()
    assert SimulationForm({"calls": "100000", "days": "0"}).is_valid()
    assert set(SimulationForm({"calls": "7", "days": "-1"}).errors) == {"calls", "days"}
