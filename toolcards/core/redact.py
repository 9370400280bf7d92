"""Hides secrets in what people see: by the name they stand under, and by their own looks.

A mask tells the kind, the length and a short keyed hash, so that two secrets can be told apart and
neither can be read: `‹secret github-token 40 · 3f9a›`. Hiding twice changes nothing.
"""

from __future__ import annotations

import hmac
import re
from typing import Any

from toolcards.core.lifecycle import Card
from toolcards.core.rope import Rope
from toolcards.core.secrets import CLOSE, DOT, FIND, OPEN, find
from toolcards.core.telling import keeps, tells
from toolcards.core.tokens import LOOK, kind_of

MAX_DEPTH = 64
MEMORY = 4_096  # characters of a text in pieces that are looked at again with the next one
PASSES = 3  # what is hidden may let a second secret be seen; hardly ever a third
_MASK = re.compile(rf"{OPEN}secret [a-z\-]{{2,24}} \d{{1,9}} {DOT} [0-9a-f]{{4}}{CLOSE}")
_NAMES, _VALUES = ("name", "key", "header", "field", "variable"), ("value", "val", "default", "content")


class Redactor:
    """Hides secrets; `key` makes the short hashes ours alone."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def text(self, text: str) -> str:
        """Return the text with its secrets masked; the very same text if there are none."""
        for _ in range(PASSES):
            shown = self._once(text)
            if shown is text:
                break
            text = shown
        return text

    def _once(self, text: str) -> str:
        work = text.encode("utf-8", "surrogatepass")
        if FIND.search(work) is None:
            return text
        plain = text.isascii()
        hay = text if plain else work.decode("latin-1")
        pieces: list[str] = []
        place = 0
        for start, end, kind in find(work, hay):
            if kind:
                pieces += (_back(hay[place:start], plain), self.mask(_back(hay[start:end], plain), kind))
                place = end
        if not place:
            return text
        pieces.append(_back(hay[place:], plain))
        return "".join(pieces)

    def value(self, value: Any) -> Any:
        """Return the JSON value with its secrets masked; parts without any are the very same objects."""
        return self._value(value, MAX_DEPTH)

    def mask(self, secret: str, kind: str = "value") -> str:
        """Return what is shown instead of the secret."""
        raw = secret.encode("utf-8", "surrogatepass")
        return f"{OPEN}secret {kind} {len(secret)} {DOT} {hmac.digest(self._key, raw, 'sha256').hex()[:4]}{CLOSE}"

    def card(self, card: Card) -> Card:
        """Return the card as it may be shown; the very same card if nothing on it is secret."""
        changes = {name: new for name in _WHOLE if (new := self.value(old := getattr(card, name))) is not old}
        for name in ("text", "segment"):
            rope = getattr(card, name)
            if rope is not None and len(rope) and (shown := self.text(old := str(rope))) is not old:
                changes[name] = Rope(shown)
        for name, fields in _INNER.items():
            inner = getattr(card, name)
            if inner is not None and (new := self._inner(inner, fields)) is not inner:
                changes[name] = new
        return card.but(**changes) if changes else card

    def restored(self, edited: Any, original: Any) -> Any:
        """Return what a person edited with the secrets put back that they saw masked, each where it was.

        Masks that were moved elsewhere stay masks: `masked` tells.
        """
        if self.value({"": original})[""] == edited:
            return original
        if isinstance(edited, dict) and isinstance(original, dict):
            shown = self.value(original)
            return {
                name: original[name] if name in original and shown.get(name) == part
                else self.restored(part, original.get(name)) for name, part in edited.items()
            }  # fmt: skip
        if isinstance(edited, list) and isinstance(original, list):
            shown = self.value(original)
            return [
                original[at] if at < len(original) and shown[at] == part
                else self.restored(part, original[at] if at < len(original) else None) for at, part in enumerate(edited)
            ]  # fmt: skip
        if isinstance(edited, str) and isinstance(original, str) and OPEN in edited:
            return _put_back(edited, original, self.text(original))
        return edited

    def _inner(self, inner: Any, fields: tuple[str, ...]) -> Any:
        changes = {name: new for name in fields if (new := self.value(old := getattr(inner, name))) is not old}
        if not changes:
            return inner
        return type(inner)(**(inner.__dict__ | changes))

    def _value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return self.text(value) if len(value) > 4 else value
        if kind is dict or kind is list:
            if depth <= 0:
                return self.mask(str(len(value)), "nested")
            return self._object(value, depth - 1) if kind is dict else self._array(value, depth - 1)
        return value

    def _object(self, given: dict[str, Any], depth: int) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        hidden = _pair(given)
        for name, value in given.items():
            said = self.text(name) if len(name) > 8 else name
            if name == hidden or said is not name or OPEN in name or keeps(name, value):
                shown[said] = self._all(value, depth)  # a name that holds a secret itself tells, too
            else:
                shown[said] = self._value(value, depth)
        same = all(map(lambda old, new: old is new, given.values(), shown.values()))
        return given if same and len(given) == len(shown) and given.keys() == shown.keys() else shown

    def _array(self, given: list[Any], depth: int) -> list[Any]:
        shown, secret = [], False
        for index, value in enumerate(given):
            new = self._all(value, depth) if secret else self._value(value, depth)
            shown.append(new)
            secret = type(value) is str and _calls_for(value, index, given)
        return given if all(map(lambda old, new: old is new, given, shown)) else shown

    def _all(self, value: Any, depth: int) -> Any:
        """Hide every text and number in the value: it stands under a name that tells."""
        kind = type(value)
        if value is None or kind is bool or value == "":
            return value
        if kind is str:
            return value if _MASK.fullmatch(value) else self._whole(value)
        if kind is int or kind is float:
            return self.mask(str(value), "number")
        if depth <= 0:
            return self.mask(str(len(value)), "nested")
        if kind is list:
            shown: Any = [self._all(item, depth - 1) for item in value]
        else:
            shown = {self.text(name): self._all(item, depth - 1) for name, item in value.items()}
        return value if shown == value else shown

    def _whole(self, text: str) -> str:
        token = LOOK.fullmatch(text)
        return self.mask(text, kind_of(token) if token else "value")


class Stream:
    """Hides secrets in a text that comes in pieces: what began in an earlier piece is hidden in the next one too."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._tail = redactor, ""

    def text(self, piece: str) -> str:
        """Return the next piece without secrets."""
        before, whole = len(self._tail), self._tail + piece
        self._tail = whole[-MEMORY:]
        work = whole.encode("utf-8", "surrogatepass")
        if FIND.search(work) is None:
            return piece
        plain = whole.isascii()
        hay = whole if plain else work.decode("latin-1")
        start_of_piece = before if plain else len(whole[:before].encode("utf-8", "surrogatepass"))
        pieces, place = [], start_of_piece
        for start, end, kind in find(work, hay):
            if kind and end > place:
                secret = _back(hay[start:end], plain)
                pieces.append(_back(hay[place : max(place, start)], plain))
                pieces.append(self._redactor.mask(secret, kind) if start >= start_of_piece else "")
                place = end
        return "".join([*pieces, _back(hay[place:], plain)])


_WHOLE = ("input", "original_input", "output", "output_message", "detail", "denied")
_INNER = {
    "tool": ("name", "title"),
    "error": ("message",),
    "approval": ("reason", "request_reason", "reply_to", "edited"),
    "decision": ("reason", "suggest"),
    "by_hand": ("note",),
}


def masked(value: Any) -> bool:
    """Whether a mask stands somewhere in the value."""
    if isinstance(value, str):
        return _MASK.search(value) is not None
    if isinstance(value, dict):
        return any(masked(name) or masked(part) for name, part in value.items())
    return isinstance(value, list) and any(map(masked, value))


def _put_back(edited: str, original: str, shown: str) -> str:
    """Put each secret of the original text back in place of its mask."""
    at = 0
    plain = _MASK.split(shown)
    for number, mask in enumerate(_MASK.findall(shown)):
        start = at + len(plain[number])
        following = plain[number + 1]
        end = original.find(following, start) if following else len(original)
        if end < 0:
            return edited
        edited = edited.replace(mask, original[start:end])
        at = end
    return edited


def _back(text: str, plain: bool) -> str:
    return text if plain else text.encode("latin-1").decode("utf-8", "surrogatepass")


def _pair(given: dict[str, Any]) -> str:
    """`{"name": "Authorization", "value": …}`: return the key of the value, "" where this is no such pair."""
    if len(given) > 6:
        return ""
    name = next((given[key] for key in _NAMES if type(given.get(key)) is str), "")
    value = next((key for key in _VALUES if key in given), "")
    return value if name and value and len(name) < 80 and keeps(name, given[value]) else ""


def _calls_for(word: str, index: int, given: list[Any]) -> bool:
    """The next item is a secret: `["--password", …]` in a command, `["Cookie", …]` in a list of headers."""
    if not 2 < len(word) < 80 or "=" in word or " " in word:
        return False
    if word.startswith("-"):
        return bool(tells(word.lstrip("-")))
    return len(given) == 2 and index == 0 and type(given[1]) is str and bool(tells(word))
