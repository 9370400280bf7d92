"""Skeletons of names: names that look alike have the same skeleton.

Skeletons only make rules stricter: asks, denies and the kinds of tools apply to all names that look alike, an allow
never does. Standard library only: the client has a copy.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Characters that resemble Latin letters and do not decompose to them: Unicode's confusables.txt (UTS #39), and the
# small Cyrillic and Greek letters that look like capitals.
_LOOKALIKES = {
    "_": "˗‐‒–⁃−➖Ⲻ",
    "a": "ɑΑαАаᎪᗅ⍺ꓮ𐊠𖽀",
    "aa": "Ꜳꜳ",
    "ae": "ÆæӔӕ",
    "ao": "Ꜵꜵ",
    "ar": "🜇",
    "au": "Ꜷꜷ",
    "av": "ꜸꜹꜺꜻ",
    "ay": "Ꜽꜽ",
    "b": "ƁƄΒВЬᏏᏴᑲᒈᖯᗷꓐꞴ𐊂𐊡𐌁в",
    "bl": "Ы",
    "c": "ƇСсᏟᴄⲤⲥꓚꮯ𐊢𐌂𐐕𐐽𐔜𑣩𑣲🝌",
    "d": "ƊԁᎠᏧᑯᒇᗞᗪꓒꓓ",
    "dz": "ʣ",
    "e": "ΕЕеҽᎬ℮⋿ⴹꓰꬲ𐊆𑢦𑢮єε",
    "f": "ϜքᖴẝꓝꞘꞙꬵ𐊇𐊥𐔥𑢢𑣂𝈓",
    "g": "ƍƓɡԌցᏀᏳᶃꓖ",
    "h": "ΗНһհᎻᏂᕼⲎꓧ𐋏н",
    "i": "ıɩɪιіӏᎥ⍳ꙇꭵ𑣃",
    "j": "ͿϳЈјᎫᒍꓙꞲ",
    "k": "ƘΚКᏦᛕⲔꓗ𐔘кκĸ",
    "l": "ƖǀΙІӀ۱Ꮮᒪᛁ∣⏽ⲒⳐⵏꓡꓲ𐊊𐌉𐌠𐐛𐔦𑢣𑢲𖼖𖼨𝈪",
    "ll": "ǁ‖∥",
    "lo": "Ю",
    "ls": "ʪ",
    "lt": "₶",
    "lz": "ʫ",
    "m": "ΜϺМᎷᗰᛖⲘꓟ𐊰𐌑м",
    "mb": "🝫",
    "n": "ΝոռⲚꓠ𐔓пη",
    "o": "ΟοσОоՕօ۵०০੦૦ଠ୦௦ం౦ಂ೦ംഠ൦ං๐໐ဝ၀ჿዐᎤᴏᴑⲞⲟⵔ〇ꓳꬽ𐊒𐊫𐐄𐐬𐓂𐓪𐔖𑓐𑢵𑣈𑣗𑣠",
    "oe": "Œœ",
    "oo": "∞ꚘꚙꝎꝏ",
    "p": "ƤΡρРрᏢᑭᒆ⍴Ⲣⲣꓑ𐊕",
    "q": "ԛգզⵕ",
    "qe": "🜀",
    "r": "ƦгґᎡᏒᖇᴦⲅꓣꭇꭈꮁ𐒴𖼵𝈖",
    "rn": "𑜀𑣣",
    "s": "ƽЅѕՏᏕᏚꓢꜱꮪ𐊖𐐠𐑈𑣁𖼺",
    "t": "ƬΤТᎢ⊤⟙Ⲧꓔ𐊗𐊱𐌕𑢼𖼊🝨тτ",
    "tf": "ꝷ",
    "ts": "ʦ",
    "u": "ʋυՍսሀᑌᑧᴜ∪⋃ꓴꞟꭎꭒ𐓎𐓶𑢸𑣘𖽂",
    "ue": "ᵫ",
    "uo": "ꭣ",
    "v": "νѴѵ۷Ꮩᐯᴠ∨⋁ⴸꓦꛟꮩ𐔝𑜆𑢠𑣀𖼈𝈍",
    "vb": "🝬",
    "w": "ɯѡԜԝաᎳᏔᴡꓪꮃ𑜊𑜎𑜏𑣦𑣯",
    "x": "×ΧХхᕁᕽ᙭᙮ᚷ╳⤫⤬⨯ⲬⵝꓫꞳ𐊐𐊴𐌗𐌢𐔧𑣬",
    "y": "ƳɣʏΥγУуҮүყᎩᎽᶌỿⲨꓬꭚ𐊲𑢤𑣜𖽃",
    "z": "ΖᏃᴢꓜꮓ𐋵𑢩𑣄𑣥",
}
_LETTERS = {char: letter for letter, chars in _LOOKALIKES.items() for char in chars}
_LETTERS = {variant: letter for char, letter in _LETTERS.items() for variant in (char.lower(), char.upper())} | _LETTERS
# I, l, 1 and | are one letter, and so are O and 0; programs write - and _ for one another.
_SAME = str.maketrans({"i": "l", "1": "l", "|": "l", "0": "o", "-": "_"})
_INVISIBLE = frozenset({"Mn", "Me", "Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_BLANK = dict.fromkeys([*range(33), 127])  # invisible ASCII
LONGEST_LETTER = 18  # characters that one may become (U+FDFA is a whole sentence)
_LONGEST = 400  # characters of ordinary names


def make_skeleton(name: str) -> str:
    """Return what the name looks like, letter by letter.

    The skeleton of a prefix is a prefix of the skeleton.
    """
    return _make_short_skeleton(name) if len(name) <= _LONGEST else _make_long_skeleton(name)


@lru_cache(maxsize=4_096)
def _make_short_skeleton(name: str) -> str:
    return _make_skeleton(name)


@lru_cache(maxsize=32)
def _make_long_skeleton(name: str) -> str:
    return _make_skeleton(name)


def _make_skeleton(name: str) -> str:
    return to_latin(name).lower().translate(_SAME)


def to_latin(name: str) -> str:
    """Return the name in plain letters, without accents, blanks and invisible characters."""
    if name.isascii():
        return name.translate(_BLANK)
    return "".join([char if "!" <= char <= "~" else _to_latin_character(char) for char in name])


@lru_cache(maxsize=4_096)
def _to_latin_character(char: str) -> str:
    parts = (part for part in unicodedata.normalize("NFKD", char) if unicodedata.category(part) not in _INVISIBLE)
    letters = "".join(_LETTERS.get(part, part) for part in parts)
    folded_letters = "".join(_LETTERS.get(part, part) for part in letters.casefold())
    return folded_letters.upper() if char.isupper() and len(folded_letters) == 1 else folded_letters
