"""Finds secrets in text: commands, headers, URLs, JSON in strings, error messages, parts of streams.

RE2 finds the candidates (in linear time for any input); small patterns, anchored at the candidate, then read a window
of bounded size. The work is bounded: after `MAX_SECRETS` secrets the remaining text counts as one secret. Texts are
searched as bytes, each as one Latin-1 character, so that positions are byte offsets.

What a secret looks like is elsewhere: its form (`token_patterns`), its name (`sensitive_names`, in the notations of
`named_secrets`), its place in a command, a URL or a key (`placed_secrets`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import re2

from toolcards.core.redaction import named_secrets, placed_secrets
from toolcards.core.redaction.sensitive_names import ABOUT
from toolcards.core.redaction.spans import B_OPEN, CLOSE, DOT, MASK, OPEN, UNDECIDED, SecretSpan, looks_random
from toolcards.core.redaction.token_patterns import (
    ANCHORS,
    BEGINNING,
    CANDIDATES,
    LONGEST_LEAD,
    PREFIXES,
    STARTS_WORD,
    list_anchored_starts,
    match_token,
    name_kind,
)

MAX_SECRETS = 2_000
_LONGEST_CACHED = 120  # characters of beginnings that are cached; names can be as long as the text
MAX_TAIL = 200  # characters of a word at the end of an incomplete text
_WINDOW = 1_024  # characters at the end of an incomplete text that may be undecided


def _compile_re2(pattern: str) -> re2._Regexp:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = 64 << 20
    return re2.compile(pattern.replace(r"\Z", r"\z").encode("latin-1"), options=options)


_TOKEN = _compile_re2(PREFIXES)  # checked before the hundred patterns of Python's re
FIND = _compile_re2(rf"{B_OPEN}secret |{CANDIDATES}|{placed_secrets.BEGINS}|{named_secrets.BEGINS}")
_ANCHOR = _compile_re2(ANCHORS)
_AT_END = re.compile(r"(?:\\*[\"'`][ \t]*)?\Z")  # after a closing quote, a colon makes the text the next name


def has_candidates(work: bytes) -> bool:
    """Return whether a secret or a mask may begin in the text."""
    return FIND.search(work) is not None or _ANCHOR.search(work) is not None


def find_secrets(work: bytes, hay: str, *, growing: bool = False) -> Iterator[SecretSpan]:
    """Yield the secrets of the text in order, without overlaps.

    `hay` is `work` as Latin-1. In an incomplete text (`growing`) the last span may be UNDECIDED until the next piece.
    """
    place, last_end, secret_count = 0, 0, 0
    decided_end = _find_decided_end(hay) if growing else len(hay)
    candidates = _Candidates(work, hay)
    while (candidate := candidates.find_next(place)) is not None:
        start, end = candidate
        span = _read_candidate(hay, start, end, place)
        if not isinstance(span, SecretSpan):
            place = span
            continue
        if growing and span.kind and _AT_END.match(hay, span.end) and span.end - span.start <= MAX_TAIL:
            span = span._replace(kind=UNDECIDED)
        if span.kind == UNDECIDED:
            decided_end, place = min(decided_end, span.start), max(span.start, start + 1)
            continue
        span = _trim_commands(hay, _trim_masks(hay, span))
        if span.kind and span.start >= decided_end:
            break
        if span.end > span.start:
            yield span
        secret_count += bool(span.kind)  # masks do not count, so that masking is idempotent
        if secret_count >= MAX_SECRETS and span.end < len(hay):
            yield SecretSpan(span.end, len(hay), "rest")
            return
        place = last_end = max(span.end, start + 1)
    if growing and max(decided_end, last_end) < len(hay):
        yield SecretSpan(max(decided_end, last_end), len(hay), UNDECIDED)


class _Candidates:
    """The places of a text where a secret may begin, from left to right, each searched for once."""

    def __init__(self, work: bytes, hay: str) -> None:
        self._work, self._size = work, len(hay)
        self._starts = _list_anchored_starts(work, hay)
        self._anchored = next(self._starts, self._size)
        self._match = FIND.search(work)

    def find_next(self, place: int) -> tuple[int, int] | None:
        """Return start and end of the first candidate from this place on.

        The end is the start for one that is known by its anchor.
        """
        if self._match is not None and self._match.start() < place:
            self._match = FIND.search(self._work, place)
        while self._anchored < place:
            self._anchored = next(self._starts, self._size)
        match, start = self._match, self._anchored
        if start < self._size and (match is None or start <= match.start()):
            self._anchored = next(self._starts, self._size)
            return start, start
        return match.span() if match is not None else None


def _list_anchored_starts(work: bytes, hay: str) -> Iterator[int]:
    """Yield in order where tokens may begin that are found by their anchors."""
    pending: list[int] = []
    place = 0
    while (anchor := _ANCHOR.search(work, place)) is not None:
        place = anchor.start() + 1
        while pending and pending[0] < anchor.start() - LONGEST_LEAD:
            yield pending.pop(0)
        if starts := list_anchored_starts(hay, anchor.start()):
            pending = sorted({*pending, *starts})
    yield from pending


def _read_candidate(hay: str, start: int, end: int, floor: int) -> SecretSpan | int:
    """Return the secret that begins here, or the position to continue from."""
    if hay[start] == B_OPEN[0]:
        mask = MASK.match(hay, start)
        return SecretSpan(start, mask.end(), "") if mask else start + len(B_OPEN)
    if start == end or _begins_token(hay[start:end]):
        starts_word = STARTS_WORD.match(hay, start) is not None
        # Inside a word, the end of the token does not matter, and each place of a long word may have to be read.
        token = match_token(hay, start, len(hay) if starts_word else start + MAX_TAIL)
        if token is not None:
            return SecretSpan(start, token.end(), name_kind(token)) if starts_word else start + 1
    if start == end:
        return floor
    return placed_secrets.read_placed_secret(hay, start, end, floor) or named_secrets.read_named_secret(
        hay, start, end, floor
    )


def _begins_token(beginning: str) -> bool:
    """Return whether FIND has matched the prefix of a token, which it prefers to all other beginnings."""
    is_short = len(beginning) <= _LONGEST_CACHED
    return (_matches_token if is_short else _matches_token.__wrapped__)(beginning)


@lru_cache(maxsize=1_024)
def _matches_token(beginning: str) -> bool:
    return _TOKEN.match(beginning.encode("latin-1")) is not None


def _trim_masks(hay: str, span: SecretSpan) -> SecretSpan:
    """Return the span without masks, so that masks are neither masked again nor cut."""
    mask = MASK.search(hay, span.start, span.end + 60) if span.kind and B_OPEN in hay[span.start : span.end] else None
    if mask is None or mask.start() >= span.end:
        return span
    return (
        SecretSpan(span.start, mask.start(), span.kind)
        if mask.start() > span.start
        else SecretSpan(mask.start(), mask.end(), "")
    )


_ONE_WORD = re.compile(r"[^\s|;&<>$()/]+")
_COMMAND = re.compile(r"\$\(|`[^`\s\"']*[`\s]", re.ASCII)


def _trim_commands(hay: str, span: SecretSpan) -> SecretSpan:
    """Return the span up to a command that a shell runs for its value: people have to see what runs."""
    before = hay[max(0, span.start - 2) : span.start]
    if not span.kind or before.endswith("'"):
        return span
    if before == "=`" and not (_ONE_WORD.fullmatch(hay, *span[:2]) and looks_random(hay[span.start : span.end])):
        return span._replace(end=span.start)
    command = _COMMAND.search(hay, span.start, span.end + 1)
    return span._replace(end=min(command.start(), span.end)) if command else span


# What may be the beginning of a secret at the end of a text: a URL whose userinfo has no `@` yet, a signature in a
# query, the value of a pair whose name is missing so far, and what may be piped into a login.
_TAILS = (
    re.compile(r"(?<!\w)(?:echo|printf) ([^\n|;&]{0,200}(?:\|[^\n|;&]{0,120})?)\Z", re.ASCII),
    re.compile(r"://([^\s/@\"'<>\\]*)\Z", re.ASCII),
    re.compile(r"[?&#](?:sig|signature|key|code|x-amz-signature)=([^\s&?#\"'<>\\]*)\Z", re.ASCII | re.IGNORECASE),
    re.compile(r"[\"'](?:\w{0,12}value|val)\\*[\"'][ \t]*:[ \t]*(?![{\[\s])([^{}]{0,500})\Z", re.ASCII | re.IGNORECASE),
    re.compile(r"(?:^|\n)[ \t]*- (?:value|val):[ \t]*((?:(?!\n[ \t]*- )[^{}]){0,500})\Z", re.ASCII | re.IGNORECASE),
)
_WORD_SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+/=~"


def _find_decided_end(hay: str) -> int:
    """Return the end of the part that no following text can turn into a secret."""
    size, base = len(hay), max(0, len(hay) - _WINDOW)
    tail = hay[base:]
    starts = [base + match.start(1) for pattern in _TAILS if (match := pattern.search(tail))]
    word = tail[len(tail.rstrip(_WORD_SIGNS)) :][-MAX_TAIL:]
    plain = word.islower() or word.isupper() or word.istitle() or word.isdigit()
    if word and (not plain or BEGINNING.match(word[word.rfind("=") + 1 :])):
        starts.append(size - len(word))
    return min(starts, default=size)


__all__ = [
    "ABOUT",
    "CLOSE",
    "DOT",
    "MASK",
    "OPEN",
    "UNDECIDED",
    "SecretSpan",
    "find_secrets",
    "has_candidates",
    "looks_random",
]
