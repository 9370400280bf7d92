"""Terminal sequences (ECMA-48) in the texts of tools: colors, titles, links and movements of the cursor."""

from __future__ import annotations

import re

SEQUENCE = re.compile(
    "\x1b(?:"
    r"\[(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"  # CSI, of which colors end in m
    "|\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)"  # OSC: titles and links, up to BEL or ST
    r"|[()][0-9A-Z]"  # character sets, with which `tput sgr0` ends
    ")"
)


def strip_sequences(text: str) -> str:
    """Return the text without terminal sequences, which print nothing."""
    return SEQUENCE.sub("", text) if "\x1b" in text else text


def flatten_text(text: str, most: int) -> str:
    """Return an error or output in one line, cut to this length.

    For texts of tools only: what a person approves is shown with each of its characters.
    """
    return " ".join(strip_sequences(text[: 8 * most]).split())[:most]
