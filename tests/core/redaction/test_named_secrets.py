"""Values of sensitive names: exactly the value is found in every notation, and nothing where no value is."""

# ruff: noqa: E501 - tables

from __future__ import annotations

from tests.support.secret_spans import mark_secrets, unmark
from tests.support.tables import loop_over
from toolcards.core.redaction.named_secrets import BEGINS, read_named_secret

S = "Zx9vK3qLm7"
SECRETS = [
    # notations
    "password=«Zx9» and more", "PASSWORD: '«a b»' x", "password = «Zx9», then", "password: «Zx9».\n", "pw=«Zx9» x", "my.api_key = «abc» x",
    'password := "«x y»" x', "password => '«x»' x", "API-KEY: «abc»\n", "<password>«Zx9»</password>", "\\npassword=«abc» x", "xpassword=«abc» x",
    "password=b'«abc»' x", "password=«é» ü", "password=«abc»;b", "password=«abc»&b", "password=«a\\b» x", 'password="«abc»',
    "password=\n«abc» x", "password=«{a;b}»;x", "PGPASSWORD=«abc» psql", "export X_TOKEN=\"«abc»\"\n",
    "<db:password>\n«a b»\n</db:password>", "<a.token>«abc»</a.token>", "<password>«abc»",
    # JSON, once and twice, and objects
    '{"password": "«a\\"b»", "x": 1}', '{\\"password\\": \\"«abc»\\", \\"x\\": 1}', '{"a.token": "«abc»"}', "'api_key': «['a', 'b']», 'x'",
    '"tokens": «{"a": "}"}», "c": 1', '"password": «{"a": [1, {"b": 2}]}» x',
    # headers go to the end of the line
    "Authorization: Bearer «Zx9» x\n".replace("«Zx9» x", "«Zx9 x»"), "Cookie: «a=b; c=d»\nHost: x", "authorization: Basic «abc»\n",
    'authorization: Digest «username="u", response="Zx9"» x', '"Set-Cookie", "«a=b»" x',
    # flags and lists
    "-storepass «Zx9» x", "--ks-pass pass:«Zx9» x", "--ks-pass 'pass:«a b»' x", "--password «Zx9» --x", "--token=«Zx9» x", "-password «Zx9» x", '["--token", "«abc»"]', 'name="password"\r\n\r\n«Zx9»\r\n--x',
    # prose needs a random value
    f"the password is «{S}», he said", f"auth «{S}» now", "the password is «aB3dE5g8», he said", f"token was «{S}» then", 'token "«abc»", "def"',
    # pairs of a name and a value
    '{"name": "API_TOKEN", "value": "«Zx9»"} x', '{"value": "«Zx9»", "name": "API_TOKEN"}', "- name: API_TOKEN\n  value: «Zx9»\n- name: b\n  value: c",
    '{"key": "password", "x": 1, "val": "«Zx9»"} x', '{\\"name\\": \\"TOKEN\\", \\"value\\": \\"«abc»\\"} x', '<add key="Password" value="«abc»"/>',
]  # fmt: skip


@loop_over("text", SECRETS)
def test_exactly_the_value_is_found(text: str) -> None:
    assert mark_secrets(BEGINS, read_named_secret, unmark(text)) == (text, ["value"])


def test_a_value_with_the_form_of_a_token_has_its_kind() -> None:
    token = "sk_live_aB3dE5gH7jK9aB3dE5gH7jK9"
    assert mark_secrets(BEGINS, read_named_secret, f"token={token} x") == (f"token=«{token}» x", ["stripe-key"])


ORDINARY = (
    "the password is wrong, he said", "the password is aB3dE5g, he said", "password is the thing to know", "password=${PASS} x", "password=$PASS; ls -la", "password=<your password> x",
    "password=*** x", "password=none x", "f'password={password}' x", "password={pw};x", "token: 12 of them".replace("12 of", "str of"),
    "token_count=5 x", "max_tokens=5 x", "password=", "password: , x", 'password="" x', "password='' x", "password != x", "path=/usr x",
    "pass the salt", "pass over it", "--with-token x", "--ks-pass env:X y", "--ks-pass 'file:/x' y", "-storepass:env X y", "-keypass:file x y", "--password-command 'cat x' y", "--ks-pass pass:‹secret value 7 · f6c2› x", "--no-password x", "--ask-password --x", "password\n\nhunter2 x", "author: bob x",
    '{"name": "token", "value": 12} {"a": 1}'.replace(', "value": 12', ""), '{"name":"API_TOKEN"},{"value":"c"}', '{"name": "ann", "value": "c"} x',
    "password=‹secret value 7 · f6c2› x", '"password": "‹secret value 7 · f6c2›" x', "if token == 'COLLATE': x", '"token", "next"', '["username", "password", "email"]',
    "token = next(tokens) x", "cat token > x; y", "cat <password> x; y < z", "<password></password>", "<password> </password>", "token => ", "public_key=abc x", "the token endpoint x",
)  # fmt: skip


@loop_over("text", ORDINARY)
def test_a_name_without_a_value_hides_nothing(text: str) -> None:
    assert mark_secrets(BEGINS, read_named_secret, text) == (text, [])


@loop_over("text", ["password=«$PASS»", "<password>«a b»", "the password is «wrong»", "token: «12»", "secret=«xxx»"])
def test_the_next_piece_of_a_text_decides_about_a_value_at_its_end(text: str) -> None:
    assert mark_secrets(BEGINS, read_named_secret, unmark(text)) == (text, ["undecided"])


def test_a_name_is_read_back_to_what_was_read_before() -> None:
    hay = "public_key=abc x"
    start = hay.index("key")
    assert isinstance(read_named_secret(hay, start, start + 4, 0), int)
    for before, is_secret in (("my_private_", True), ("my public_", False)):
        hay = f"{before}key=abc x"
        span = read_named_secret(hay, len(before) - 8 if is_secret else len(before), len(hay), 0)
        assert isinstance(span, tuple) is is_secret


def test_the_value_of_a_pair_is_searched_nearby_only() -> None:
    for gap, count in ((500, 1), (700, 0)):
        text = f'{{"name": "API_TOKEN", "x": "{"-" * gap}", "value": "Zx9"}} x'
        assert len(mark_secrets(BEGINS, read_named_secret, text)[1]) == count
