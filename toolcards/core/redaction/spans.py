"""Positions of secrets in a text, existing masks, and whether a text looks random."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import NamedTuple

OPEN, DOT, CLOSE = "\u2039", "\u00b7", "\u203a"
B_OPEN, B_DOT, B_CLOSE = (sign.encode().decode("latin-1") for sign in (OPEN, DOT, CLOSE))
MASK = re.compile(rf"{B_OPEN}secret [a-z\-]{{2,24}} \d{{1,9}} {B_DOT} [0-9a-f]{{4}}{B_CLOSE}")
UNDECIDED = "undecided"
# A placeholder, a type name or the next word of a sentence is not a secret.
NO_VALUE = re.compile(
    r"(?:\$\{?\w+\}?|%\w+%|%\(\w+\)s|\{\{?[\w. ]{1,40}\}?\}|<[\w \-]{1,40}>|\[[A-Za-z]{4,12}\]?|\*{3,}|\.{3}|[xX]{3,}|"
    r"(?i:str|string|int|integer|number|bool|boolean|none|null|nil|undefined|true|false|object|any|optional|required)|"
    r"is|was|the|a|of|for|and|or|to|in|on|from|with|has|not|"
    r"process\.env\.\w+|os\.environ\S*|os\.getenv\S*|getenv\S*|[a-z_][a-z_.]{0,40}\(.*|[)\]},;]+)[,.;:)\]}]*",
    re.ASCII,
)


class SecretSpan(NamedTuple):
    """The position of a secret in the text.

    Kind "" is an existing mask; UNDECIDED means that the next piece of the text decides.
    """

    start: int
    end: int
    kind: str


def looks_random(text: str) -> bool:
    """Return whether the text looks random.

    Random texts have letters with digits or mixed case, and few repeated characters.
    """
    sample = text[:80]
    if not any(sign.isdigit() for sign in sample) and (sample.islower() or sample.isupper() or sample.istitle()):
        return False
    if not any(sign.isalpha() for sign in sample) and len(sample) < 12:
        return False
    counts = Counter(sample)
    entropy = -sum(n / len(sample) * math.log2(n / len(sample)) for n in counts.values())
    return entropy >= 2.5
