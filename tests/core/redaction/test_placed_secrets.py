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
    # commands
    ("password", "curl -u ann:«Zx9» h"), ("password", "curl -uann:«Zx9» h"), ("password", "curl --user=ann:«Zx9» h"),
    ("password", "curl -u 'ann:«a b»' h"), ("password", 'curl --user=ann:"«a b»" h'), ("password", 'curl -u ":«Zx9»" h'),
    ("password", "curl -u DOM\\ann:«Zx9» h"), ("password", "sshpass -p «Zx9» ssh h"), ("password", "sshpass -p'«a b»' ssh h"),
    ("password", "sshpass -p «a\\b» ssh h"),
    ("password", "docker login -u ann -p «Zx9» h"), ("password", "Podman login -p=«Zx9» h"), ("password", 'oc login -p "«a;b»" h'),
    ("password", "helm registry login h -u ann -p «Zx9»"), ("password", "mysql -p«Zx9» db"), ("password", "mysqldump -u root -p'«a b»' db"),
    ("password", "mysql -p«Zx9»;ls"), ("password", "redis-cli -h h -a «Zx9» ping"), ("password", "valkey-cli -a'«Zx9»' ping"),
    ("password", "ldapadd -D cn=x -w «Zx9» -f y"), ("password", "az login -u u -p «Zx9»"), ("password", "zip -r -P «Zx9» a b"),
    ("password", "unzip -P «Zx9» a.zip"), ("password", "7z a -p«Zx9» a"), ("password", "openssl enc -k «Zx9» -in f"),
    ("password", "openssl enc -pass pass:«Zx9» -in f"), ("password", 'openssl rsa -passin "pass:«a b»"'),
    ("password", "smbclient //h/s -U u%«Zx9»"), ("password", "smbclient //h/s -U 'u%«a b»'"), ("password", "mongodump -p «Zx9» -u a"),
    ("password", "sqlcmd -U sa -P «Zx9» -Q x"), ("password", "cqlsh -u a -p «Zx9»"),
    ("password", "echo «Zx9» | docker login --password-stdin"), ("password", "echo -n '«a b»' | sudo -S ls"),
    ("password", "printf '%s' «Zx9» | gh auth login --with-token"), ("password", "printf '%s\\n' '«Zx9»' | gh auth login --with-token"),
    ("password", "echo ann:«Zx9» | chpasswd".replace("ann:«", "«ann:")),
    ("value", "kubectl create secret generic s --from-literal=foo=«Zx9» x"), ("value", "--from-literal 'foo=«a b»' x"),
    ("value", '--from-literal=foo="«a b»" x'),
    # statements
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
    "curl -u ann h", "curl -u $U:$P h", "curl -u ann: h", "docker run -u 1000:1000 x", "docker run -p 80:80 x", "docker login --password-stdin",
    "mysql -u root -p db", "mysql -h h -P 3306", "mysql -p$PASS", "mysql http://h/ -pages", "zip -r a b", "xzip -P Zx9", "unzip -p a.zip b",
    "openssl version -a", "smbclient -L //h", "sshpass -e ssh h", "sshpass -p $PASS ssh h", "echo hello | sort", "echo $T | docker login --password-stdin",
    "echo 'a' 'b' | docker login --password-stdin", "--from-literal=foo x", "--from-literal=foo=$X",
    "identified by its name", "PASSWORD()", "redis-cli ping; ls -a x", "mysql x | grep -pattern", "chpasswd", "https://u:‹secret value 7 · f6c2›@h",
    "sshpass -p ‹secret password 3 · f6c2› ssh h", "docker login -p '‹secret password 3 · f6c2›' h", "mongod --port 27017", "sqlcmd -Q x -p 1",
)  # fmt: skip


@loop_over("text", ORDINARY)
def test_what_only_looks_like_a_place_of_a_secret_stays(text: str) -> None:
    assert mark_secrets(BEGINS, read_placed_secret, text) == (text, [])


def test_a_flag_far_behind_its_program_is_not_its_flag() -> None:
    for gap, count in ((100, 1), (140, 0)):
        assert len(mark_secrets(BEGINS, read_placed_secret, f"zip {'a' * gap} -P Zx9 b")[1]) == count


def test_a_long_word_is_not_the_name_of_a_program() -> None:
    for length, count in ((40, 1), (60, 0)):
        assert len(mark_secrets(BEGINS, read_placed_secret, f"ldap{'a' * length} -w Zx9 b")[1]) == count


def test_a_key_that_was_cut_off_begins_behind_what_was_read_before() -> None:
    hay = "AAAA\nBBBB\n-----END PRIVATE KEY-----"
    span = read_placed_secret(hay, hay.index("-----"), len(hay) - 1, 5)
    assert span is not None and (span.start, span.kind) == (5, "private-key")
