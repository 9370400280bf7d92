"""A command line that a person answers, one command below the other, with what policy says about each.

All of the line is shown. The commands are those that policy reads: a line that it does not understand stays one text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from dashboard.cards.labels import render_icon
from dashboard.cards.safe_text import mark_gaps, mark_html
from toolcards.core.policy.shell.command_lines import SpelledCommand, spell_commands

_VARIABLES = re.compile(r"(?:[A-Za-z_]\w*=(?:'[^']*'|\"[^\"]*\"|[^\s'\"])*\s+)*")
_WORD = re.compile(r"[^\s'\"]+")
_QUOTED = re.compile(r"('[^']*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
_UNJUDGED = ("", "")


class CommandLine(NamedTuple):
    """The text in an input that is a command line, and what policy says about each of its commands.

    A judgement is `("allow", "")`, `("ask", why)` or two empty texts.
    """

    text: str = ""
    judgements: Sequence[Sequence[str]] = ()


NO_COMMAND = CommandLine()


def render_command_line(command: CommandLine) -> str:
    """Return the commands as a list, "" if the line is unclear."""
    line, judgements = command
    commands = spell_commands(line)
    if not commands:
        return ""
    pairs = judgements if len(judgements) == len(commands) else [_UNJUDGED] * len(commands)
    rows = "".join(_render_row(command, effect, why) for command, (effect, why) in zip(commands, pairs, strict=True))
    end = line[sum(len(command.joint) + len(command.text) for command in commands) :]
    last = f'<li><code class="joint">{mark_gaps(mark_html(end))}</code></li>' if end.strip() else ""
    return f'<ol class="commands">{rows}{last}</ol>'


def _render_row(command: SpelledCommand, effect: str, why: str) -> str:
    mark = {
        "allow": f'{render_icon("check")}<span class="sr">allowed: </span>',
        "ask": f'{render_icon("triangle-alert")}<span class="sr">needs you: </span>',
    }.get(effect, "")
    reason = f' <span class="reason">{mark_html(why)}</span>' if why else ""
    code = f"{_render_joint(command.joint)}{_render_command(command.text)}"
    return f'<li data-mark="{effect if mark else ""}">{mark}<code>{code}</code>{reason}</li>'


def _render_joint(joint: str) -> str:
    """Return the text between two commands; line breaks are the rows, unless there are many."""
    html = mark_gaps(mark_html(joint))
    if '<span class="mark">' not in html:
        html = mark_html(joint.strip(" \n"))
    return f'<span class="joint">{html}</span> ' if html else ""


def _render_command(text: str) -> str:
    """Return the command with its program in bold and quoted text in its own color."""
    variables = _VARIABLES.match(text)
    start = variables.end() if variables else 0
    program = _WORD.match(text, start)
    end = program.end() if program else start
    name = f"<b>{mark_html(text[start:end])}</b>" if program else ""
    pieces = [
        f'<span class="tok-string">{mark_gaps(mark_html(piece))}</span>' if number % 2 else mark_gaps(mark_html(piece))
        for number, piece in enumerate(_QUOTED.split(text[end:]))
    ]
    return f"{mark_html(text[:start])}{name}{''.join(pieces)}"
