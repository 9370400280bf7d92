"""What policy says about each command of a line that waits for a person, so that the page marks the one to look at.

Each command is decided alone, as if the line were nothing else. A command that means something else in its line than
alone gets no mark.
"""

from __future__ import annotations

from dataclasses import replace

from toolcards.core.policy.decision import Effect, PolicyDecision, PolicyRequest, RuleSet, decide
from toolcards.core.policy.places.project import UNKNOWN_FOLDER, Project
from toolcards.core.policy.shell.catalogs import move_project
from toolcards.core.policy.shell.command_lines import find_command_line, replace_command_line, spell_commands
from toolcards.core.policy.shell.script import CommandSegment, read_line

MAX_PARTS = 20  # commands of a line that are decided one by one
UNMARKED = ("", "")


def judge_parts(policy: RuleSet, request: PolicyRequest, decision: PolicyDecision) -> PolicyDecision:
    """Return the decision with a judgement of each command of its line.

    It has none unless it asks, and the line spells several commands.
    A judgement is `("allow", "")`, `("ask", why)`, or `UNMARKED`.
    """
    line = find_command_line(request.tool, request.input)
    if decision.effect is not Effect.ASK or not line:
        return decision
    segments = read_line(line, move_project(request.tool, request.input, request.project)).segments
    if not 1 < len(segments) <= MAX_PARTS or len(spell_commands(line)) != len(segments):
        return decision
    return decision.with_changes(parts=tuple(_judge(policy, request, segment) for segment in segments))


def _judge(policy: RuleSet, request: PolicyRequest, segment: CommandSegment) -> tuple[str, str]:
    alone = _build_request(request, segment)
    if alone is None:
        return UNMARKED
    decision = decide(policy, alone)
    if decision.effect is Effect.ALLOW:
        return ("ask", segment.doubt) if segment.folder_changed and segment.doubt else ("allow", "")
    if decision.effect is not Effect.ASK:
        return UNMARKED
    is_high = decision.ask is not None and decision.ask.severity in {"high", "critical"}
    return "ask", (decision.reason if is_high else segment.doubt or decision.reason)


def _build_request(request: PolicyRequest, segment: CommandSegment) -> PolicyRequest | None:
    """Return the request for the command alone, None if it would mean something else."""
    project = move_project(request.tool, request.input, request.project)
    if segment.folder != project:
        if project != request.project:  # the tool's argument for the folder would count a second time
            return None
        request = replace(request, folder=_spell_folder(segment.folder))
    segments = read_line(segment.text, segment.folder).segments
    if [each.words for each in segments] != [segment.words]:  # it has variables of the line
        return None
    return replace(request, input=replace_command_line(request.tool, request.input, segment.text))


def _spell_folder(project: Project | None) -> str:
    if project is None:
        return UNKNOWN_FOLDER
    joint = "\\" if project.folder.windows else "/"
    return joint.join((project.folder.root.rstrip("/\\"), *project.folder.parts))
