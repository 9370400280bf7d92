"""What is hidden, what is not, and that hiding is quick and final."""

from __future__ import annotations

# ruff: noqa: E501 - tables
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.core.calls.card import Card, CardApproval, CardError, CardTool
from toolcards.core.redaction.redactor import Redactor, StreamRedactor
from toolcards.core.text.text_rope import Rope

HIDE = Redactor(b"a key of the tests")
S = "Zx9vK3qLm7"  # the planted secret
LONG = "aB3dE5gH7jK9" * 4

TEXTS = [
    f"PASSWORD={S}",
    f"export DB_PASS='{S} with blanks' && ls",
    f'PASSWORD=ab"{S}" ls',
    f"MYSQL_PWD={S} mysql",
    f'{{"password": "{S}", "a": 1}}',
    json.dumps(json.dumps({"password": S})),
    json.dumps(json.dumps(json.dumps({"password": S}))),
    json.dumps({"cmd": f"curl -H 'Authorization: Bearer {S}{S}' x"}),
    f'curl -H "Authorization: Basic {S}" https://h/',
    f"Authorization: {S}",
    f"proxy-authorization: Digest {S}",
    f"Cookie: a=b; sid={S}",
    f"Set-Cookie: sid={S}; Path=/",
    f"X-Api-Key: {S}",
    f"curl -u bob:{S} https://h",
    f"curl --user bob:{S} https://h",
    f"postgres://bob:{S}@h/db",
    f"redis://:{S}@h",
    f"https://h/?access_token={S}&a=1",
    f"https://h/?a=1&sig={S}{S}",
    f"mysql -h h -p{S} db",
    f"sshpass -p {S} ssh h",
    f"docker login -u bob -p {S} h",
    f"tool --password {S} -v",
    f"tool --password={S}",
    f"tool --api-key '{S}'",
    json.dumps(["tool", "--password", S]),
    f"Server=x;Password={S};Database=d",
    f"AccountName=x;AccountKey={S}==;End",
    f"aws_secret_access_key = {S}",
    f"<password>{S}</password>",
    f"the password is {S}",
    f"invalid token: {S}{S}",
    f"first line\npassword: {S}\nlast line",
    f"log\\npassword={S}\\nnext",
    f'{{"credentials": {{"user": "{S}", "more": ["]", "{S}"]}}, "z": 2}}',
    f"-----BEGIN RSA PRIVATE KEY-----\nMII{S}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{S}",
    f"xx{S}\nabcd==\n-----END PRIVATE KEY-----",
    f"ghp_{LONG}{S}",
    f"github_pat_{LONG}{S}",
    f"glpat-{LONG}{S}",
    f"xoxb-{LONG}{S}",
    f"https://hooks.slack.com/services/T0/B0/{S}",
    f"sk_live_{LONG}{S}",
    f"sk-ant-api03-{LONG}{S}",
    f"sk-proj-{LONG}{S}",
    f"npm_{LONG}{S}",
    f"pypi-AgEIcHl{LONG}{S}",
    f"AIza{LONG}{S}",
    f"hf_{LONG}{S}",
    f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{S}",
    f"git clone https://ghp_{LONG}{S}@h/x",
    f"echo ghp_{S}",  # cut off
    f'{{"password": "{S}',  # cut off
    f"Bearer {S}{S}",
    f"Ünïcode PASSWORD={S} ö",
    f"half \ud83d PASSWORD={S}",
]


@loop_over("text", TEXTS)
def test_the_secret_is_hidden_and_hiding_again_changes_nothing(text: str) -> None:
    masked_text = HIDE.text(text)
    assert S not in masked_text
    assert "‹secret " in masked_text
    assert HIDE.text(masked_text) == masked_text


@loop_over(
    "text",
    [
        "ls -la && git status", "max_tokens: 100", "tokens used: 12345", "input_tokens=12", "next_page_token=abcdef123456",
        "SyntaxError: Unexpected token: foo", "if token == other: pass", "password: str", "password=$PASSWORD",
        "password=${PASSWORD}", "password: <password>", "PASSWORD=***", "tokenizer: gpt2", "--token-file /etc/x",
        "git push -u origin main", "docker run -u 1000:1000 x", "sk-learn", "npm_config_cache=/tmp", "a key: value",
        "the secretary wrote", "pass 3 of 4", "https://example.com:8080/a@b", "compass=north", "task-force", "",
        "token_count = 5", "password_policy: strict rules", "public_key=abcdefgh12345678", "author: bob",
    ],
)  # fmt: skip
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert HIDE.text(text) is text


@pytest.mark.parametrize(
    "value",
    [
        {"headers": [["Authorization", S]]}, {"headers": [{"name": "X-Api-Key", "value": S}]}, {"argv": ["x", "--token", S]},
        {"env": [f"PASSWORD={S}"]}, {"a": json.dumps({"b": {"password": S}})}, {"pin": 1, "passcode": 123456, "password": S},
        {f"ghp_{LONG}{S}": S}, [[[{"Cookie": S}]]], {"env": [{"key": "DB_PASSWORD", "value": S}]},
    ],
)  # fmt: skip
def test_secrets_inside_values_are_hidden(value: object) -> None:
    encoded = json.dumps(HIDE.value(value))
    assert S not in encoded
    assert "123456" not in encoded


def test_numbers_booleans_and_nothing_under_weak_names_stay() -> None:
    fields = {"token": 12, "password": None, "secret": True, "pass": 3, "cookie": ""}
    assert HIDE.value(fields) is fields


def test_masks_tell_kind_and_length_and_which_is_which() -> None:
    one, two = HIDE.text("PASSWORD=aaaaaaaa"), HIDE.text("PASSWORD=bbbbbbbb")
    assert one != two and one.startswith("PASSWORD=‹secret value 8 · ")
    assert HIDE.text(f"ghp_{LONG}").startswith("‹secret github-token 52 · ")
    assert Redactor(b"another").text("PASSWORD=aaaaaaaa") != one


def test_a_card_is_hidden_everywhere_and_is_the_same_card_without_secrets() -> None:
    plain = Card("c", input={"command": "ls"}, has_input=True)
    assert HIDE.card(plain) is plain
    text = f"PASSWORD={S}"
    card = Card(
        "c", tool=CardTool(title=text), text=Rope(text), segment=Rope(text), input={"x": text}, original_input=[text], output=text,
        output_message=text, detail={"password": S}, denied=text, error=CardError(text),
        approval=CardApproval(reason=text, request_reason=text, reply_to={"token": S}, args_sha256="f" * 64),
    )  # fmt: skip
    masked_card = HIDE.card(card)
    assert S not in repr(masked_card)
    assert masked_card.approval and masked_card.approval.args_sha256 == "f" * 64  # votes are bound to the original


def test_a_secret_in_pieces_is_hidden_in_every_piece() -> None:
    text = f"hello PASSWORD={S} and ghp_{LONG} bye"
    stream = StreamRedactor(HIDE)
    masked_text = "".join(stream.text(text[at : at + 4]) for at in range(0, len(text), 4))
    assert S[4:] not in masked_text and LONG[4:] not in masked_text
    assert masked_text.startswith("hello PASSWORD=") and masked_text.endswith(" bye")


@pytest.mark.slow
@loop_over(
    "text",
    [
        "the quick brown fox " * 10_000, "token" * 40_000, 'password"' * 22_000, "-----BEGIN PRIVATE KEY-----" * 7_000,
        "-----END PRIVATE KEY-----" * 7_000, "://a" * 50_000, '"token":{' * 22_000, 'password="\\' * 20_000, "mysql " * 33_000,
        "password=x\n" * 18_000, "eyJ" * 66_000, "\\" * 200_000, "?key=" * 40_000, "-u " * 66_000, "@" * 200_000,
        'password="' + '\\"' * 100_000, "authorization: true\n" * 10_000, "token is aaa" * 16_000, "&sig=a" * 33_000,
        "password is the" * 13_000, "-p x" * 50_000, "‹secret " * 20_000, "docker login " * 15_000,
        "xghp_" * 40_000, "xoxb-aaaa0Q~" * 17_000, ".aaaaaa" * 28_000, "aaa0Q~aa" * 25_000,
    ],
    ids=lambda text: text[:12].strip(),
)  # fmt: skip
def test_work_is_bounded_whatever_comes(text: str) -> None:
    start = time.process_time()
    HIDE.text(text)
    assert time.process_time() - start < 2


_bits = st.sampled_from(
    [
        "password", "=", ":", " ", '"', "'", "\\", '\\"', "{", "}", "[", "]", "token", S, "ghp_", LONG, "\n", "\\n", "://", "@", "Authorization", "Bearer ",
        "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "cookie", "‹secret value 7 · f6c2›", "‹", "secret", "--", "-u ", "mysql ", " -p", "é", "\ud800",
        ",", "<", ">", "&", "?key=", "eyJhbGci", "sk-", "$X", "***", "is", "`",
    ]
)  # fmt: skip
_texts = st.lists(_bits, max_size=12).map("".join)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_bits | _texts, inner, max_size=4),
    max_leaves=8,
)


@given(_texts)
def test_hiding_text_twice_changes_nothing(text: str) -> None:
    masked_text = HIDE.text(text)
    assert HIDE.text(masked_text) == masked_text


@given(_values)
def test_hiding_a_value_twice_changes_nothing(value: object) -> None:
    masked_value = HIDE.value(value)
    assert HIDE.value(masked_value) == masked_value


@given(
    st.sampled_from(TEXTS), _texts.filter(lambda text: S not in text), st.lists(st.sampled_from(["a", "b"]), max_size=4)
)
def test_a_planted_secret_does_not_survive_at_any_depth(text: str, beside: str, path: list[str]) -> None:
    value: object = text
    for step in path:
        value = {step: value, "beside": [beside]} if step == "a" else [beside, value]
    assert S not in json.dumps(HIDE.value(value))
