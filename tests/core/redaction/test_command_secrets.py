"""Secrets in commands: exactly the secret is found, and no other argument and no command is hidden."""

# ruff: noqa: E501 - tables

from __future__ import annotations

import json

from tests.support.secret_spans import mark_secrets, unmark
from tests.support.tables import loop_over
from toolcards.core.redaction.command_secrets import BEGINS, read_command_secret

SECRETS = [
    # flags
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
    ("password", "ldapsearch -D cn=a -w«Zx9» -b x"), ("password", "smbclient //h/s --user=u%«Zx9»"), ("password", "useradd -m -p «Zx9» ann"),
    ("password", "usermod -p '«$6$a$Zx9/»' ann"), ("password", "lftp -u ann,«Zx9» ftp://h"), ("password", 'lftp -e "open -u ann,«Zx9» h"'),
    ("password", 'lftp -u "ann,«a b»" h'), ("password", "influx query -t «Zx9» x"), ("password", "doctl auth init -t «Zx9»"),
    ("password", "twine upload -u a -p «Zx9» dist/*"), ("password", "openssl pkcs12 -password pass:«Zx9» -export"),
    # at their places
    ("password", "htpasswd -b /etc/x ann «Zx9»; ls"), ("password", "htpasswd -cbB .htpasswd ann «Zx9»"), ("password", "htpasswd -B -C 10 -b f ann '«a b»'"),
    ("password", "htpasswd -nb ann «Zx9» > f"), ("password", "htpasswd -n -b ann «Zx9»"), ("password", "htpasswd -bn 'ann b' «Zx9»"),
    ("password", "vault login «Zx9vK3qLm7»"), ("password", "vault login -no-print -method=token «Zx9vK3qLm7»"),
    ("password", "vault login -method token '«Zx9vK3qLm7»'"), ("password", "rabbitmqctl add_user ann «Zx9»"),
    ("password", "rabbitmqctl -n r@h change_password 'ann' '«a b»'"), ("password", "smbclient //h/s «Zx9» -U u"), ("password", "smbclient '//h/s' «Zx9»"),
    ("password", "npm config set //h/:_authToken «Zx9»"), ("password", "npm set '//h/:_password' '«Zx9»'"), ("password", "yarn config set npmAuthToken «Zx9» -H"),
    ("password", "aws configure set profile.x.aws_secret_access_key «Zx9» --region y"),
    # from the input
    ("password", "gh auth login --with-token <<< «Zx9»"), ("password", "docker login -u a --password-stdin <<<'«a b»'"), ("password", "chpasswd <<< \"«ann:Zx9»\""),
    ("password", "restic --password-command 'echo «Zx9»' backup"), ("password", "RESTIC_PASSWORD_COMMAND=\"printf %s '«a b»'\" restic"),
]  # fmt: skip


@loop_over(("kind", "text"), SECRETS)
def test_exactly_the_secret_is_found_with_its_kind(kind: str, text: str) -> None:
    assert mark_secrets(BEGINS, read_command_secret, unmark(text)) == (text, [kind])


@loop_over("text", [text for _, text in SECRETS])
def test_a_secret_in_json_text_is_found_too(text: str) -> None:
    secret = text.partition("«")[2].partition("»")[0]
    result, _ = mark_secrets(BEGINS, read_command_secret, json.dumps({"a": unmark(text)}))
    assert f"«{json.dumps(secret)[1:-1]}" in result and secret not in result.partition("«")[0]


def test_each_password_of_openssl_is_found() -> None:
    text = "openssl pkcs12 -passin pass:«Zx9» -passout 'pass:«a b»'"
    assert mark_secrets(BEGINS, read_command_secret, unmark(text)) == (text, ["password"] * 2)


ORDINARY = (
    "curl -u ann h", "curl -u $U:$P h", "curl -u ann: h", "docker run -u 1000:1000 x", "docker run -p 80:80 x", "docker login --password-stdin",
    "mysql -u root -p db", "mysql -h h -P 3306", "mysql -p$PASS", "mysql http://h/ -pages", "zip -r a b", "xzip -P Zx9", "unzip -p a.zip b",
    "openssl version -a", "smbclient -L //h", "sshpass -e ssh h", "sshpass -p $PASS ssh h", "echo hello | sort", "echo $T | docker login --password-stdin",
    "echo 'a' 'b' | docker login --password-stdin", "--from-literal=foo x", "--from-literal=foo=$X",
    "redis-cli ping; ls -a x", "mysql x | grep -pattern", "chpasswd",
    "sshpass -p ‹secret password 3 · f6c2› ssh h", "docker login -p '‹secret password 3 · f6c2›' h", "mongod --port 27017", "sqlcmd -Q x -p 1",
    "htpasswd -c f ann", "htpasswd -b f ann", "htpasswd -nb ann", "htpasswd -n ann; x Zx9", "htpasswd -vb f $U $P; rm -rf ~", "htpasswd -D f ann x", "htpasswd -B f ann x", "htpasswd f a b",
    "htpasswd -b f ann < x", "htpasswd -b f ann; rm -rf ~", "vault login", "vault login -", "vault login first\nx", "vault login -method=oidc role=Zx9vK3qLm7", "vault login -method github; rm -rf Zx9",
    "vault login -path Zx9vK3qLm7 -no-print", "vault login > x", "the page of vault login is there", "rabbitmqctl list_users", "rabbitmqctl add_user ann", "rabbitmqctl delete_user ann Zx9",
    "smbclient //h/s -N", "smbclient //h/s; rm -rf x", "smbclient //h/s -c 'ls'", "useradd -m ann; mkdir -p Zx9", "usermod -aG docker ann", "lftp -u ann h", "lftp ftp://h; x -u a,b",
    "restic -p /etc/key backup", "restic --password-command 'pass show x' backup", "RESTIC_PASSWORD_COMMAND='cat f' restic", "influx -database x", "influx write -b x -f y",
    "npm config set registry https://h", "npm config set //h/:_authToken $T", "npm config get //h/:_authToken", "aws configure set region eu-west-1", "aws configure get aws_secret_access_key",
    "cat <<< Zx9", "cat <<< Zx9 | docker login --password-stdin", "gh auth login --with-token < f", "gh auth login --with-token; cat <<< Zx9", "openssl rsa -passin env:X", "openssl rsa -passin file:x",
    "git diff <<<<<<< HEAD",
)  # fmt: skip


@loop_over("text", ORDINARY)
def test_what_only_looks_like_a_secret_of_a_command_stays(text: str) -> None:
    assert mark_secrets(BEGINS, read_command_secret, text) == (text, [])


@loop_over(
    "begin",
    ["sshpass -p ", "docker login -p ", "curl -u ann:", "htpasswd -nb ann ", "npm set _auth ", "passwd --stdin <<< "],
)
def test_the_next_line_in_json_text_is_not_part_of_a_secret(begin: str) -> None:
    text = json.dumps({"command": f"{begin}Zx9\nrm -rf ~"})
    result, kinds = mark_secrets(BEGINS, read_command_secret, text)
    assert "«Zx9»\\nrm -rf ~" in result and len(kinds) == 1


@loop_over("text", ["vault login «first»", "vault login «s»"])
def test_the_next_piece_of_a_text_decides_about_a_word_at_its_end(text: str) -> None:
    assert mark_secrets(BEGINS, read_command_secret, unmark(text)) == (text, ["undecided"])


def test_a_flag_far_behind_its_program_is_not_its_flag() -> None:
    for gap, count in ((100, 1), (140, 0)):
        assert len(mark_secrets(BEGINS, read_command_secret, f"zip {'a' * gap} -P Zx9 b")[1]) == count


def test_a_long_word_is_not_the_name_of_a_program() -> None:
    for length, count in ((40, 1), (60, 0)):
        assert len(mark_secrets(BEGINS, read_command_secret, f"ldap{'a' * length} -w Zx9 b")[1]) == count
