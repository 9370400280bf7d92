"""Masks secrets in displayed data, by the name of their member and by their form.

A mask shows the kind, the length and a short keyed hash, so that people can distinguish two secrets without reading
them: `‹secret github-token 40 · 3f9a›`. Masking is idempotent.
"""

from __future__ import annotations

import hmac
from functools import lru_cache
from operator import is_
from typing import Any

from toolcards.core.calls.card import Card
from toolcards.core.redaction.detectors import CLOSE, DOT, OPEN, UNDECIDED, find_secrets, has_candidates, looks_random
from toolcards.core.redaction.masks import MASK, restore_text
from toolcards.core.redaction.secret_members import announces_secret, list_secret_members, mask_schemas
from toolcards.core.redaction.sensitive_names import classify_name, is_secret_value
from toolcards.core.redaction.token_patterns import LOOK, name_kind
from toolcards.core.text.text_rope import Rope

MAX_DEPTH = 64
MEMORY = 4_096  # characters of a streamed text that are searched again with the next piece
SHORT = 100  # characters of texts whose result is cached
PASSES = 3  # a mask can reveal a second secret, and very rarely a third
_WITH_TEXT = frozenset({str, dict, list})  # types of values that can hold a secret
_STREAMS = "input-streaming"  # the state of a card whose text is incomplete
_KEY_MOST = 12  # a member name below a secret name is masked from this length on, if it looks random


class Redactor:
    """Masks secrets; `key` keys the short hashes of the masks."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def text(self, text: str) -> str:
        """Return the text with its secrets masked, the same object without any."""
        if len(text) <= SHORT and _is_harmless(text):
            return text
        for _ in range(PASSES):
            result = self._mask_pass(text)
            if result is text:
                break
            text = result
        return text

    def _mask_pass(self, text: str) -> str:
        work = text.encode("utf-8", "surrogatepass")
        if not has_candidates(work):
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
        """Return the JSON value with its secrets masked.

        Parts without secrets are the same objects.
        """
        return self._value(value, MAX_DEPTH)

    def mask(self, secret: str, kind: str = "value") -> str:
        """Return the mask of the secret."""
        raw = secret.encode("utf-8", "surrogatepass")
        return f"{OPEN}secret {kind} {len(secret)} {DOT} {hmac.digest(self._key, raw, 'sha256').hex()[:4]}{CLOSE}"

    def growing(self, text: str) -> str:
        """Return an incomplete text with its secrets masked.

        An end that may be the beginning of a secret is left out.
        """
        stream = StreamRedactor(self)
        return stream.text(text)

    def card(self, card: Card) -> Card:
        """Return the card with its secrets masked, the same object without any."""
        changes = self._find_changes(card, _CARD_FIELDS)
        masked_text = self.growing if card.state == _STREAMS else self.text
        for name in ("text", "segment"):
            rope = getattr(card, name)
            if rope is not None and rope.length and (new_text := masked_text(old := str(rope))) is not old:
                changes[name] = Rope(new_text)
        for name, fields in _NESTED_FIELDS.items():
            inner = getattr(card, name)
            if inner is not None and (inner_changes := self._find_changes(inner, fields)):
                changes[name] = type(inner)(**(inner.__dict__ | inner_changes))
        return card.replace(**changes) if changes else card

    def restore(self, edited_value: Any, original: Any) -> Any:
        """Return an edited value with the secrets in place of their masks.

        Masks that were moved elsewhere stay: `has_mask` finds them.
        """
        if self.value({"": original})[""] == edited_value:
            return original
        if isinstance(edited_value, dict) and isinstance(original, dict):
            masked_value = self.value(original)
            return {
                name: original[name] if name in original and masked_value.get(name) == part
                else self.restore(part, original.get(name)) for name, part in edited_value.items()
            }  # fmt: skip
        if isinstance(edited_value, list) and isinstance(original, list):
            masked_value = self.value(original)
            return [
                original[index] if index < len(original) and masked_value[index] == part
                else self.restore(part, original[index] if index < len(original) else None)
                for index, part in enumerate(edited_value)
            ]  # fmt: skip
        if isinstance(edited_value, str) and isinstance(original, str) and OPEN in edited_value:
            return restore_text(edited_value, original, self.text(original))
        return edited_value

    def _find_changes(self, part: Any, names: tuple[str, ...]) -> dict[str, Any]:
        """Return the masked values of those of the attributes that hold a secret."""
        changes = {}
        for name in names:
            value = getattr(part, name)
            if value and (masked_value := self._value(value, MAX_DEPTH)) is not value:
                changes[name] = masked_value
        return changes

    def _value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return self.text(value) if len(value) > 4 else value
        if kind is dict or kind is list:
            if depth <= 0:
                return self.mask(str(len(value)), "nested")
            return self._object(value, depth - 1) if kind is dict else self._array(value, depth - 1)
        return value

    def _object(self, members: dict[str, Any], depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        hidden = list_secret_members(members)
        fields = members.get("properties") if members.get("type") == "object" and depth > 1 else None
        for name, value in members.items():
            if fields is value and type(fields) is dict:
                result[name] = mask_schemas(fields, lambda part: self._value(part, depth - 1))
                continue
            if name not in hidden and len(name) <= SHORT and _is_short_plain_name(name):  # so is nearly every name
                result[name] = self._value(value, depth) if type(value) in _WITH_TEXT else value
                continue
            new_name = self.text(name) if len(name) > 8 else name
            if name in hidden or new_name is not name or OPEN in name or is_secret_value(name, value):
                weak = name not in hidden and new_name is name and classify_name(name) == "weak"
                new = self._all(value, depth, numbers=not weak)  # a name that holds a secret makes its value one
            else:
                new = self._value(value, depth)
            result[_find_free_name(new_name, result)] = new
        same = all(map(is_, members.values(), result.values()))
        return members if same and len(members) == len(result) and members.keys() == result.keys() else result

    def _array(self, items: list[Any], depth: int) -> list[Any]:
        result, secret = [], False
        for index, value in enumerate(items):
            new = self._all(value, depth) if secret else self._value(value, depth)
            result.append(new)
            secret = type(value) is str and announces_secret(value, index, items)
        return items if all(map(is_, items, result)) else result

    def _all(self, value: Any, depth: int, *, numbers: bool = True) -> Any:
        """Mask every text and number of a value that belongs to a secret name."""
        kind = type(value)
        if value is None or kind is bool or value == "":
            return value
        if kind is str:
            return value if MASK.fullmatch(value) else self._mask_text(value)
        if kind is int or kind is float:
            return self.mask(str(value), "number") if numbers else value
        if depth <= 0:
            return self.mask(str(len(value)), "nested")
        if kind is list:
            result: Any = [self._all(item, depth - 1, numbers=numbers) for item in value]
        else:
            result = {}
            for name, item in value.items():
                result[_find_free_name(self._member(name), result)] = self._all(item, depth - 1, numbers=numbers)
        return value if result == value else result

    def _member(self, name: str) -> str:
        """Mask a member name below a secret name, as in `{"tokens": {"aB3…": "ann"}}`."""
        new_name = self.text(name)
        random = new_name is name and len(name) >= _KEY_MOST and looks_random(name) and any(map(str.isdigit, name))
        return self.mask(name, "key") if random and OPEN not in name else new_name

    def _mask_text(self, text: str) -> str:
        token = LOOK.fullmatch(text)
        return self.mask(text, name_kind(token) if token else "value")


class StreamRedactor:
    """Masks secrets in a text that arrives in pieces, wherever it is cut.

    A secret that began in an earlier piece is masked in the next one too. The end of a piece that may be the beginning
    of a secret is kept back until the next piece decides; `flush` returns it when no piece follows.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._before, self._tail = redactor, "", ""
        self._hiding = False  # the last secret reached the end of what was returned, so its mask is already there

    def text(self, piece: str) -> str:
        """Return what can be shown of the text up to this piece."""
        return self._next(piece, growing=True)

    def flush(self) -> str:
        """Return the text that was kept back; no piece follows."""
        return self._next("", growing=False) if self._tail else ""

    def _next(self, piece: str, *, growing: bool) -> str:
        new = self._tail + piece if self._tail else piece
        full_text = self._before + new if self._before else new
        work = full_text.encode("utf-8", "surrogatepass")
        plain = full_text.isascii()
        hay = full_text if plain else work.decode("latin-1")
        place = len(self._before) if plain else len(self._before.encode("utf-8", "surrogatepass"))
        piece_start, pieces, end, hiding = place, [], len(hay), False
        for start, stop, kind in find_secrets(work, hay, growing=growing):
            if kind == UNDECIDED:
                end = max(start, place)
            elif kind and stop > place:
                pieces.append(_decode_text(hay[place : max(place, start)], plain))
                shown_before = start < piece_start and self._hiding
                pieces.append("" if shown_before else self._redactor.mask(_decode_text(hay[start:stop], plain), kind))
                place, hiding = stop, stop == len(hay)
        ending = _decode_text(hay[place:end], plain) if not plain or pieces or end < len(hay) or self._before else new
        self._tail = _decode_text(hay[end:], plain) if end < len(hay) else ""
        self._hiding = hiding
        self._before = full_text[: len(full_text) - len(self._tail)][-MEMORY:]
        return "".join([*pieces, ending]) if pieces else ending


_CARD_FIELDS = ("input", "original_input", "output", "output_message", "detail", "denied", "agent_note")
_NESTED_FIELDS = {
    "tool": ("name", "title"),
    "error": ("message",),
    "approval": ("reason", "request_reason", "reply_to", "edited"),
    "decision": ("reason", "suggest"),
    "by_hand": ("note",),
}


def _decode_text(text: str, plain: bool) -> str:
    return text if plain else text.encode("latin-1").decode("utf-8", "surrogatepass")


@lru_cache(maxsize=4_096)
def _is_harmless(text: str) -> bool:
    """Return whether the text holds no secret. Names, states, reasons and digests repeat often."""
    work = text.encode("utf-8", "surrogatepass")
    if not has_candidates(work):
        return True
    return not any(kind for _, _, kind in find_secrets(work, text if text.isascii() else work.decode("latin-1")))


@lru_cache(maxsize=4_096)
def _is_short_plain_name(name: str) -> bool:
    """Return whether the name holds no secret and does not make its value one."""
    return OPEN not in name and not classify_name(name) and _is_harmless(name)


def _find_free_name(name: str, members: dict[str, Any]) -> str:
    """Return the name, or an unused variant: two masked secrets may have the same name."""
    while name in members:
        name += "\u2032"
    return name
