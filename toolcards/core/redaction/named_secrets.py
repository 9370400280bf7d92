"""Secrets with a sensitive name: `name = value` in every notation, and pairs of a name and a value member."""

from __future__ import annotations

import re
from functools import lru_cache

from toolcards.core.redaction.sensitive_names import LONGEST, classify_name, split_name
from toolcards.core.redaction.spans import B_OPEN, MASK, NO_VALUE, UNDECIDED, SecretSpan, looks_random
from toolcards.core.redaction.token_patterns import LOOK, name_kind

_A, _AI = re.ASCII, re.ASCII | re.IGNORECASE
_CORE = (
    r"passw(?:or)?(?:d|t)|passphrase|passcode|pass|pwd|pw|secrets?|tokens?|authorization|cookies?|credentials?|jwt|cvv|"
    r"cvc|otp|totp|mnemonic|psk|auth|pat|bearer|connection[ _-]?string|conn[ _-]?str(?:ing)?|sessid|amz[ _-]credential|"
    r"recovery[ _-]?(?:codes?|phrase)|seed[ _-]?phrase|backup[ _-]?codes?|"
    r"(?:api|access|private|encryption|signing|master|auth|service|account|shared|ssh|deploy|license|session|storage|"
    r"host|decryption|hmac|webhook|ssl|tls)[ _-]?keys?"
)
BEGINS = rf"(?i:{_CORE})[A-Za-z0-9_\-]*(?:[\\]*[\"'`])?\]?[ \t]*(?:[:=> \t,\r\n}}]|[\\]+[nrt])"

_NAME_AT = re.compile(rf"(?i:{_CORE})[A-Za-z0-9_\-]*", _A)
_BEFORE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_SEPARATOR = re.compile(r"(?P<quote>\\*[\"'`])?\]?[ \t]*(?::=|=>|[:=](?!=))[ \t]*(?:\\+[nrt]|[\r\n])?[ \t]*", _A)
_SPACE = re.compile(r"(?P<quote>\\*[\"'`])?(?:[ \t]*,)?[ \t=]+|(?P<quote2>\\*[\"'`]),", _A)
_KEY_NEXT = re.compile(r"\\*[\"'][^\"'\\\r\n]{0,80}\\*[\"'][ \t]*:", _A)
_IS = re.compile(r"[ \t]+(?:is|was|are)[ \t]+", _AI)
_QUOTE = re.compile(r"[bruBRU]?(\\*)([\"'`])")
_BARE = re.compile(r"(?:[^\s\"'`;&|<>\\]|\\(?![nrt\"'`])|[\"'`](?=\w)[^\"'`]*[\"'`]?)+", _A)
_HEADER = re.compile(r"(?:[^\r\n\"'`\\]|\\(?![nrt\"'`\\]))+", _A)
_BRACED = re.compile(r"\{(?:[^{}\r\n]|\}\}){1,200}\}", _A)  # ODBC: {a;b}
_PARAMETER = r"[\w\-]+=(?:\\*\"[^\"\\\r\n]*\\*\"|[^\s,\"'\\]+)"
_PARAMETERS = re.compile(rf"{_PARAMETER}(?:[, \t]+{_PARAMETER})*", _A)  # of a Digest
_PLACEHOLDER = re.compile(r"\{([\w.]{1,60})\}", _A)
_WORD = re.compile(r"\\*[\"'][a-z_]+\\*[\"']", _A)
_ELEMENT = re.compile(r"<(?:[\w.\-]{1,40}:)?\Z", _A)  # before the name
_LONGEST_PREFIX = 42  # characters of `<` and a namespace
_LONGEST_OPEN = 200  # characters of an element that the next piece of the text may end
_CONTENT = re.compile(r"\s*([^\s<>][^<>]{0,4000}?)\s*(?=</)|([^\s<>]+)\Z")  # with its end, or a word without one
_SCHEME = re.compile(r"(?:bearer|basic|digest|token|negotiate|apikey|aws4-hmac-sha256)[ \t]+", _AI)
_BLANK_LINE = re.compile(r"\\*\"[^\r\n\"]{0,100}(?:(?:\r?\n){2}|(?:(?:\\+r)?\\+n){2})", _A)  # of a form's part
_NOT_GIVEN = frozenset({"with", "without", "no", "ask", "prompt"})  # `--with-token` reads the value from elsewhere
_SOURCE = re.compile(r"(?:pass|env|file|fd):")  # of a password, in the flags of openssl and apksigner
_SOURCE_OF_FLAG = re.compile(r":(?:env|file)\b", _A)  # keytool: `-storepass:file path`
_HEADERS = frozenset({"authorization", "cookie", "cookies"})
# `{"name": "API_TOKEN", "value": …}`, in either order, in JSON, YAML, and JSON in strings.
_PAIR_KEY = re.compile(
    r"(?:^|[^A-Za-z0-9])((?:(?:parameter|option|header|field|variable|env)_?)?(?:name|key)|header|field|variable|"
    r"param(?:eter)?|label|option|id|k)(?:\\*[\"'])?[ \t]*[:=][ \t]*(?:\\*[\"'])?\Z",
    _AI,
)
_PAIR_VALUE = re.compile(
    r"(?<![A-Za-z0-9_])(?:(?:param(?:eter)?|option|string|header|env|variable|setting|default|new)_?value|value|val|v)"
    r"(?P<quote>\\*[\"'])?[ \t]*(?:=>|[:=])[ \t]*",
    _AI,
)
_ENDS = re.compile(r"\}|\\?\n[ \t]*-[ \t]|\n[ \t]*\n")
_PAIR_MOST = 600
_MASK_SIGN = B_OPEN[0]  # how a mask begins; nearly no value does


def read_named_secret(hay: str, start: int, end: int, floor: int) -> SecretSpan | int:
    """Return the value of a sensitive name, or where to continue."""
    core_match = _NAME_AT.match(hay, start)
    if core_match is None:
        return start + 1
    before = hay[max(floor, start - 60) : start]
    lead = before[len(before.rstrip(_BEFORE)) :]
    if lead and start > len(lead) and hay[start - len(lead) - 1] == "\\" and lead[0] in "nrtbf":
        lead = lead[1:]  # `\npassword` in JSON text
    name = lead + core_match.group()
    strength = classify_name(name.lstrip("-."))
    if not strength:
        return core_match.end()
    pair = _read_pair(hay, start - len(lead), core_match.end(), floor, name)
    return pair or _read_separated_value(hay, start - len(lead), core_match.end(), name, strength) or core_match.end()


def _read_separated_value(hay: str, start: int, place: int, name: str, strength: str) -> SecretSpan | None:
    """Return the value of the name from `start` to `place`, or None."""
    if hay[place : place + 1] == ">":
        return _read_element(hay, place + 1) if _ELEMENT.search(hay, max(0, start - _LONGEST_PREFIX), start) else None
    if name.startswith("-") and _SOURCE_OF_FLAG.match(hay, place):
        return None
    separator = _SEPARATOR.match(hay, place)
    if separator:
        is_quoted = bool(separator.group("quote"))
        prose = not is_quoted and separator.group().endswith((" ", "\t")) and strength == "weak"
        return _read_value(hay, separator.end(), name, quote=separator.group("quote") or "", prose=prose)
    if blank := _BLANK_LINE.match(hay, place):
        return _read_value(hay, blank.end(), name, quote="", prose=False)
    if name.startswith("-") or hay[place : place + 2] in ('",', "',"):
        space = _SPACE.match(hay, place)
        if name.startswith("-") and (split_name(name)[0] in _NOT_GIVEN or (space and hay.startswith("-", space.end()))):
            return None
        flag = name.startswith("-") or split_name(name)[-1] in _HEADERS
        if space and not _KEY_NEXT.match(hay, space.end()) and (flag or not _WORD.match(hay, space.end())):
            return _read_value(hay, space.end(), name, quote="", prose=False)
    gap = _IS.match(hay, place) or _SPACE.match(hay, place)
    if gap is None or _KEY_NEXT.match(hay, gap.end()) or (hay[place] == '"' and _WORD.match(hay, gap.end())):
        return None
    return _read_value(hay, gap.end(), name, quote="", prose=True)


def _read_pair(hay: str, start: int, end: int, floor: int, name: str) -> SecretSpan | None:
    """Return the `value` member of an object whose `name` member is this name.

    It may precede or follow the name.
    """
    edge = max(floor, start - 40)
    key = _PAIR_KEY.search(hay[edge:start])
    if key is None:
        return None
    close = _ENDS.search(hay, end, end + _PAIR_MOST)
    limit = close.start() if close else end + _PAIR_MOST
    has_sign = hay.find("v", end, limit) >= 0 or hay.find("V", end, limit) >= 0  # of `value`; a tenth of the time
    ahead = _PAIR_VALUE.search(hay, end, limit) if has_sign else None
    if ahead:
        return _read_value(hay, ahead.end(), name, quote=ahead.group("quote") or "", prose=False)
    first = max(floor, start - _PAIR_MOST)
    behind = hay[first : edge + key.start(1)]
    object_start = max(behind.rfind("{"), behind.rfind("- "))
    values = list(_PAIR_VALUE.finditer(behind, object_start + 1)) if object_start >= 0 else []
    if not values:
        return None
    span = _read_value(hay, first + values[0].end(), name, quote=values[0].group("quote") or "", prose=False)
    return span if span and span.end <= start and span.kind != UNDECIDED else None


def _read_value(hay: str, place: int, name: str, *, quote: str, prose: bool) -> SecretSpan | None:
    """Return the value that begins here as a secret, or None."""
    if place >= len(hay) or (hay[place] == _MASK_SIGN and MASK.match(hay, place)):
        return None
    opening_quote = _QUOTE.match(hay, place)
    if opening_quote:
        start = opening_quote.end()
        end = _find_closing_quote(hay, start, opening_quote.group(1), opening_quote.group(2))
    elif quote and hay[place] in "{[":
        start, end = place, _find_balanced_end(hay, place, quote)
    elif _is_header(name[-LONGEST:]):
        start, end = place, _find_match_end(_HEADER, hay, place)
    elif (
        hay[place - 1 : place + 1] == "={"
        and (braced_value := _BRACED.match(hay, place))
        and not classify_name(braced_value.group().strip("{}"))
    ):
        start, end = place, braced_value.end()
    else:
        placeholder = _PLACEHOLDER.match(hay, place) if hay[place] == "{" else None
        if placeholder and classify_name(placeholder.group(1).rpartition(".")[2]):
            return None
        start, end = place, _find_match_end(_BARE, hay, place)
        if not quote:
            end -= len(hay[start:end]) - len(hay[start:end].rstrip(",.:)]}"))
    if name.startswith("-") and (source := _SOURCE.match(hay, start, end)):
        if source.group() != "pass:":
            return None
        start = source.end()
    if scheme := _SCHEME.match(hay, start, end):
        start = scheme.end()
        parameters = _PARAMETERS.match(hay, start) if not opening_quote else None
        end = max(end, parameters.end()) if parameters else end
    return _check_value(hay, start, end, prose=prose and not opening_quote and not scheme)


def _read_element(hay: str, place: int) -> SecretSpan | None:
    """Return the content of an XML element, or None.

    A word followed by `>` is a redirection in a command, and what follows it has to stay readable.
    """
    content = _CONTENT.match(hay, place)
    if content is not None:
        return _check_value(hay, *content.span(content.lastindex or 0), prose=False)
    is_open = len(hay) - place <= _LONGEST_OPEN and hay.find("<", place) in {-1, len(hay) - 1}
    return SecretSpan(place, len(hay), UNDECIDED) if is_open else None


@lru_cache(maxsize=4_096)
def _is_header(name: str) -> bool:
    """Return whether the value goes to the end of its line."""
    return (split_name(name) or [""])[-1] in _HEADERS


def _check_value(hay: str, start: int, end: int, *, prose: bool) -> SecretSpan | None:
    text = hay[start:end]
    if not text.strip() or (text[0] == _MASK_SIGN and MASK.match(hay, start)):
        return None
    if NO_VALUE.fullmatch(text) or (prose and not (len(text) >= 8 and looks_random(text))):
        return SecretSpan(start, end, UNDECIDED) if end == len(hay) else None
    return SecretSpan(start, end, name_kind(token) if (token := LOOK.fullmatch(text)) else "value")


def _find_match_end(pattern: re.Pattern[str], hay: str, place: int) -> int:
    match = pattern.match(hay, place)
    return match.end() if match else place


def _find_closing_quote(hay: str, place: int, slashes: str, sign: str) -> int:
    """Return where the quoted text ends.

    It ends at a quote with as many backslashes as the opening one has, else at the end of the text.
    """
    position = hay.find(sign, place)
    while position >= 0:
        run = 0
        while position - run > place and hay[position - run - 1] == "\\":
            run += 1
        if run == len(slashes) or (not slashes and run % 2 == 0):
            return position - run if slashes else position
        if run < len(slashes):  # the enclosing text ends here
            return position - run
        position = hay.find(sign, position + 1)
    return len(hay)


_BRACKETS = re.compile(r"\\*\"|[{}\[\]]")


def _find_balanced_end(hay: str, place: int, quote: str) -> int:
    """Return where the object or array that begins here ends.

    Brackets inside its texts do not count.
    """
    depth, inside = 0, False
    for match in _BRACKETS.finditer(hay, place):
        sign = match.group()
        if sign.endswith('"'):
            if sign == quote or (quote == '"' and (len(sign) - 1) % 2 == 0):
                inside = not inside
        elif not inside:
            depth += 1 if sign in "{[" else -1
            if depth == 0:
                return match.end()
    return len(hay)
