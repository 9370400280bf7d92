"""A tool call as one sentence, the title of its card everywhere. Its input is what counts, and is shown next to it."""

from __future__ import annotations

import re
from typing import NamedTuple

from toolcards.client.common.json_text import format_text
from toolcards.client.common.tool_kinds import OWN, find_server_in_name, parse_server
from toolcards.core.calls.card import Card
from toolcards.core.policy.shell.catalogs import find_tool
from toolcards.core.summaries.command_phrases import SHORT, describe_command, describe_marked
from toolcards.core.summaries.tool_phrases import (
    describe_arguments,
    describe_call,
    get_first,
    is_scalar,
    name_tool,
    read_command,
)

MAX_LENGTH = 200
_LINE_BREAKS = re.compile(r"\s*\n\s*")
_MAX_INPUT = 1_000  # characters of an input that are read
_FOLDERS = ("workdir", "cwd", "working_directory", "directory", "dir_path")


class Summary(NamedTuple):
    """A call as a sentence, and whether it says the whole input."""

    line: str
    is_whole: bool


def summarize(card: Card) -> str:
    """Return a sentence of up to 200 characters, unescaped."""
    return build_summary(card).line


def build_summary(card: Card) -> Summary:
    """Return the call as a sentence."""
    sentence, is_whole = _describe(card)
    is_edited = card.approval is not None and card.approval.has_edited
    is_whole = is_whole and card.has_input and not is_edited and len(sentence) <= MAX_LENGTH and "\n" not in sentence
    return Summary(_shorten(sentence), is_whole)


def _shorten(line: str) -> str:
    text = line[:_MAX_INPUT].replace("\n", " ").strip()
    if len(text) <= MAX_LENGTH:
        return text
    end = f"… {len(line) - MAX_LENGTH:,} more characters"
    return text[: MAX_LENGTH - len(end)] + end


def _describe(card: Card) -> tuple[str, bool]:
    """Return the sentence, and whether it says all of the input."""
    server = _find_server(card)
    tool = card.tool.name.removeprefix(f"mcp__{server}__") if server else card.tool.name
    sentence, is_whole = _describe_input(card, tool, is_own=not server and card.tool.source in OWN)
    return (f"{server} › {sentence}" if server else f"{sentence[:1].upper()}{sentence[1:]}"), is_whole


def _find_server(card: Card) -> str:
    """Return the server in `mcp__server__tool`, "" without one."""
    name = card.tool.name
    return find_server_in_name(name, card.tool.source or parse_server(name)) if "__" in name else ""


def _describe_input(card: Card, tool: str, *, is_own: bool) -> tuple[str, bool]:
    value = card.input
    if not card.has_input:
        return card.text.head(_MAX_INPUT), False
    if not isinstance(value, dict):
        is_text = is_scalar(value)
        return " ".join(filter(None, (name_tool(tool), format_text(value) if is_text else ""))), is_text
    command = read_command(value) if card.tool.kind == "execute" else ""
    if command:
        return _describe_command(card, command)
    sentence = describe_call(tool, value, is_own=is_own)
    if sentence:
        return sentence, len(value) == 1 and all(isinstance(each, str) and each in sentence for each in value.values())
    return describe_arguments(tool, value)


def _describe_command(card: Card, command: str) -> tuple[str, bool]:
    """Return the sentence of a command: of all of it, of the parts that need a look, or "Run" and the command."""
    is_shell = not find_tool(card.tool.name).foreign
    folder = get_first(card.input, _FOLDERS)
    place = f" · in {folder}" if isinstance(folder, str) and folder else ""
    sentence = describe_command(command) if is_shell else ""
    if not sentence and is_shell and card.approval is not None and (len(command) > SHORT or "\n" in command):
        sentence = describe_marked(command, card.approval.terms.get("parts") or ())
        sentence = sentence if len(sentence) + len(place) <= MAX_LENGTH else ""
    is_whole = len(card.input) == 1 and isinstance(next(iter(card.input.values())), str)
    if sentence:
        return f"{sentence}{place}", is_whole
    return f"Run {_LINE_BREAKS.sub(' ↵ ', command.strip())}{place}", is_whole and "\n" not in command
