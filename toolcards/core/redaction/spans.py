"""Places of secrets in a text, masks that stand there already, and whether a text looks random."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import NamedTuple

OPEN, DOT, CLOSE = "\u2039", "\u00b7", "\u203a"
B_OPEN, B_DOT, B_CLOSE = (sign.encode().decode("latin-1") for sign in (OPEN, DOT, CLOSE))
MASK = re.compile(rf"{B_OPEN}secret [a-z\-]{{2,24}} \d{{1,9}} {B_DOT} [0-9a-f]{{4}}{B_CLOSE}")
UNDECIDED = "undecided"
# A place for a value, a type's name or the next word of a sentence is no secret.
NO_VALUE = re.compile(
    r"(?:\$\{?\w+\}?|%\w+%|%\(\w+\)s|\{\{?[\w. ]{1,40}\}?\}|<[\w \-]{1,40}>|\[[A-Za-z]{4,12}\]?|\*{3,}|\.{3}|[xX]{3,}|"
    r"(?i:str|string|int|integer|number|bool|boolean|none|null|nil|undefined|true|false|object|any|optional|required)|"
    r"is|was|the|a|of|for|and|or|to|in|on|from|with|has|not|"
    r"process\.env\.\w+|os\.environ\S*|os\.getenv\S*|getenv\S*|[a-z_][a-z_.]{0,40}\(.*|[)\]},;]+)[,.;:)\]}]*",
    re.ASCII,
)


class Span(NamedTuple):
    """A secret's place in the text; kind "" is a mask that is there already, UNDECIDED what the next piece tells."""

    start: int
    end: int
    kind: str


def odd(text: str) -> bool:
    """Return whether the text looks random: letters with digits or of mixed case, and hardly any sign twice."""
    sample = text[:80]
    if not any(sign.isdigit() for sign in sample) and (sample.islower() or sample.isupper() or sample.istitle()):
        return False
    if not any(sign.isalpha() for sign in sample) and len(sample) < 12:
        return False
    counts = Counter(sample)
    entropy = -sum(n / len(sample) * math.log2(n / len(sample)) for n in counts.values())
    return entropy >= 2.5
