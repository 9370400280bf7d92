"""Masks: what a person edits gets its secrets back."""

from __future__ import annotations

from toolcards.core.redaction.masks import has_mask
from toolcards.core.redaction.redactor import Redactor

HIDE = Redactor(b"a key of the tests")
S = "Zx9vK3qLm7"  # the planted secret


def test_what_a_person_edits_gets_its_secrets_back() -> None:
    original = {"command": f"PASSWORD={S} ls", "password": S, "n": [1, {"token": S}]}
    masked_value = HIDE.value(original)
    edited = {**masked_value, "command": masked_value["command"] + " -la", "n": [2, masked_value["n"][1]]}
    assert HIDE.restore(edited, original) == {**original, "command": f"PASSWORD={S} ls -la", "n": [2, {"token": S}]}
    assert has_mask(HIDE.restore({**masked_value, "elsewhere": masked_value["password"]}, original))
