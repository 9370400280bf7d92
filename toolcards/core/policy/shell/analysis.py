"""The analysis of one command by the catalog: whether it is read-only, its certain and possible effects, what it runs.

Reading is narrow: every word must be understood, else the command may have all effects of its program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from toolcards.core.policy.shell.arguments import Arguments, may_mean_option, read_arguments
from toolcards.core.policy.shell.catalogs import (
    EFFECTS,
    ProgramForm,
    find_program,
    is_plain_name,
    strip_program_name,
)
from toolcards.core.policy.shell.nested_commands import find_nested_commands, may_expansion_change_meaning
from toolcards.core.policy.shell.plain.globs import NO_GLOBS, Globs
from toolcards.core.policy.shell.plain.parser import ParsedCommand
from toolcards.core.policy.shell.program_match import (
    NO_EFFECTS,
    ProgramMatch,
    find_named_effects,
    guess_effects,
    match_program,
)

MAX_DEPTH = 6
ALL_EFFECTS = frozenset(EFFECTS)
_OUTPUTS = frozenset({"-o", "--output"})
_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_FOLDER_COMMANDS = frozenset({"cd", "pushd", "popd", "chdir"})
_MOVING_OPTIONS = frozenset({"-execdir", "-okdir"})  # which run a command in the folder of each file
_VERBS = {"runs": "run other programs", "deletes": "delete", "writes": "change things", "sends": "send data"}


@dataclass(frozen=True, slots=True)
class CommandAnalysis:
    """What one command does.

    `read_only`: it certainly changes nothing, though it may ask a server (`sends`); else `why` says why it might, in
    words of the catalog. Reasons are stored unencrypted, so they contain no text of the agent. `does`: certain effects;
    `may`: effects that cannot be excluded.
    `hidden`: it runs code that is not read; `piped`: code that is piped into it. `loose`: some of its words are not
    understood, and it may run them. `inner`: commands among its words that it runs; `targets` and `inputs`: files that
    their redirections write and read.
    """

    read_only: bool = False
    why: str = ""
    does: frozenset[str] = NO_EFFECTS
    may: frozenset[str] = NO_EFFECTS
    hidden: bool = False
    piped: bool = False
    loose: bool = False
    inner: tuple[ParsedCommand, ...] = ()
    targets: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


@lru_cache(maxsize=2_048)
def analyze_command(words: tuple[str, ...], globs: Globs = NO_GLOBS, depth: int = 0) -> CommandAnalysis:
    """Return what the command does. `globs`: its words that are patterns."""
    place = match_program(words, globs)
    if place is None:
        return CommandAnalysis(why="the catalog does not know this program", may=ALL_EFFECTS, loose=True)
    if depth > MAX_DEPTH:
        return CommandAnalysis(why="it nests too many programs", may=ALL_EFFECTS, hidden=True)
    analysis = _analyze_form(words, globs, place, depth)
    if is_plain_name(words[0]):
        return analysis
    why = "a program in this folder could be any program" if analysis.read_only else analysis.why
    return replace(analysis, read_only=False, why=why, may=ALL_EFFECTS - analysis.does, loose=True)


def changes_folder(words: tuple[str, ...]) -> bool:
    """Return whether the command changes the folder in which later commands run."""
    return strip_program_name(words[0]) in _FOLDER_COMMANDS


def depends_on_folder(words: tuple[str, ...]) -> bool:
    """Return whether settings in the folder can change what it runs."""
    form = find_program(words[0])
    return (
        form is None or form.folder or any(depends_on_folder(command.words) for command in analyze_command(words).inner)
    )


def _analyze_form(words: tuple[str, ...], globs: Globs, place: ProgramMatch, depth: int) -> CommandAnalysis:
    form = place.form
    if len(words) == 2 and place.length == 1 and words[1] in form.version:
        return CommandAnalysis(read_only=True)
    if form.anything:
        return _analyze_lenient_form(words, globs, place)
    style = "posix" if form.wraps and form.style == "gnu" else form.style
    arguments = read_arguments(words, place.length, form.kinds, style, form.rest, globs.leading)
    _drop_discarded_outputs(form, arguments)
    if form.shows & arguments.names and not arguments.unknown:
        return CommandAnalysis(read_only=True)
    inner, unread = find_nested_commands(words, globs, form, arguments)
    is_scattered = bool(globs.every) and may_expansion_change_meaning(words, globs, form, place.length, arguments)
    unread = unread or (is_scattered and (form.code or form.takes_commands))
    inside = [_analyze_inner_command(command, depth + 1) for command in inner]
    targets = tuple(file for analysis in inside for file in analysis.targets)
    inputs = tuple(file for analysis in inside for file in analysis.inputs)
    is_known = place.is_known and not arguments.unknown and not unread and not is_scattered
    foreign = form.elevates or form.remote or form.elsewhere
    is_read_only = is_known and place.safe and not foreign and _is_read_only(form, arguments, bool(inner))
    if is_read_only and all(analysis.read_only for analysis in inside):
        does = (frozenset({"runs"}) if inner else NO_EFFECTS) | (form.does & {"sends"})
        does = does.union(*(analysis.does for analysis in inside))
        if _runs_elsewhere(words, arguments, inner):
            why = "it runs a program in another folder, whose settings can change what it runs"
            return CommandAnalysis(False, why, does, ALL_EFFECTS - does, True, inner=inner, inputs=inputs)
        return CommandAnalysis(read_only=True, does=does, inner=inner, inputs=inputs)
    analysis = _analyze_changing_command(place, arguments, inner, inside, is_known=is_known, unread=unread)
    return replace(analysis, targets=targets, inputs=inputs)


def _analyze_inner_command(command: ParsedCommand, depth: int) -> CommandAnalysis:
    """Analyze a command among the words of another, with its redirections."""
    analysis = analyze_command(command.words, command.globs, depth)
    targets, inputs = analysis.targets + command.targets, analysis.inputs + command.inputs
    analysis = replace(analysis, targets=targets, inputs=inputs)
    if not command.targets:
        return analysis
    why = "it writes a file" if analysis.read_only else analysis.why
    return replace(analysis, read_only=False, why=why, does=analysis.does | {"writes"})


def _runs_elsewhere(words: tuple[str, ...], arguments: Arguments, inner: tuple[ParsedCommand, ...]) -> bool:
    """Return whether it runs a program that depends on its folder in another folder."""
    has_moved = any(words[start - 1] in _MOVING_OPTIONS for start, _ in arguments.commands)
    for command in inner:
        if has_moved and depends_on_folder(command.words):
            return True
        has_moved = has_moved or changes_folder(command.words)
    return False


def _analyze_lenient_form(words: tuple[str, ...], globs: Globs, place: ProgramMatch) -> CommandAnalysis:
    """Analyze a program that is read-only with any arguments except some options."""
    form = place.form
    does = guess_effects(form, words[place.length :]) | form.find_marked_effects(words[place.length :])
    if place.is_known and place.safe and not does and not (form.effects and globs.leading):
        return CommandAnalysis(read_only=True)
    hidden = "runs" in does or ("runs" in form.effects and bool(globs.leading))
    why, may = _explain_effects(form, does or form.may), ALL_EFFECTS if hidden else form.may
    return CommandAnalysis(False, why, does, may, hidden, loose=not hidden)


# ---------------------------------------------------------------- commands that do more than look


def _analyze_changing_command(
    place: ProgramMatch,
    arguments: Arguments,
    inner: tuple[ParsedCommand, ...],
    inside: list[CommandAnalysis],
    *,
    is_known: bool,
    unread: bool,
) -> CommandAnalysis:
    form = place.form
    named_effects = place.effects | find_named_effects(form, arguments) | guess_effects(form, arguments.unknown)
    reads_pipe = _reads_stdin(form, arguments, inner)
    hidden = (
        unread
        or reads_pipe
        or "runs" in named_effects
        or (form.code and (form.lacks_companion(arguments.names) or not _has_harmless_script(form, arguments)))
    )
    hidden = hidden or place.varies or (arguments.varies and form.takes_commands)
    hidden = hidden or _may_take_command(form, arguments.unknown)
    does = form.does | named_effects | (frozenset({"runs"}) if inner or hidden else NO_EFFECTS)
    does |= frozenset({"sends"}) if form.remote else NO_EFFECTS
    may = (
        ALL_EFFECTS
        if hidden or form.elsewhere or "runs" in form.does
        else _find_possible_effects(form, is_known, bool(inner))
    )
    why = _explain_effects(form, does or may)
    for analysis in inside:
        does, may, hidden, reads_pipe = (
            does | analysis.does,
            may | analysis.may,
            hidden or analysis.hidden,
            reads_pipe or analysis.piped,
        )
        why = analysis.why if not analysis.read_only and not form.elevates else why
    does |= frozenset({"writes"}) if "deletes" in does else NO_EFFECTS
    loose = any(analysis.loose for analysis in inside) or (not is_known and "runs" in may)
    return CommandAnalysis(False, why, does, may - does, hidden, reads_pipe, loose, inner)


def _find_possible_effects(form: ProgramForm, is_known: bool, runs: bool) -> frozenset[str]:
    """Return the effects that cannot be excluded where the form itself does not run unseen code."""
    if form.wraps or form.rest:
        return form.may if is_known and runs else ALL_EFFECTS if not is_known else form.may
    if (form.sub or form.patterns) and not is_known:
        return ALL_EFFECTS
    return form.may


def _explain_effects(form: ProgramForm, effects: frozenset[str]) -> str:
    name = form.name.removesuffix(" *")
    if form.elevates:
        return f"{name} runs programs with other privileges"
    if "runs" in effects:
        return f"{name} can run other programs"
    verbs = [verb for effect, verb in _VERBS.items() if effect in effects]
    if not verbs:
        return f"{name} is not known to be read-only in this form"
    return f"{name} can {verbs[0] if len(verbs) == 1 else ', '.join(verbs[:-1]) + ' or ' + verbs[-1]}"


def _may_take_command(form: ProgramForm, words: list[str]) -> bool:
    """Return whether one of these words may be an option that takes a command."""
    flags = form.lines | form.commands | form.rest
    return any(may_mean_option(word, flag, form.style) for word in words for flag in flags)


def _reads_stdin(form: ProgramForm, arguments: Arguments, inner: tuple[ParsedCommand, ...]) -> bool:
    """Return whether the program reads its commands from standard input."""
    if not form.stdin or inner or arguments.names & form.scripts:
        return False
    operands = [word for _, word in arguments.operands]
    return not operands or operands[0] in _STDIN


def _drop_discarded_outputs(form: ProgramForm, arguments: Arguments) -> None:
    """Leave out options that only throw the output away, such as `-o /dev/null`."""
    outputs = _OUTPUTS & form.effects.get("writes", NO_EFFECTS)
    arguments.options = [each for each in arguments.options if each[0] not in outputs or each[1] != "/dev/null"]


# ---------------------------------------------------------------- read-only commands


def _is_read_only(form: ProgramForm, arguments: Arguments, runs: bool) -> bool:
    if form.read_only is None or find_named_effects(form, arguments):
        return False
    harmless = form.read_only | form.scripts | form.lines | form.commands | form.line_if | form.need
    if not arguments.names <= harmless or (form.need and not form.need & arguments.names):
        return False
    if form.lacks_companion(arguments.names) or not form.takes_values(value for _, value in arguments.options):
        return False
    if runs and (form.wraps or form.rest):
        return True
    return form.takes_operands([word for _, word in arguments.operands]) and (
        (form.script is None and not form.stdin) or _has_harmless_script(form, arguments)
    )


def _has_harmless_script(form: ProgramForm, arguments: Arguments) -> bool:
    """Return whether every script among the arguments is in the harmless part of its language."""
    if arguments.unknown:
        return False
    scripts = [value for name, value in arguments.options if name in form.scripts]
    return form.takes_scripts(scripts, [word for _, word in arguments.operands])
