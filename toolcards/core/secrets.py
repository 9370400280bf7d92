"""Finds secrets in text: commands, headers, URLs, JSON in strings, error messages, halves of streams.

RE2 finds where something might begin (linear time, whatever the agent wrote); what is there is then read
by small patterns anchored at that place. The work is bounded: after `MOST` places the rest of the text counts
as one secret. Texts are searched as bytes, each seen as one Latin-1 character, so places need no counting.
One file: one reader per way to write a secret down, all on the same text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import re2

from toolcards.core.telling import ABOUT, tells, words_of
from toolcards.core.tokens import LOOK, PEM, PREFIXES, kind_of

MOST = 2_000
OPEN, DOT, CLOSE = "\u2039", "\u00b7", "\u203a"
_B_OPEN, _B_DOT, _B_CLOSE = (sign.encode().decode("latin-1") for sign in (OPEN, DOT, CLOSE))
MASK = re.compile(rf"{_B_OPEN}secret [a-z\-]{{2,24}} \d{{1,9}} {_B_DOT} [0-9a-f]{{4}}{_B_CLOSE}")


class Span(NamedTuple):
    """A secret's place in the text; kind "" is a mask that is there already."""

    start: int
    end: int
    kind: str


_CORE = (
    r"passw(?:or)?(?:d|t)|passphrase|passcode|pass|pwd|pw|secrets?|tokens?|authorization|cookies?|credentials?|jwt|cvv|"
    r"cvc|otp|totp|mnemonic|psk|auth|pat|bearer|connection[ _-]?string|conn[ _-]?str(?:ing)?|sessid|amz[ _-]credential|"
    r"recovery[ _-]?(?:codes?|phrase)|seed[ _-]?phrase|backup[ _-]?codes?|"
    r"(?:api|access|private|encryption|signing|master|auth|service|account|shared|ssh|deploy|license|session|storage|"
    r"host|decryption|hmac|webhook|ssl|tls)[ _-]?keys?"
)
_NAMED = rf"(?i:{_CORE})[A-Za-z0-9_\-]*(?:[\\]*[\"'`])?\]?[ \t]*(?:[:=> \t,]|[\\]+[nrt])"
_FIND = (
    rf"{_B_OPEN}secret |{PREFIXES}|{PEM}|://[^\s/\"'<>\\]+@|[?&](?i:sig|signature|key|code|x-amz-signature)=|"
    r"(?i:[ '\"](?:-u|--user)[ =]|sshpass -p|(?:docker|podman) login |\b(?:mysql|mysqldump|mysqladmin|mariadb) )|"
    + _NAMED
)


def _compiled(pattern: str) -> re2._Regexp:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = 64 << 20
    return re2.compile(pattern.replace(r"\Z", r"\z").encode("latin-1"), options=options)


FIND = _compiled(_FIND)

_A = re.ASCII
_NAME_AT = re.compile(rf"(?i:{_CORE})[A-Za-z0-9_\-]*", _A)
_BEFORE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_SEPARATOR = re.compile(r"(?P<quote>\\*[\"'`])?\]?[ \t]*(?::=|=>|[:=](?!=)|>)[ \t]*(?:\\*[nrt]|[\r\n])?[ \t]*", _A)
_SPACE = re.compile(r"(?P<quote>\\*[\"'`])?(?:[ \t]*,)?[ \t=]+|(?P<quote2>\\*[\"'`]),", _A)
_IS = re.compile(r"[ \t]+(?:is|was|are)[ \t]+", re.ASCII | re.IGNORECASE)
_QUOTE = re.compile(r"[bruBRU]?(\\*)([\"'`])")
_BARE = re.compile(r"(?:[^\s\"'`;&|<>\\]|\\(?![nrt\"'`])|[\"'`](?=\w)[^\"'`]*[\"'`]?)+", _A)
_HEADER = re.compile(r"(?:[^\r\n\"'`\\]|\\(?![nrt\"'`\\]))+", _A)
_TAG = re.compile(r"[^<]+")
_SCHEME = re.compile(r"(?:bearer|basic|digest|token|negotiate|apikey|aws4-hmac-sha256)[ \t]+", re.ASCII | re.IGNORECASE)
_USERINFO = re.compile(r"://([^\s/:\"'<>\\]*)(:?)([^\s/\"'<>\\]+)@", _A)
_LOGIN = re.compile(r"[ '\"](?:-u|--user)[ =][\"']?([^\s:\"']*):([^\s\"']+)", re.ASCII | re.IGNORECASE)
_SSHPASS = re.compile(r"sshpass -p[ ]*[\"']?([^\s\"']+)", re.ASCII | re.IGNORECASE)
_REGISTRY = re.compile(r"(?:docker|podman) login [^\n;|&]{0,80}?-p[ =]*[\"']?([^\s\"']+)", re.ASCII | re.IGNORECASE)
_MYSQL = re.compile(r"\w+ [^\n;|&]{0,80}?\s-p([^\s\"';|&]+|\"[^\"]*\"?|'[^']*'?)", _A)
_QUERY = re.compile(r"[?&][\w\-]+=([^\s&?#\"'<>\\]{1,2048})", _A)
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\ \r\n"
_HEADERS = frozenset({"authorization", "cookie", "cookies"})
# A place for a value, a type's name or the next word of a sentence is no secret.
_NO_VALUE = re.compile(
    r"(?:\$\{?\w+\}?|%\w+%|\{\{?[\w. ]{1,40}\}?\}|<[\w \-]{1,40}>|\[[A-Za-z]{4,12}\]?|\*{3,}|\.{3}|[xX]{3,}|"
    r"(?i:str|string|int|integer|number|bool|boolean|none|null|nil|undefined|true|false|object|any|optional|required)|"
    r"is|was|the|a|of|for|and|or|to|in|on|from|with|has|not|"
    r"process\.env\.\w+|os\.environ\S*|os\.getenv\S*|getenv\S*)[,.;:)\]}]*",
    _A,
)


def find(work: bytes, hay: str) -> Iterator[Span]:
    """Yield the secrets of the text in order, without overlaps; `hay` is `work` as Latin-1."""
    place, seen = 0, 0
    while (found := FIND.search(work, place)) is not None:
        start, end = found.span()
        span = _look(hay, start, end, place)
        if isinstance(span, Span):
            span = _clear_of_masks(hay, span)
            if span.end > span.start:
                yield span
            seen += bool(span.kind)  # masks do not count: hiding twice changes nothing
            if seen >= MOST and span.end < len(hay):
                yield Span(span.end, len(hay), "rest")
                return
            place = span.end
        else:
            place = span


def _look(hay: str, start: int, end: int, floor: int) -> Span | int:
    """Return the secret that begins here, or where to go on if it is none."""
    first = hay[start]
    if first == _B_OPEN[0]:
        mask = MASK.match(hay, start)
        return Span(start, mask.end(), "") if mask else start + len(_B_OPEN)
    if first == "-" and (span := _pem(hay, start, end, floor)):
        return span
    if token := LOOK.match(hay, start):
        if _begins(hay, start):
            return Span(start, token.end(), kind_of(token))
        return max(start + 1, floor)
    reader = _READERS.get(first.lower())
    if reader and (span := reader(hay, start)):
        return span
    return _named(hay, start, end, floor)


def _clear_of_masks(hay: str, span: Span) -> Span:
    """A mask is never hidden again, nor cut."""
    mask = MASK.search(hay, span.start, span.end + 60) if span.kind and _B_OPEN in hay[span.start : span.end] else None
    if mask is None or mask.start() >= span.end:
        return span
    return (
        Span(span.start, mask.start(), span.kind) if mask.start() > span.start else Span(mask.start(), mask.end(), "")
    )


def _begins(hay: str, start: int) -> bool:
    """A word begins here; after `\\n` in JSON text one does too."""
    if start == 0 or not (hay[start - 1].isascii() and hay[start - 1].isalnum()):
        return True
    return start > 1 and hay[start - 2] == "\\" and hay[start - 1] in "nrtbf"


def _pem(hay: str, start: int, end: int, floor: int) -> Span | None:
    if hay.startswith("-----BEGIN", start):
        tail = hay.find("-----END", end)
        close = hay.find("-----", tail + 8) if tail >= 0 else -1
        return Span(start, close + 5 if close >= 0 else len(hay), "private-key")
    if hay.startswith("-----END", start):  # its beginning was cut off
        body = hay[floor:start]
        return Span(floor + len(body.rstrip(_BASE64)), end, "private-key")
    return None


def _userinfo(hay: str, start: int) -> Span | None:
    found = _USERINFO.match(hay, start)
    if not found or MASK.match(hay, found.start(3)):
        return None
    if found.group(2):
        return Span(*found.span(3), "url-password") if not _NO_VALUE.fullmatch(found.group(3)) else None
    alone = hay[found.start(1) : found.end(3)]
    return Span(found.start(1), found.end(3), "url-password") if len(alone) >= 16 and odd(alone) else None


def _login(hay: str, start: int) -> Span | None:
    found = _LOGIN.match(hay, start)
    if not found or _NO_VALUE.fullmatch(found.group(2)) or found.group(1).isdigit() or MASK.match(hay, found.start(2)):
        return None
    return Span(*found.span(2), "password")


def _sshpass(hay: str, start: int) -> Span | None:
    found = _SSHPASS.match(hay, start) or _REGISTRY.match(hay, start)
    return Span(*found.span(1), "password") if found and not MASK.match(hay, found.start(1)) else None


def _mysql(hay: str, start: int) -> Span | None:
    found = _MYSQL.match(hay, start)
    if not found or MASK.match(hay, found.start(1)):
        return None
    return Span(*found.span(1), "password") if "://" not in hay[start : found.start(1)] else None


def _query(hay: str, start: int) -> Span | None:
    found = _QUERY.match(hay, start)
    return Span(*found.span(1), "value") if found and len(found.group(1)) >= 8 and odd(found.group(1)) else None


_READERS = {
    ":": _userinfo,
    " ": _login,
    "'": _login,
    '"': _login,
    "s": _sshpass,
    "d": _sshpass,
    "p": _sshpass,
    "m": _mysql,
    "?": _query,
    "&": _query,
}


# ---------------------------------------------------------------- name = value


def _named(hay: str, start: int, end: int, floor: int) -> Span | int:
    """A telling name: read what separates it from its value, then the value."""
    at = _NAME_AT.match(hay, start)
    if at is None:
        return max(start + 1, end - 1)
    before = hay[max(floor, start - 60) : start]
    lead = before[len(before.rstrip(_BEFORE)) :]
    if lead and start > len(lead) and hay[start - len(lead) - 1] == "\\" and lead[0] in "nrtbf":
        lead = lead[1:]  # `\npassword` in JSON text
    name = lead + at.group()
    told = tells(name.lstrip("-."))
    if not told:
        return at.end()
    return _value(hay, at.end(), name, told) or at.end()


def _value(hay: str, place: int, name: str, told: str) -> Span | None:
    separator = _SEPARATOR.match(hay, place)
    if separator:
        quoted = bool(separator.group("quote"))
        prose = not quoted and separator.group().endswith((" ", "\t")) and told == "weak"
        tag = separator.group().rstrip().endswith(">")
        return _read(hay, separator.end(), name, quote=separator.group("quote") or "", prose=prose, tag=tag)
    if name.startswith("-") or hay[place : place + 2] in ('",', "',"):
        space = _SPACE.match(hay, place)
        if space:
            return _read(hay, space.end(), name, quote="", prose=False)
    gap = _IS.match(hay, place) or _SPACE.match(hay, place)
    return _read(hay, gap.end(), name, quote="", prose=True) if gap else None


def _read(hay: str, place: int, name: str, *, quote: str, prose: bool, tag: bool = False) -> Span | None:
    """Return the value that begins here as a secret, None if there is none to hide."""
    if MASK.match(hay, place) or place >= len(hay):
        return None
    opened = _QUOTE.match(hay, place)
    if opened:
        start, end = opened.end(), _closing(hay, opened.end(), opened.group(1), opened.group(2))
    elif quote and hay[place] in "{[":
        start, end = place, _balanced(hay, place, quote)
    elif tag:
        start, end = place, _end_of(_TAG, hay, place)
    elif (words_of(name) or [""])[-1] in _HEADERS:
        start, end = place, _end_of(_HEADER, hay, place)
    else:
        start, end = place, _end_of(_BARE, hay, place)
        if not quote:
            end -= len(hay[start:end]) - len(hay[start:end].rstrip(",.:)]}"))
    if scheme := _SCHEME.match(hay, start, end):
        start = scheme.end()
    return _worth(hay, start, end, prose=prose and not opened and not scheme)


def _worth(hay: str, start: int, end: int, *, prose: bool) -> Span | None:
    text = hay[start:end]
    if not text.strip() or _NO_VALUE.fullmatch(text) or MASK.match(hay, start):
        return None
    if prose and not (len(text) >= 8 and odd(text)):
        return None
    return Span(start, end, kind_of(token) if (token := LOOK.fullmatch(text)) else "value")


def _end_of(pattern: re.Pattern[str], hay: str, place: int) -> int:
    found = pattern.match(hay, place)
    return found.end() if found else place


def _closing(hay: str, place: int, slashes: str, sign: str) -> int:
    """Return where the quoted text ends: at its quote with as many backslashes as it began with, else at the end."""
    at = hay.find(sign, place)
    while at >= 0:
        run = 0
        while at - run > place and hay[at - run - 1] == "\\":
            run += 1
        if run == len(slashes) or (not slashes and run % 2 == 0):
            return at - run if slashes else at
        if run < len(slashes):  # the text around ours ends here
            return at - run
        at = hay.find(sign, at + 1)
    return len(hay)


_BRACKETS = re.compile(r"\\*\"|[{}\[\]]")


def _balanced(hay: str, place: int, quote: str) -> int:
    """Return where the object or array that begins here ends; brackets inside its texts do not count."""
    depth, inside = 0, False
    for found in _BRACKETS.finditer(hay, place):
        sign = found.group()
        if sign.endswith('"'):
            if sign == quote or (quote == '"' and (len(sign) - 1) % 2 == 0):
                inside = not inside
        elif not inside:
            depth += 1 if sign in "{[" else -1
            if depth == 0:
                return found.end()
    return len(hay)


def odd(text: str) -> bool:
    """Whether the text looks drawn by lot: letters with digits or of mixed case, and hardly any sign twice."""
    sample = text[:80]
    if not any(sign.isdigit() for sign in sample) and (sample.islower() or sample.isupper() or sample.istitle()):
        return False
    if not any(sign.isalpha() for sign in sample) and len(sample) < 12:
        return False
    counts = Counter(sample)
    entropy = -sum(n / len(sample) * math.log2(n / len(sample)) for n in counts.values())
    return entropy >= 2.5


__all__ = ["ABOUT", "FIND", "MASK", "Span", "find", "odd"]
