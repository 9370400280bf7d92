"""Secrets in the arguments of commands: after the flag of a program, at a place, or piped into it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from toolcards.core.redaction.spans import MASK, NO_VALUE, UNDECIDED, SecretSpan, looks_random

_AI = re.ASCII | re.IGNORECASE
Reader: TypeAlias = Callable[[str, int], SecretSpan | None]
_REGISTRIES = r"(?:docker|podman|nerdctl|buildah|skopeo|oras|oc|helm registry) login"
_MONGO = r"mongo(?:sh|dump|restore|import|export)?"
_CONFIGS = r"(?:npm|pnpm|yarn) (?:config )?set|aws configure set"
_PROGRAMS = (  # a program, the flag before its password, and what comes before the password in the same argument
    (r"(?:redis|valkey)-cli", r"-a[ =]*", ""),
    (r"ldap\w+", r"-w[ =]*", ""),
    (r"az login", r"-p[ =]+", ""),
    (r"(?:un)?zip", r"-P[ ]*", ""),
    (r"7za?", r"-p", ""),
    (r"openssl", r"-k[ ]+", ""),
    (r"smbclient", r"(?:-U[ ]*|--user[ =]+)", r"[^\s%\"'\\]+%"),
    (_REGISTRIES, r"-p[ =]*", ""),
    (_MONGO, r"-p[ =]+", ""),
    (r"sqlcmd", r"-P[ ]*", ""),
    (r"cqlsh", r"-p[ =]+", ""),
    (r"(?:user(?:add|mod))", r"-p[ ]*", ""),
    (r"lftp", r"-u[ ]*", r"[^\s,\"'\\;|&]+,"),
    (r"influx", r"-t[ =]+", ""),
    (r"doctl auth init", r"-t[ =]+", ""),
    (r"twine upload", r"-p[ =]+", ""),
)
_QUOTE = r"\\*[\"']"  # with the backslashes of JSON text
_ARGUMENT = rf"(?:{_QUOTE}[^\r\n\"']{{1,200}}{_QUOTE}|[^\s\"';|&<>]{{1,200}})"
_SWITCHES = r"-[a-z0-9]{1,8} +(?:\d{1,4} +)?"  # of htpasswd; -C and -r have a number
_HAS_PASSWORD = rf"(?=(?:{_SWITCHES}){{0,4}}-\w*(?-i:b))"
_VAULT_SWITCH = r"-{1,2}(?:no-print|no-store|token-only)(?:=[a-z]{1,5})? +"
_VAULT_OPTION = r"-{1,2}(?!no-|token-only)[\w\-]{1,40}(?:=[^\s;|&]{1,200}| +[^\s\-;|&][^\s;|&]{0,200}) +"
_NAMED_SETTING = r"[^\s\"'=;|&]{0,200}(?:_auth(?:token)?|authtoken|_password|secret_access_key|session_token)"
_PLACES = (  # a program, what comes before its secret, and whether the secret has to look random: sentences name it
    (r"htpasswd", rf"{_HAS_PASSWORD}(?:(?!-\w*(?-i:n))(?:{_SWITCHES})){{1,6}}{_ARGUMENT} +{_ARGUMENT} +", False),
    (r"htpasswd", rf"{_HAS_PASSWORD}(?=(?:{_SWITCHES}){{0,4}}-\w*(?-i:n))(?:{_SWITCHES}){{1,6}}{_ARGUMENT} +", False),
    (r"vault login", rf"(?:{_VAULT_SWITCH}|{_VAULT_OPTION}){{0,8}}(?!{_QUOTE}?[\w\-]+=)", True),
    (r"rabbitmqctl", rf"(?:[^\n;|&]{{0,80}}? )??(?:add_user|change_password|authenticate_user) +{_ARGUMENT} +", False),
    (r"smbclient", rf"(?:{_QUOTE})?(?://|\\\\)[^\s\"';|&]{{1,200}}(?:{_QUOTE})? +", False),
    (_CONFIGS, rf"(?:{_QUOTE})?{_NAMED_SETTING}(?:{_QUOTE})? +", False),
)  # fmt: skip
_NAMES = "|".join(dict.fromkeys(program for program, *_ in (*_PROGRAMS, *_PLACES)))
BEGINS = (
    r"(?i:[ '\"](?:(?:-u|--user)(?:[ =]|[A-Za-z\"'\\])|-pass(?:in|out|word)?[ =])|sshpass -p|"
    r"\b(?:mysql|mysqldump|mysqladmin|mariadb) |--from-literal[ =]|password[_\-]command[ =]|"
    rf"\b(?:{_NAMES}|echo|printf) )|<<<"
)
_FLAG_WINDOW = 130  # characters after a program's name: a little more than its patterns allow
_LONGEST_PROGRAM = 60  # characters of a program's name; the names of secrets can be as long as the text
_INPUT_WINDOW = 160  # characters before a here-string that are searched for the program that reads it


def read_command_secret(hay: str, start: int, end: int, floor: int) -> SecretSpan | None:
    """Return the secret of the command that begins here, or None.

    `end`: where the match of BEGINS ends.
    """
    for reader in _READERS.get(hay[start].lower(), ()):
        if span := reader(hay, start):
            return span
    if hay[end - 1] != " " or end - start > _LONGEST_PROGRAM:
        return None
    has_flag = hay.find("-", end, end + _FLAG_WINDOW) >= 0
    spans = [reader(hay, start) for needs_flag, reader in _list_program_readers(hay[start:end])
             if has_flag or not needs_flag]  # fmt: skip
    return min(filter(None, spans), default=None)


@lru_cache(maxsize=256)
def _list_program_readers(beginning: str) -> tuple[tuple[bool, Reader], ...]:
    """Return the readers of the program, if the beginning is its name with a space, and whether they need a flag."""
    return tuple((needs_flag, read) for program, needs_flag, read in _program_readers if program.fullmatch(beginning))


def _compile_argument(begin: str, lead: str = "", *, stops: str = ";|&", close: str = "") -> re.Pattern[str]:
    """Return a pattern whose group `inside`, `quoted` or `bare` is a secret argument.

    `lead`: what comes before it, such as `user:`, inside or in front of its quotes. `stops`: signs that end it, next to
    blanks and quotes, and next to line ends as JSON text writes them. `close`: what follows it.
    """
    bare = rf"(?P<bare>(?:[^\s\"'\\{stops}]|\\(?![nrt\"']))+)"
    arguments = rf"{_quote('inside', lead)}|{lead}(?:{_quote('quoted')}|{bare})"
    return re.compile(rf"{begin}(?:{arguments}){close}", _AI)


def _quote(name: str, lead: str = "") -> str:
    """Return the pattern of a secret in quotes: up to its closing quote, its line end, or 4,096 characters.

    No part of it is given back to what follows. A possessive `+` would say so, but Python before 3.11.5 reads it
    wrongly.
    """
    sign = rf"(?:(?!(?P={name}_quote))[^\r\n])"
    content = rf"{sign}{{4096}}|{sign}{{1,4095}}(?!{sign})"
    return rf"(?P<{name}_quote>{_QUOTE}){lead}(?P<{name}>{content})"


def _make_reader(pattern: re.Pattern[str], kind: str = "password", *, random: bool = False) -> Reader:
    """Return a reader of the argument that the pattern finds; `random`: only one that looks random."""

    def reader(hay: str, start: int) -> SecretSpan | None:
        match = pattern.match(hay, start)
        if match is None:
            return None
        first, last = next(match.span(name) for name in ("inside", "quoted", "bare") if match[name])
        if NO_VALUE.fullmatch(hay, first, last) or MASK.match(hay, first):
            return None
        if random and not looks_random(hay[first:last]):
            return SecretSpan(first, last, UNDECIDED) if last == len(hay) else None
        return SecretSpan(first, last, kind)

    return reader


def _read_mysql_password(hay: str, start: int) -> SecretSpan | None:
    span = _mysql(hay, start)
    return span if span and "://" not in hay[start : span.start] else None


def _read_here_string(hay: str, start: int) -> SecretSpan | None:
    """Return the text after `<<<` if the command reads a secret from its input."""
    is_read = hay.startswith("<<<", start) and _INPUT_READER.search(hay, max(0, start - _INPUT_WINDOW), start)
    return _here_string(hay, start) if is_read else None


_SIGN = r"(?:[^\s:\"'\\]|\\(?![\"']))"
_login = _make_reader(  # but not the numbers of a user and a group
    _compile_argument(r"[ '\"](?:-u[ =]?|--user[ =])", rf"(?!\d+:)(?:(?!-){_SIGN}+)?:", stops="")
)
_pass_argument = _make_reader(_compile_argument(r"[ '\"]-pass(?:in|out|word)?[ =]+", "pass:"))
_sshpass = _make_reader(_compile_argument(r"sshpass -p[ ]*", stops=""))
_mysql = _make_reader(_compile_argument(r"\w+(?= )[^\n;|&]{0,80}?\s-p"))
_literal = _make_reader(_compile_argument(r"--from-literal[ =]+", r"[\w.\-]+=", stops=""), "value")
_READS_INPUT = r"(?:--password-stdin|--with-token|--stdin|\bchpasswd|sudo -S|secret create)"
_INPUT_READER = re.compile(rf"{_READS_INPUT}[^\n;|&]{{0,80}}\Z", _AI)
_PRINTER = rf"(?:echo|printf) (?:-\w+ )*(?:(?:{_QUOTE})?%s(?:\\+n)?(?:{_QUOTE})? )?"
_piped = _make_reader(
    _compile_argument(_PRINTER, stops="|", close=rf"(?:{_QUOTE})?[ ]*\|[^|\n]{{0,120}}?{_READS_INPUT}")
)
_here_string = _make_reader(_compile_argument(r"<<<[ ]*"))
_password_command = _make_reader(_compile_argument(rf"password[_\-]command[ =]+(?:{_QUOTE})?{_PRINTER}"))
_READERS: dict[str, tuple[Reader, ...]] = {
    " ": (_login, _pass_argument), "'": (_login, _pass_argument), '"': (_login, _pass_argument),
    "-": (_literal,), "e": (_piped,), "m": (_read_mysql_password,), "p": (_piped, _password_command),
    "s": (_sshpass,), "<": (_read_here_string,),
}  # fmt: skip
_program_readers = [
    (
        re.compile(rf"(?:{program}) ", _AI),
        True,
        _make_reader(_compile_argument(rf"(?:{program}) (?:[^\n;|&]{{0,120}}? )??(?<![\w-])(?-i:{flag})", lead)),
    )
    for program, flag, lead in _PROGRAMS
] + [
    (
        re.compile(rf"(?:{program}) ", _AI),
        False,
        _make_reader(_compile_argument(rf"(?:{program}) +{before}(?![\-<>])", stops=";|&<>"), random=random),
    )
    for program, before, random in _PLACES
]
