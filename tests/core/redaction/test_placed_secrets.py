"""Secrets at known places: exactly the secret is found, with its kind, and nothing where only a name is."""

# ruff: noqa: E501 - tables

from __future__ import annotations

import json

from tests.support.secret_spans import mark_secrets, unmark
from tests.support.tables import loop_over
from toolcards.core.redaction.placed_secrets import BEGINS, read_placed_secret

D = "Zx9vK3qLm7" * 2
SECRETS = [
    # keys
    ("private-key", "a «-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----» b"),
    ("private-key", "a «-----BEGIN RSA PRIVATE KEY-----\nMIIE is cut off"),
    ("private-key", "is here:«\nMIIEvQ==\n-----END PRIVATE KEY----»-\nb"),
    ("private-key", "«---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nx\n---- END SSH2 ENCRYPTED PRIVATE KEY ----» b"),
    ("private-key", "Private-Lines:« 1\nAAAA\n»Private-MAC: 01"), ("private-key", "Private-Lines:« 1\nAAAA"),
    ("private-key", f'{{"kty":"EC","d":"«{D}»"}}'), ("private-key", f"{{'k': '«{D}»', 'kty': 'oct'}}"),
    ("private-key", f'{{"d":"«{D}{D}»"}}'),
    # URLs
    ("url-password", "https://ann:«Zx9»@h/x"), ("url-password", "https://ann:«a:b»@h"), ("url-password", "https://«Zx9vK3qLm7aB3dE5»@h"),
    ("url-password", "postgres://u:«Zx9/a»@h/db"), ("url-password", "redis://:«Zx9»@h"), ("url-password", "postgres://u:«a@b»@h/db"),
    ("value", "/x?sig=«Zx9vK3qLm7»&se=1"), ("value", "/x&code=«Zx9vK3qLm7»#a"),
    ("password", "jdbc:oracle:thin:scott/«Zx9»@h"), ("password", "sqlplus -s scott/«Zx9»@db"),
    # commands, which have a module of their own, and statements
    ("password", "zip -r -P «Zx9» a b"),
    ("password", "CREATE USER x IDENTIFIED BY '«Zx9»'"), ("password", 'identified with caching_sha2_password by "«Zx9»" x'),
    ("password", "SET PASSWORD('«Zx9»')"), ("password", "ConvertTo-SecureString -String '«a b»' -AsPlainText"),
]  # fmt: skip


def close_marks(text: str) -> str:
    return text if text.count("«") == text.count("»") else f"{text}»"


@loop_over(("kind", "text"), SECRETS)
def test_exactly_the_secret_is_found_with_its_kind(kind: str, text: str) -> None:
    assert mark_secrets(BEGINS, read_placed_secret, unmark(text)) == (close_marks(text), [kind])


@loop_over("text", [text for _, text in SECRETS if "\n" not in text])
def test_a_secret_in_json_text_is_found_too(text: str) -> None:
    secret = close_marks(text).partition("«")[2].partition("»")[0]
    result, _ = mark_secrets(BEGINS, read_placed_secret, json.dumps({"a": unmark(text)}))
    assert f"«{json.dumps(secret)[1:-1]}" in result and secret not in result.partition("«")[0]


ORDINARY = (
    "-----BEGIN CERTIFICATE-----\nx", "-----BEGIN PUBLIC KEY-----", f'{{"d":"{D}"}}', '{"d": "2026"}', f'{{"a":{{"d":"{D}"}},"kty":"x"}}',
    "https://h/a@b", "https://ann@h", "https://u:$PASS@h/x", "https://u:<password>@h", "/x?key=short", "/x?key=longbutplainwordsxx",
    "identified by its name", "PASSWORD()", "https://u:‹secret value 7 · f6c2›@h", "jdbc:oracle:thin:scott@h", "sqlplus /nolog",
)  # fmt: skip


@loop_over("text", ORDINARY)
def test_what_only_looks_like_a_place_of_a_secret_stays(text: str) -> None:
    assert mark_secrets(BEGINS, read_placed_secret, text) == (text, [])


def test_a_key_that_was_cut_off_begins_behind_what_was_read_before() -> None:
    hay = "AAAA\nBBBB\n-----END PRIVATE KEY-----"
    span = read_placed_secret(hay, hay.index("-----"), len(hay) - 1, 5)
    assert span is not None and (span.start, span.kind) == (5, "private-key")
