"""Masks: what a person edits gets its secrets back."""

from __future__ import annotations

from toolcards.core.redaction.masks import has_mask
from toolcards.core.redaction.redactor import Redactor

HIDE = Redactor(b"a key of the tests")
S = "Zx9vK3qLm7"  # the planted secret


def test_what_a_person_edits_gets_its_secrets_back() -> None:
    original = {"command": f"PASSWORD={S} ls", "password": S, "n": [1, {"token": S}]}
    shown = HIDE.value(original)
    edited = {**shown, "command": shown["command"] + " -la", "n": [2, shown["n"][1]]}
    assert HIDE.restore(edited, original) == {**original, "command": f"PASSWORD={S} ls -la", "n": [2, {"token": S}]}
    assert has_mask(HIDE.restore({**shown, "elsewhere": shown["password"]}, original))
