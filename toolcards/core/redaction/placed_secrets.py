"""Secrets at known places: PEM and similar keys, URLs, commands, SQL, keys in JSON.

One pattern finds the beginnings; one small reader for each kind reads the secret in a window of bounded size.
"""

from __future__ import annotations

import re
from functools import lru_cache

from toolcards.core.redaction import command_secrets
from toolcards.core.redaction.command_secrets import Reader
from toolcards.core.redaction.spans import MASK, NO_VALUE, SecretSpan, looks_random
from toolcards.core.redaction.token_patterns import PEM

_A, _AI = re.ASCII, re.ASCII | re.IGNORECASE
_DATABASES = (
    r"postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|valkeys?|amqps?|mssql|sqlserver|clickhouse|nats|kafka|"
    r"ldaps?"
)
_JWK = r"[\"'](?:d|dp|dq|qi|p|q|k)\\*[\"'][ \t]*:[ \t]*\\*[\"'][A-Za-z0-9_\-]{16}"
_SQL = r"(?:identified[ \t]+(?:with[ \t]+\w+[ \t]+)?by|password[ \t]*\(|convertto-securestring[ \t])"
BEGINS = (
    rf"{PEM}|Private-Lines:|://[^\s/\"'<>\\]+@|(?i:(?:{_DATABASES})://[^\s:/@\"'<>\\]{{0,60}}:[^\s@\"'<>\\]{{1,200}}@)|"
    r"(?i:jdbc:oracle:\w+:|\bsqlplus )|[?&](?i:sig|signature|key|code|x-amz-signature)=|"
    rf"{command_secrets.BEGINS}|(?i:{_SQL})|{_JWK}"
)

_USERINFO = re.compile(r"://([^\s/:\"'<>\\]*)(:?)([^\s/\"'<>\\]+)@", _A)
_DATABASE = re.compile(rf"(?:{_DATABASES})://[^\s:/@\"'<>\\]{{0,60}}:([^\s\"'<>\\]{{1,400}})@", _AI)
_ORACLE = re.compile(r"(?:jdbc:oracle:\w+:|sqlplus (?:-\w+ )*)[\w$#.\-]+/([^\s/\"'@<>\\]+)@", _AI)
_QUERY = re.compile(r"[?&][\w\-]+=([^\s&?#\"'<>\\]{1,2048})", _A)
_PASSWORD_OF_USER = re.compile(
    r"(?:identified[ \t]+(?:with[ \t]+\w+[ \t]+)?by|password[ \t]*\()[ \t]*\\*([\"'])([^\"'\s]+)", _AI
)
_SECURE = re.compile(r"convertto-securestring[ \t]+(?:-string[ \t]+)?\\*([\"'])([^\"'\r\n]+)", _AI)
_MEMBER = re.compile(r"[\"']\w+\\*[\"'][ \t]*:[ \t]*\\*[\"']([A-Za-z0-9_\-]+)", _A)
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\ \r\n"
_OBJECT = 4_096  # characters around a member that are searched for the type of the object


def read_placed_secret(hay: str, start: int, end: int, floor: int) -> SecretSpan | None:
    """Return the secret that begins at this position, or None.

    `end`: where the match of BEGINS ends.
    """
    if hay[start] == "-" and (span := _read_armored_key(hay, start, end, floor)):
        return span
    for reader in _list_readers(hay[start : start + _BEGINNING]):
        if span := reader(hay, start):
            return span
    return command_secrets.read_command_secret(hay, start, end, floor)


@lru_cache(maxsize=4_096)
def _list_readers(beginning: str) -> tuple[Reader, ...]:
    """Return the readers of secrets that can begin with this text."""
    text = beginning.lower()
    readers = _READERS.get(text[:1], ())
    return tuple(reader for reader in readers if text.startswith(_WORDS.get(reader, "")))


# ---------------------------------------------------------------- keys


def _read_armored_key(hay: str, start: int, end: int, floor: int) -> SecretSpan | None:
    sign = hay.find("BEGIN ", start, end)
    if sign >= 0:
        tail = hay.find("END ", end)
        close = hay.find("----", tail + 4) if tail >= 0 else -1
        while 0 <= close < len(hay) and hay[close] == "-":
            close += 1
        return SecretSpan(start, close if close >= 0 else len(hay), "private-key")
    if hay.find("END ", start, end) >= 0:  # the beginning was cut off
        body = hay[floor:start]
        return SecretSpan(floor + len(body.rstrip(_BASE64)), end, "private-key")
    return None


def _read_putty_key(hay: str, start: int) -> SecretSpan | None:
    if not hay.startswith("Private-Lines:", start):
        return None
    close = hay.find("Private-MAC:", start)
    return SecretSpan(start + len("Private-Lines:"), close if close >= 0 else len(hay), "private-key")


def _read_jwk_member(hay: str, start: int) -> SecretSpan | None:
    """Return the private member of a JSON Web Key.

    Its object has a `kty`, or the member is `d` with a long random value.
    """
    match = _MEMBER.match(hay, start)
    if not match:
        return None
    first, last = hay.rfind("{", max(0, start - _OBJECT), start), hay.find("}", match.end(), match.end() + _OBJECT)
    around = hay[max(first, start - _OBJECT, 0) : last if last >= 0 else match.end() + _OBJECT]
    is_private_key = hay[start + 1] == "d" and len(match.group(1)) >= 40 and looks_random(match.group(1))
    return SecretSpan(*match.span(1), "private-key") if "kty" in around or is_private_key else None


# ---------------------------------------------------------------- URLs


def _read_userinfo(hay: str, start: int) -> SecretSpan | None:
    match = _USERINFO.match(hay, start)
    if not match or MASK.match(hay, match.start(3)):
        return None
    if match.group(2):
        return SecretSpan(*match.span(3), "url-password") if not NO_VALUE.fullmatch(match.group(3)) else None
    alone = hay[match.start(1) : match.end(3)]
    return (
        SecretSpan(match.start(1), match.end(3), "url-password") if len(alone) >= 16 and looks_random(alone) else None
    )


def _read_query_value(hay: str, start: int) -> SecretSpan | None:
    match = _QUERY.match(hay, start)
    return (
        SecretSpan(*match.span(1), "value")
        if match and len(match.group(1)) >= 8 and looks_random(match.group(1))
        else None
    )


def _make_group_reader(pattern: re.Pattern[str], number: int, kind: str) -> Reader:
    """Return a reader of one group of the pattern."""

    def reader(hay: str, start: int) -> SecretSpan | None:
        match = pattern.match(hay, start)
        if not match or NO_VALUE.fullmatch(match.group(number)) or MASK.match(hay, match.start(number)):
            return None
        return SecretSpan(*match.span(number), kind)

    return reader


# ---------------------------------------------------------------- statements

_database, _oracle = _make_group_reader(_DATABASE, 1, "url-password"), _make_group_reader(_ORACLE, 1, "password")
_password_of_user = _make_group_reader(_PASSWORD_OF_USER, 2, "password")
_secure = _make_group_reader(_SECURE, 2, "password")
_READERS: dict[str, tuple[Reader, ...]] = {
    ":": (_read_userinfo,),
    "'": (_read_jwk_member,),
    '"': (_read_jwk_member,),
    "?": (_read_query_value,),
    "&": (_read_query_value,),
    "p": (_read_putty_key, _database, _password_of_user),
    "m": (_database,),
    "j": (_oracle,),
    "s": (_oracle, _database),
    "i": (_password_of_user,),
    "c": (_database, _secure),
} | dict.fromkeys("avrzlnko7", (_database,))
_BEGINNING = 9  # characters, as many as the longest of these words
# How the text of some readers begins, in small letters, up to where spellings differ; the others read any text.
_WORDS: dict[Reader, str | tuple[str, ...]] = {
    _read_putty_key: "private-l",
    _database: (
        "postgres", "mysql", "mariadb", "mongodb", "redis", "valkey", "amqp", "mssql", "sqlserver", "clickhous", "nats",
        "kafka", "ldap",
    ),
    _password_of_user: ("identifie", "password"), _oracle: ("jdbc:orac", "sqlplus "), _secure: "convertto",
}  # fmt: skip
