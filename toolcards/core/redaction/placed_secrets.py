"""Secrets at known places: PEM and similar keys, URLs, flags of commands, SQL, keys in JSON.

One pattern finds the beginnings; one small reader for each kind reads the secret in a window of bounded size.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from toolcards.core.redaction.spans import MASK, NO_VALUE, SecretSpan, looks_random
from toolcards.core.redaction.token_patterns import PEM

_A, _AI = re.ASCII, re.ASCII | re.IGNORECASE
_DATABASES = (
    r"postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|valkeys?|amqps?|mssql|sqlserver|clickhouse|nats|kafka|"
    r"ldaps?"
)
_JWK = r"[\"'](?:d|dp|dq|qi|p|q|k)\\*[\"'][ \t]*:[ \t]*\\*[\"'][A-Za-z0-9_\-]{16}"
_SQL = r"(?:identified[ \t]+(?:with[ \t]+\w+[ \t]+)?by|password[ \t]*\(|convertto-securestring[ \t]|--from-literal[ =])"
_REGISTRIES = r"(?:docker|podman|nerdctl|buildah|skopeo|oras|oc|helm registry) login"
_MONGO = r"mongo(?:sh|dump|restore|import|export)?"
BEGINS = (
    rf"{PEM}|Private-Lines:|://[^\s/\"'<>\\]+@|(?i:(?:{_DATABASES})://[^\s:/@\"'<>\\]{{0,60}}:[^\s@\"'<>\\]{{1,200}}@)|"
    r"(?i:jdbc:oracle:\w+:|\bsqlplus )|[?&](?i:sig|signature|key|code|x-amz-signature)=|"
    r"(?i:[ '\"](?:-u|--user)(?:[ =]|[A-Za-z\"'\\])|sshpass -p|\b(?:mysql|mysqldump|mysqladmin|mariadb) |"
    rf"\b(?:redis-cli|valkey-cli|ldap\w+|smbclient|az login|(?:un)?zip|7za?|openssl|{_REGISTRIES}|{_MONGO}|sqlcmd|"
    r"cqlsh|echo|printf) )|"
    rf"(?i:{_SQL})|{_JWK}"
)

_USERINFO = re.compile(r"://([^\s/:\"'<>\\]*)(:?)([^\s/\"'<>\\]+)@", _A)
_DATABASE = re.compile(rf"(?:{_DATABASES})://[^\s:/@\"'<>\\]{{0,60}}:([^\s\"'<>\\]{{1,400}})@", _AI)
_ORACLE = re.compile(r"(?:jdbc:oracle:\w+:|sqlplus (?:-\w+ )*)[\w$#.\-]+/([^\s/\"'@<>\\]+)@", _AI)
_QUERY = re.compile(r"[?&][\w\-]+=([^\s&?#\"'<>\\]{1,2048})", _A)
_PROGRAMS = (  # a program, the flag before its password, and what comes before the password in the same argument
    (r"(?:redis|valkey)-cli", r"-a[ =]*", ""),
    (r"ldap\w+", r"-w[ =]+", ""),
    (r"az login", r"-p[ =]+", ""),
    (r"(?:un)?zip", r"-P[ ]*", ""),
    (r"7za?", r"-p", ""),
    (r"openssl", r"-k[ ]+", ""),
    (r"openssl", r"-pass(?:in|out)?[ =]+", "pass:"),
    (r"smbclient", r"-U[ ]*", r"[^\s%\"'\\]+%"),
    (_REGISTRIES, r"-p[ =]*", ""),
    (_MONGO, r"-p[ =]+", ""),
    (r"sqlcmd", r"-P[ ]*", ""),
    (r"cqlsh", r"-p[ =]+", ""),
)
_PASSWORD_OF_USER = re.compile(
    r"(?:identified[ \t]+(?:with[ \t]+\w+[ \t]+)?by|password[ \t]*\()[ \t]*\\*([\"'])([^\"'\s]+)", _AI
)
_SECURE = re.compile(r"convertto-securestring[ \t]+(?:-string[ \t]+)?\\*([\"'])([^\"'\r\n]+)", _AI)
_MEMBER = re.compile(r"[\"']\w+\\*[\"'][ \t]*:[ \t]*\\*[\"']([A-Za-z0-9_\-]+)", _A)
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\ \r\n"
Reader: TypeAlias = Callable[[str, int], SecretSpan | None]
_FLAG_WINDOW = 130  # characters after a program's name: a little more than its patterns allow
_LONGEST_PROGRAM = 60  # characters of a program's name; the names of secrets can be as long as the text
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
    if hay[end - 1] == " " and hay[start] in _FIRST_OF_PROGRAMS and _may_have_flag(hay, start, end):
        for reader in _list_flag_readers(hay[start:end]):
            if span := reader(hay, start):
                return span
    return None


def _may_have_flag(hay: str, start: int, end: int) -> bool:
    """Return whether a flag follows near enough.

    The `pass:` of openssl has no hyphen.
    """
    if end - start > _LONGEST_PROGRAM:
        return False
    return hay[start] in "oO" or hay.find("-", end, end + _FLAG_WINDOW) >= 0


@lru_cache(maxsize=4_096)
def _list_readers(beginning: str) -> tuple[Reader, ...]:
    """Return the readers of secrets that can begin with this text."""
    text = beginning.lower()
    readers = _READERS.get(text[:1], ())
    return tuple(reader for reader in readers if text.startswith(_WORDS.get(reader, "")))


@lru_cache(maxsize=256)
def _list_flag_readers(beginning: str) -> tuple[Reader, ...]:
    """Return the readers of the program's flags, if the beginning is the name of a program with a space."""
    return tuple(reader for program, reader in _flags if program.fullmatch(beginning))


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


# ---------------------------------------------------------------- commands and statements

_QUOTE = r"\\*[\"']"  # with the backslashes of JSON text


def _compile_argument(begin: str, lead: str = "", *, stops: str = "", close: str = "") -> re.Pattern[str]:
    """Return a pattern whose group `inside`, `quoted` or `bare` is a secret argument.

    `lead`: what comes before it, such as `user:`, inside or in front of its quotes. `stops`: signs that end it, next to
    blanks and quotes. `close`: what follows it.
    """
    bare = rf"(?P<bare>(?:[^\s\"'\\{stops}]|\\(?![\"']))+)"
    arguments = rf"{_quote('inside', lead)}|{lead}(?:{_quote('quoted')}|{bare})"
    return re.compile(rf"{begin}(?:{arguments}){close}", _AI)


def _quote(name: str, lead: str = "") -> str:
    """Return the pattern of a secret in quotes."""
    content = rf"(?:(?!(?P={name}_quote))[^\r\n]){{1,4096}}+"
    return rf"(?P<{name}_quote>{_QUOTE}){lead}(?P<{name}>{content})"


def _make_argument_reader(pattern: re.Pattern[str], kind: str = "password") -> Reader:
    """Return a reader of the argument that the pattern finds."""

    def reader(hay: str, start: int) -> SecretSpan | None:
        match = pattern.match(hay, start)
        if match is None:
            return None
        first, last = next(match.span(name) for name in ("inside", "quoted", "bare") if match[name])
        if NO_VALUE.fullmatch(hay, first, last) or MASK.match(hay, first):
            return None
        return SecretSpan(first, last, kind)

    return reader


def _read_mysql_password(hay: str, start: int) -> SecretSpan | None:
    span = _mysql(hay, start)
    return span if span and "://" not in hay[start : span.start] else None


_database, _oracle = _make_group_reader(_DATABASE, 1, "url-password"), _make_group_reader(_ORACLE, 1, "password")
_password_of_user = _make_group_reader(_PASSWORD_OF_USER, 2, "password")
_secure = _make_group_reader(_SECURE, 2, "password")
_SIGN = r"(?:[^\s:\"'\\]|\\(?![\"']))"
_login = _make_argument_reader(  # but not the numbers of a user and a group
    _compile_argument(r"[ '\"](?:-u[ =]?|--user[ =])", rf"(?!\d+:)(?:(?!-){_SIGN}+)?:")
)
_sshpass = _make_argument_reader(_compile_argument(r"sshpass -p[ ]*"))
_mysql = _make_argument_reader(_compile_argument(r"\w+(?= )[^\n;|&]{0,80}?\s-p", stops=";|&"))
_literal = _make_argument_reader(_compile_argument(r"--from-literal[ =]+", r"[\w.\-]+="), "value")
_READS_INPUT = r"(?:--password-stdin|--with-token|--stdin|\bchpasswd|sudo -S|secret create)"
_piped = _make_argument_reader(
    _compile_argument(
        rf"(?:echo|printf) (?:-\w+ )*(?:(?:{_QUOTE})?%s(?:\\+n)?(?:{_QUOTE})? )?",
        stops="|",
        close=rf"(?:{_QUOTE})?[ ]*\|[^|\n]{{0,120}}?{_READS_INPUT}",
    )
)
_flags = [
    (
        re.compile(rf"{program} ", _AI),
        _make_argument_reader(
            _compile_argument(rf"{program} (?:[^\n;|&]{{0,120}}? )??(?<![\w-])(?-i:{flag})", lead, stops=";|&")
        ),
    )
    for program, flag, lead in _PROGRAMS
]
_FIRST_OF_PROGRAMS = frozenset("7abcdhlmnoprsuvzABCDHLMNOPRSUVZ")
_READERS: dict[str, tuple[Reader, ...]] = {
    ":": (_read_userinfo,),
    " ": (_login,),
    "'": (_login, _read_jwk_member),
    '"': (_login, _read_jwk_member),
    "?": (_read_query_value,),
    "&": (_read_query_value,),
    "-": (_literal,),
    "p": (_read_putty_key, _database, _password_of_user, _piped),
    "m": (_database, _read_mysql_password),
    "j": (_oracle,),
    "s": (_sshpass, _oracle, _database),
    "i": (_password_of_user,),
    "c": (_database, _secure),
    "e": (_piped,),
} | dict.fromkeys("avrzlnko7", (_database,))
_BEGINNING = 9  # characters, as many as the longest of these words
# How the text of some readers begins, in small letters, up to where spellings differ; the others read any text.
_WORDS: dict[Reader, str | tuple[str, ...]] = {
    _read_putty_key: "private-l",
    _database: (
        "postgres", "mysql", "mariadb", "mongodb", "redis", "valkey", "amqp", "mssql", "sqlserver", "clickhous", "nats",
        "kafka", "ldap",
    ),
    _password_of_user: ("identifie", "password"), _piped: ("echo ", "printf "),
    _oracle: ("jdbc:orac", "sqlplus "), _sshpass: "sshpass -", _secure: "convertto",
}  # fmt: skip
