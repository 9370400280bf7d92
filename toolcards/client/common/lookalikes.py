"""Skeletons of names: names that look alike have the same one.

A skeleton only ever widens: rules that ask and deny, and the kinds of tools, hold for whatever looks like what they
name. Nothing is allowed for its skeleton. Standard library only: our client carries a copy.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# What looks like Latin letters and decomposes to nothing else: Unicode's confusables.txt (UTS #39), and the small
# Cyrillic and Greek letters that look like capitals.
_ALIKE = {
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
_LETTERS = {char: letter for letter, chars in _ALIKE.items() for char in chars}
_LETTERS = {other: letter for char, letter in _LETTERS.items() for other in (char.lower(), char.upper())} | _LETTERS
# I, l, 1 and | are one letter, and so are O and 0; programs write - and _ for one another.
_SAME = str.maketrans({"i": "l", "1": "l", "|": "l", "0": "o", "-": "_"})
_UNSEEN = frozenset({"Mn", "Me", "Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_BLANK = dict.fromkeys([*range(33), 127])  # ASCII that is not seen
LONGEST_LETTER = 18  # one character may stand for so many (U+FDFA is a whole sentence)
_LONGEST = 400  # characters of ordinary names


def skeleton(name: str) -> str:
    """Return what the name looks like, letter by letter.

    The skeleton of a name begins with the skeleton of what the name begins with.
    """
    return _short(name) if len(name) <= _LONGEST else _long(name)


@lru_cache(maxsize=4_096)
def _short(name: str) -> str:
    return _read(name)


@lru_cache(maxsize=32)
def _long(name: str) -> str:
    return _read(name)


def _read(name: str) -> str:
    return latin(name).lower().translate(_SAME)


def latin(name: str) -> str:
    """Return the name in plain letters, without accents, blanks and invisible characters."""
    if name.isascii():
        return name.translate(_BLANK)
    return "".join([char if "!" <= char <= "~" else _plain(char) for char in name])


@lru_cache(maxsize=4_096)
def _plain(char: str) -> str:
    parts = (part for part in unicodedata.normalize("NFKD", char) if unicodedata.category(part) not in _UNSEEN)
    letters = "".join(_LETTERS.get(part, part) for part in parts)
    shown = "".join(_LETTERS.get(part, part) for part in letters.casefold())
    return shown.upper() if char.isupper() and len(shown) == 1 else shown
