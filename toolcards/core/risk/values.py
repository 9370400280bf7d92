"""Hints in single values of an input: places of files, SQL statements, amounts of money."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from toolcards.core.risk.hints import ACCESS_FILES, OUTSIDE, SECRETS, SYSTEM_FILES, Hint

MAX_VALUES = 20_000  # values of one input; a larger input has its own hint
LARGE_AMOUNT = 1_000  # in whole units of any currency
_LOCATION = re.compile(r"path|file|folder|dir|target|dest|uri|location", re.I)
_SECRET = re.compile(
    r"(^|/)(\.env(\.|$)|\.ssh(/|$)|\.aws(/|$)|id_[a-z0-9]+$|credentials|secrets?(\.|/|$)|[^/]+\.pem$)", re.I
)
_OUTSIDE = re.compile(r"(^|/)\.\.(/|$)|^~|^/(etc|usr|var|bin|sbin|boot|root|dev|proc|sys)(/|$)")
_SYSTEM = re.compile(
    r"/?\*?|/(etc|usr|bin|sbin|boot|lib\d*|sys|proc|System|Library|dev(?!/(null|std(in|out|err)|tty|fd|shm|zero)(/|$)))"
    r"(/.*)?|(/(home|root|Users|var|opt)|~|\$HOME|\$\{HOME\})/?\*?|[A-Za-z]:[\\/]*\*?|[A-Za-z]:[\\/]+Windows([\\/].*)?",
    re.S,
)
_ACCESS = re.compile(
    r"(^|[/\\])(authorized_keys2?|sudoers(\.d)?|\.ssh[/\\](config|rc|environment)|\.netrc|crontab|cron\.[a-z]+"
    r"|\.(bash|zsh|k?sh)rc|\.(bash_|z)?profile|\.bash_login|\.zshenv|\.git[/\\]hooks|LaunchAgents|LaunchDaemons"
    r"|systemd[/\\]user)([/\\]|$)",
    re.I,
)
_GAP = r"(?:\s|/\*[^*]{0,200}\*/|--[^\n]{0,200}\n)+"
_SQL = re.compile(
    rf"\bdrop{_GAP}(?:table|database|schema|view|materialized|index|column|user|role|collection|keyspace|owned)\b"
    rf"|\btruncate{_GAP}(?:table\b|only\b|[\w\".`]+\s*(?:;|,|cascade|restart|$))"
    rf"|\bdelete{_GAP}from{_GAP}[\w\".`\[\]]+(?!.{{0,2000}}\bwhere\b)"
    rf"|\bupdate{_GAP}(?:only{_GAP})?[\w\".`\[\]]+{_GAP}(?:as{_GAP})?(?:\w+{_GAP})?set\b(?!.{{0,2000}}\bwhere\b)"
    rf"|\bflush(?:all|db)\b|\bdropdatabase\b|\.drop\(\s*\)|\bdeletemany\(\s*\{{\s*\}}|\bdelete_many\(\s*\{{\s*\}}",
    re.I | re.S,
)
_ANY_COMMENT = re.compile(r"/\*.{0,2000}?\*/|--[^\n]*", re.S)
_COMMENTS = re.compile(r"\A" + _GAP)
_SQL_WORDS = ("drop", "truncate", "delete", "flush", "update")
_ROW_CHANGE = re.compile(
    rf"\b(?:insert{_GAP}(?:or{_GAP}\w+{_GAP})?into|replace{_GAP}into|merge{_GAP}into|delete{_GAP}from)\b"
    rf"|\bupdate{_GAP}(?:only{_GAP})?[\w\".`\[\]]+{_GAP}(?:as{_GAP})?(?:\w+{_GAP})?set\b",
    re.I,
)
_RECIPIENTS = re.compile(
    r"to|cc|bcc|recipients?|audience|(to|cc|bcc)_?(emails?|addresses)|mailing_?list|channels?", re.I
)
_ADDRESS = re.compile(r"[^\s@,;<>]+@[^\s@,;<>]+")
_LIST_NAME = re.compile(
    r"\A[@#]?(all|everyone|everybody|team|staff|company|customers|users|list|announce\w*|here|channel)([-_.@]|\Z)", re.I
)
MANY = 5  # recipients
_MONEY = re.compile(r"amount|total|sum|price|value|cents|money|balance|usd|eur|gbp", re.I)
_MINOR_UNITS = re.compile(r"cents|minor|pence", re.I)
_SPACES = "_ \u00a0\u2009\u202f’'"  # which separate thousands, like the points and commas
_NUMBER = re.compile(rf"([-+]?\d[\d.,{_SPACES}]*)(e\+?\d{{1,3}})?", re.I)
_DECIMALS = re.compile(r"(.*)([.,])(\d*)")


class Leaf(NamedTuple):
    """A value without members, the lower-case name of its field, and the name of the field above."""

    field: str
    parent: str
    value: Any


def list_leaves(value: Any) -> tuple[list[Leaf], bool]:
    """Return the values inside, and whether the list is complete.

    An item of a list has the name of the list.
    """
    leaves: list[Leaf] = []
    pending = [Leaf("", "", value)]
    count = 0
    while pending:
        leaf = pending.pop()
        count += 1
        if count > MAX_VALUES:
            return leaves, False
        if isinstance(leaf.value, dict):
            pending += [Leaf(str(name).lower(), leaf.field, item) for name, item in leaf.value.items()]
        elif isinstance(leaf.value, list):
            pending += [leaf._replace(value=item) for item in leaf.value]
        else:
            leaves.append(leaf)
    leaves.reverse()
    return leaves, True


def find_location_hints(leaf: Leaf, *, is_read_only: bool) -> Iterator[Hint]:
    """Yield the hints of a text whose field names a place."""
    if not _LOCATION.search(leaf.field):
        return
    place = leaf.value[:4_096]
    if not is_read_only:
        yield from find_written_hints(place)
    if is_secret_place(place):
        yield SECRETS
    if _OUTSIDE.search(place):
        yield OUTSIDE


def find_written_hints(place: str) -> Iterator[Hint]:
    """Yield the hints of a place that the call writes to."""
    path = _normalize(place)
    if _ACCESS.search(path):
        yield ACCESS_FILES
    elif path and _SYSTEM.fullmatch(path):
        yield SYSTEM_FILES


def is_secret_place(place: str) -> bool:
    """Return whether files there usually hold secrets."""
    return _SECRET.search(place) is not None


@lru_cache(maxsize=64)
def is_destructive_sql(text: str, *, may_be_prose: bool = False) -> bool:
    """Return whether a statement in the text drops or empties something.

    In prose, the statement must begin a part of the text.
    """
    lowercase_text = text.lower()
    if not any(word in lowercase_text for word in _SQL_WORDS):
        return False
    if may_be_prose:
        return any(_SQL.match(_COMMENTS.sub("", statement, count=1)) for statement in text.split(";"))
    return any(_SQL.search(form) for form in (text, _ANY_COMMENT.sub(" ", text)))  # a comment may say "where"


@lru_cache(maxsize=64)
def changes_rows(text: str, *, may_be_prose: bool = False) -> bool:
    """Return whether a statement in the text changes rows.

    In prose, the statement must begin a part of the text.
    """
    if may_be_prose:
        return any(_ROW_CHANGE.match(_COMMENTS.sub("", statement, count=1)) for statement in text.split(";"))
    return _ROW_CHANGE.search(text) is not None


def reaches_many(leaves: Iterable[Leaf]) -> bool:
    """Return whether the call sends to a list or many recipients."""
    count = 0
    for leaf in leaves:
        if not isinstance(leaf.value, str) or not _RECIPIENTS.fullmatch(leaf.field):
            continue
        parts = [part.strip() for part in re.split(r"[,;]", leaf.value[:4_096])]
        if any(map(_LIST_NAME.match, parts)):
            return True
        count += len(_ADDRESS.findall(leaf.value[:4_096]))
    return count >= MANY


def is_large_amount(leaf: Leaf) -> bool:
    """Return whether the value is a large amount of money."""
    name = leaf.field if _MONEY.search(leaf.field) else leaf.parent if leaf.field in {"value", "units"} else ""
    if not _MONEY.search(name):
        return False
    amount = _read_amount(leaf.value)
    return amount / (100 if _MINOR_UNITS.search(leaf.field) else 1) >= LARGE_AMOUNT


def _read_amount(value: Any) -> float:
    """Return the amount without its sign; infinity for a number that is too large, 0 for no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return 0.0
    if isinstance(value, str):
        number = _NUMBER.search(value[:100])
        if number is None:
            return 0.0
        value = _normalize_number(re.sub(f"[{_SPACES}]", "", number[1]).rstrip(".,")) + (number[2] or "")
    try:
        amount = abs(float(value))
    except (ValueError, OverflowError):
        return math.inf if isinstance(value, int) else 0.0
    return 0.0 if math.isnan(amount) else amount


def _normalize_number(digits: str) -> str:
    """Return the digits with one decimal point at most.

    The last sign is the decimal point, unless it is there twice, or alone with three digits behind it.
    """
    parts = _DECIMALS.fullmatch(digits)
    if parts is None or digits.count(parts[2]) > 1 or (len(parts[3]) == 3 and not re.search("[.,]", parts[1])):
        return re.sub("[.,]", "", digits)
    return f"{re.sub('[.,]', '', parts[1])}.{parts[3]}"


def _normalize(place: str) -> str:
    path = place.removeprefix("file://").strip()
    return posixpath.normpath(re.sub(r"/{2,}", "/", path)) if path.startswith("/") and path != "/" else path
