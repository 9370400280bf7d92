"""Hides secrets in what people see: by the name they stand under, and by their own looks.

A mask tells the kind, the length and a short keyed hash, so that two secrets can be told apart and
neither can be read: `‹secret github-token 40 · 3f9a›`. Hiding twice changes nothing.
"""

from __future__ import annotations

import hmac
import re
from typing import Any

from toolcards.core.calls.card import Card
from toolcards.core.calls.text_rope import Rope
from toolcards.core.redaction.detectors import CLOSE, DOT, FIND, OPEN, UNDECIDED, find_secrets, odd
from toolcards.core.redaction.sensitive_names import classify_name, classify_value_member, is_secret_value
from toolcards.core.redaction.token_patterns import LOOK, name_kind

MAX_DEPTH = 64
MEMORY = 4_096  # characters of a text in pieces that are looked at again with the next one
PASSES = 3  # what is hidden may let a second secret be seen; hardly ever a third
_MASK = re.compile(rf"{OPEN}secret [a-z\-]{{2,24}} \d{{1,9}} {DOT} [0-9a-f]{{4}}{CLOSE}")
_STREAMS = "input-streaming"  # the state of a card whose text goes on
_PAIR_MOST = 24  # members of an object that is a pair of a name and a value, and says more of it
_KEY_MOST = 12  # a name below a telling one is hidden from this length on, where it looks random
# What a JSON Web Key keeps to its owner; `k` is the whole of a symmetric one.
_JWK = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token"}
)


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
        for start, end, kind in find_secrets(work, hay):
            if kind:
                pieces += (_decode_text(hay[place:start], plain), self.mask(_decode_text(hay[start:end], plain), kind))
                place = end
        if not place:
            return text
        pieces.append(_decode_text(hay[place:], plain))
        return "".join(pieces)

    def value(self, value: Any) -> Any:
        """Return the JSON value with its secrets masked; parts without any are the very same objects."""
        return self._value(value, MAX_DEPTH)

    def mask(self, secret: str, kind: str = "value") -> str:
        """Return what is shown instead of the secret."""
        raw = secret.encode("utf-8", "surrogatepass")
        return f"{OPEN}secret {kind} {len(secret)} {DOT} {hmac.digest(self._key, raw, 'sha256').hex()[:4]}{CLOSE}"

    def growing(self, text: str) -> str:
        """Return a text that goes on with its secrets masked, without an end that may turn out to be one."""
        stream = StreamRedactor(self)
        return stream.text(text)

    def card(self, card: Card) -> Card:
        """Return the card as it may be shown; the very same card if nothing on it is secret."""
        changes = {name: new for name in _WHOLE if (new := self.value(old := getattr(card, name))) is not old}
        masked_text = self.growing if card.state == _STREAMS else self.text
        for name in ("text", "segment"):
            rope = getattr(card, name)
            if rope is not None and len(rope) and (shown := masked_text(old := str(rope))) is not old:
                changes[name] = Rope(shown)
        for name, fields in _INNER.items():
            inner = getattr(card, name)
            if inner is not None and (new := self._inner(inner, fields)) is not inner:
                changes[name] = new
        return card.replace(**changes) if changes else card

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
            return _restore_text(edited, original, self.text(original))
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
        hidden = _list_secret_members(given)
        for name, value in given.items():
            said = self.text(name) if len(name) > 8 else name
            if name in hidden or said is not name or OPEN in name or is_secret_value(name, value):
                weak = name not in hidden and said is name and classify_name(name) == "weak"
                new = self._all(value, depth, numbers=not weak)  # a name that holds a secret itself tells, too
            else:
                new = self._value(value, depth)
            shown[_find_free_name(said, shown)] = new
        same = all(map(lambda old, new: old is new, given.values(), shown.values()))
        return given if same and len(given) == len(shown) and given.keys() == shown.keys() else shown

    def _array(self, given: list[Any], depth: int) -> list[Any]:
        shown, secret = [], False
        for index, value in enumerate(given):
            new = self._all(value, depth) if secret else self._value(value, depth)
            shown.append(new)
            secret = type(value) is str and _announces_secret(value, index, given)
        return given if all(map(lambda old, new: old is new, given, shown)) else shown

    def _all(self, value: Any, depth: int, *, numbers: bool = True) -> Any:
        """Hide every text in the value, and every number: it stands under a name that tells."""
        kind = type(value)
        if value is None or kind is bool or value == "":
            return value
        if kind is str:
            return value if _MASK.fullmatch(value) else self._whole(value)
        if kind is int or kind is float:
            return self.mask(str(value), "number") if numbers else value
        if depth <= 0:
            return self.mask(str(len(value)), "nested")
        if kind is list:
            shown: Any = [self._all(item, depth - 1, numbers=numbers) for item in value]
        else:
            shown = {}
            for name, item in value.items():
                shown[_find_free_name(self._member(name), shown)] = self._all(item, depth - 1, numbers=numbers)
        return value if shown == value else shown

    def _member(self, name: str) -> str:
        """Hide a name below a telling one, as in `{"tokens": {"aB3…": "ann"}}`."""
        said = self.text(name)
        random = said is name and len(name) >= _KEY_MOST and odd(name) and any(map(str.isdigit, name))
        return self.mask(name, "key") if random and OPEN not in name else said

    def _whole(self, text: str) -> str:
        token = LOOK.fullmatch(text)
        return self.mask(text, name_kind(token) if token else "value")


class StreamRedactor:
    """Hides secrets in a text that comes in pieces, wherever it is cut.

    What began in an earlier piece is hidden in the next one too. The end of a piece that may turn out to be the
    beginning of a secret is held back until the next piece decides; `rest` gives it back where there is none.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._before, self._held = redactor, "", ""
        self._hiding = False  # the last secret went on to the end of what was shown: its mask is there already

    def text(self, piece: str) -> str:
        """Return what can be shown by now: what was held back before, and the piece."""
        return self._next(piece, growing=True)

    def rest(self) -> str:
        """Return what was held back: nothing follows any more."""
        return self._next("", growing=False) if self._held else ""

    def _next(self, piece: str, *, growing: bool) -> str:
        new = self._held + piece if self._held else piece
        whole = self._before + new if self._before else new
        work = whole.encode("utf-8", "surrogatepass")
        plain = whole.isascii()
        hay = whole if plain else work.decode("latin-1")
        place = len(self._before) if plain else len(self._before.encode("utf-8", "surrogatepass"))
        begun, pieces, end, hiding = place, [], len(hay), False
        for start, stop, kind in find_secrets(work, hay, growing=growing):
            if kind == UNDECIDED:
                end = max(start, place)
            elif kind and stop > place:
                pieces.append(_decode_text(hay[place : max(place, start)], plain))
                shown_before = start < begun and self._hiding
                pieces.append("" if shown_before else self._redactor.mask(_decode_text(hay[start:stop], plain), kind))
                place, hiding = stop, stop == len(hay)
        rest = _decode_text(hay[place:end], plain) if not plain or pieces or end < len(hay) or self._before else new
        self._held = _decode_text(hay[end:], plain) if end < len(hay) else ""
        self._hiding = hiding
        self._before = whole[: len(whole) - len(self._held)][-MEMORY:]
        return "".join([*pieces, rest]) if pieces else rest


_WHOLE = ("input", "original_input", "output", "output_message", "detail", "denied")
_INNER = {
    "tool": ("name", "title"),
    "error": ("message",),
    "approval": ("reason", "request_reason", "reply_to", "edited"),
    "decision": ("reason", "suggest"),
    "by_hand": ("note",),
}


def has_mask(value: Any) -> bool:
    """Whether a mask stands somewhere in the value."""
    if isinstance(value, str):
        return _MASK.search(value) is not None
    if isinstance(value, dict):
        return any(has_mask(name) or has_mask(part) for name, part in value.items())
    return isinstance(value, list) and any(map(has_mask, value))


def _restore_text(edited: str, original: str, shown: str) -> str:
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


def _decode_text(text: str, plain: bool) -> str:
    return text if plain else text.encode("latin-1").decode("utf-8", "surrogatepass")


def _find_free_name(name: str, taken: dict[str, Any]) -> str:
    """Return the name, or one like it that is not taken: two secrets may look alike once they are masked."""
    while name in taken:
        name += "\u2032"
    return name


def _list_secret_members(given: dict[str, Any]) -> tuple[str, ...]:
    """Return the members whose values are secret by what the whole object is.

    A pair such as `{"name": "Authorization", "value": …}`, a JSON Web Key, or a Secret of Kubernetes.
    """
    if "kty" in given:
        return tuple(_JWK & given.keys())
    if given.get("kind") == "Secret":
        return ("data", "stringData")
    if not 1 < len(given) <= _PAIR_MOST:
        return ()
    spelled = {name: classify_value_member(name) for name in given if len(name) <= 20}
    names = [given[name] for name, what in spelled.items() if what == "name" and type(given[name]) is str]
    if not any(len(name) < 80 and classify_name(name) for name in names):
        return ()
    strong = any(classify_name(name) == "strong" for name in names)
    values = [name for name, what in spelled.items() if what == "value" or (what == "words" and strong)]
    return tuple(name for name in values if any(is_secret_value(said, given[name]) for said in names))


def _announces_secret(word: str, index: int, given: list[Any]) -> bool:
    """The next item is a secret: `["--password", …]` in a command, `["Cookie", …]` in a list of headers."""
    if not 2 < len(word) < 80 or "=" in word or " " in word:
        return False
    if word.startswith("-"):
        return bool(classify_name(word.lstrip("-")))
    following = given[index + 1] if index + 1 < len(given) else None
    if type(following) is not str or following.lower() in _SECRET_HEADERS:
        return False
    if word.lower() in _SECRET_HEADERS:  # a list of names and values in turn, or [name, value, …]
        return index == 0 or (index % 2 == 0 and len(given) % 2 == 0)
    return len(given) == 2 and index == 0 and bool(classify_name(word))
