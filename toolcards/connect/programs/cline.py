"""Cline: one hook script per event, and the key in a file that only its owner can read.

Tested with cline 3.0.65. Cline runs the tool after a hook that fails, that prints no JSON, or that takes longer than
two minutes. So the script that a tool waits for answers earlier, and prints a denial if its command fails.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from toolcards.connect import offline_probe
from toolcards.connect.base import CODING_GUIDE, Abilities, Change, Recipe, Target, Unreadable
from toolcards.connect.edits import hooks_file

NAME = "cline"
read_key = partial(hooks_file.read_key, name=NAME)
GATE = "PreToolUse"
REPORTS = (
    "TaskStart", "TaskResume", "UserPromptSubmit", "PostToolUse", "TaskComplete", "TaskError", "TaskCancel",
    "SessionShutdown",
)  # fmt: skip
HOLD = 90  # seconds that a call is held: with the time for the answer to arrive, shorter than Cline's own limit (120)
FALLBACK = {"cancel": True, "errorMessage": "The Toolcards hook could not run, so nothing was run."}
SCRIPT = """\
#!/bin/sh
# Written by Toolcards. To remove it: toolcards connect cline --undo
answer=$({command}) && [ -n "$answer" ] || answer='{fallback}'
printf '%s\\n' "$answer"
"""
HINT = " Add .sh to its name: Cline runs both."  # for a script of others


def plan(target: Target) -> list[Change]:
    """Return the key file and our scripts."""
    changes = [hooks_file.plan_key(target, NAME, target.key or read_key(target))]
    for event in (GATE, *REPORTS):
        path = hooks_folder(target) / event
        changes.append(Change(path, hooks_file.read_own_file(path, HINT), _format_script(event, target)))
    return changes


def undo(target: Target) -> list[Change]:
    """Return no scripts of ours and no key file."""
    changes = [hooks_file.plan_key(target, NAME, None)]
    for event in (GATE, *REPORTS):
        path = hooks_folder(target) / event
        changes.append(Change(path, hooks_file.read_own_file(path, HINT), None, prune_root=target.home / ".cline"))
    return changes


def hooks_folder(target: Target) -> Path:
    """Return the account's folder of hooks.

    Raises Unreadable for a project.
    """
    if target.project is not None:
        raise Unreadable(
            "Cline reads a project's hooks from .cline/hooks/ and .clinerules/hooks/, which everyone with the "
            "repository shares. Connect the account: leave out --project."
        )
    return target.home / ".cline" / "hooks"


def probe_offline(target: Target) -> str:
    """Return the hook's denial while no server is running.

    "" if it is not written.
    """
    script = hooks_file.read_own_file(hooks_folder(target) / GATE, HINT)
    return offline_probe.run_hook([NAME], "tool_call") if script else ""


def _format_script(event: str, target: Target) -> str:
    """Return a script; what only reports prints `{}` if it fails, which decides nothing."""
    key_file = str(hooks_file.key_path(target, NAME).absolute())
    words = [NAME, "--url", target.url.rstrip("/"), "--key-file", key_file, "--limit", str(HOLD)]
    fallback = json.dumps(FALLBACK if event == GATE else {})
    return SCRIPT.format(command=hooks_file.format_command(words, gates=False), fallback=fallback)


RECIPE = Recipe(
    name=NAME,
    title="Cline",
    version="3.0.65 (the CLI)",
    can=Abilities(
        observe="yes",
        gate=f"yes, for {HOLD} seconds; a denial ends the agent's run",
        edit="yes",
        stream="no",
    ),
    fails="closed",
    when_away="While Toolcards is down no tool runs: the hook denies the first call, which ends the agent's run.",
    notes=(
        "Cline ends its run at a denial, and shows the reason neither to the model nor where it runs. The card has it.",
        f"Cline waits two minutes, and then runs the tool. So a call that no one answers in {HOLD} seconds is denied.",
        "Another PreToolUse hook can replace the arguments after they were approved.",
        "Its hooks do not have the prompt of a run without a terminal, so such a run has no title.",
        "Sessions with --config read no hooks from ~/.cline, so nothing of them is held.",
        "Not the extension for VS Code: it was not tested, and reads its hooks from ~/Documents/Cline/Hooks/.",
        hooks_file.STARTS_HERE,
    ),
    plan=plan,
    undo=undo,
    read_key=read_key,
    aliases=("cline-cli",),
    guide=CODING_GUIDE,
    transport="hooks",
    probe_offline=probe_offline,
    next_step="Start it again. It reads its hooks when a session starts.",
)
