"""The command lines in `lines/`, and random ones by the grammar in the same folder."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "core/policy/shell/lines"
DEEP = 3  # commands inside each other
_SIGNS = str.maketrans({"⏎": "\n", "␍": "\r", "⇥": "\t"})


def read_lines(name: str) -> list[str]:
    """Return the command lines of a file, comments aside."""
    texts = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [json.loads(text) if text.startswith('"') else text for text in texts if text and not text.startswith("# ")]


class Writer:
    """Writes random command lines by the grammar; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._choices: dict[str, list[str]] = {}
        name = ""
        for text in (FOLDER / "grammar.txt").read_text(encoding="utf-8").splitlines()[2:]:
            if re.fullmatch(r"[a-z]+", text):
                name = text
            else:
                self._choices.setdefault(name, []).append(text[2:].translate(_SIGNS))

    def line(self) -> str:
        """Return one more command line."""
        return self._expand("line", 0)

    def _expand(self, name: str, depth: int) -> str:
        if name == "command" and depth > DEEP:
            name = "simple"
        choice = self._random.choice(self._choices[name])
        below = depth + (name == "command")

        def fill(match: re.Match[str]) -> str:
            text = self._expand(match[2], below)
            return text.replace("'", "'\\''") if match[1] else text

        return re.sub(r"§('?)([a-z]+)§", fill, choice)
