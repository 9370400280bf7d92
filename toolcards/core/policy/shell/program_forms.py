"""One row of the catalog of programs: what a program or a sub-command is known to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from toolcards.core.policy.shell.arguments import STYLES, read_specification
from toolcards.core.policy.statements import only_reads

EFFECTS = ("deletes", "writes", "sends", "runs")
HELP = "--version --help"
_FLAGS = ("code", "stdin", "folder", "remote", "elevates", "elsewhere", "appends", "launcher", "statements")
_OPTIONS = ("scripts", "lines", "commands", "line_if", "shows")
_PATTERNS = ("values", "assign", "arguments")
_RANGES = ("then", "line")
_OTHER_FIELDS = (
    "read_only",
    "need",
    "operands",
    "script",
    "script_at",
    "does",
    "may",
    "marks",
    "rest",
    "neutral",
    "style",
    "sub",
    "other",
    "companions",
)
_FIELDS = {*_FLAGS, *_OPTIONS, *_PATTERNS, *_RANGES, *_OTHER_FIELDS, *EFFECTS, "version", "versioned"}


_MANY = 10_000


class InvalidCatalog(Exception):
    """A row of the catalog is invalid; the message names it."""


@dataclass(frozen=True)
class ProgramForm:
    """What one program, or one of its sub-commands, is known to do.

    `read_only`: options with which it is read-only, None if it never is; `anything`: it is with any arguments but
    those in `effects`. `effects`: options by their effect. `lines` and `commands`: options whose value is a shell
    line, or a program with its arguments. `then`: the number of operands before the command that it runs; `line`:
    the same, joined to a shell line; `shows`: options with which it runs nothing; `line_if`: options that make the
    first operand a shell line. `rest`: options that a command follows. `appends`: it adds arguments that are not
    visible. `elsewhere`: the command may not be the program of that name. `companions`: options that are read-only
    together with one of others. `script`: the harmless part of its language; `statements`: and SQL that only reads.
    `code`: it runs code in its arguments; `stdin`: it runs code from standard input. `folder`: settings in the
    current folder change what it runs; `launcher`: whatever its arguments, so that it is never read-only. `neutral`
    and `arguments`: options and operands that have no effect of their own.
    """

    name: str
    anything: bool = False
    read_only: frozenset[str] | None = None
    need: frozenset[str] = frozenset()
    operands: re.Pattern[str] | None = None
    counts: tuple[int, int] = (0, _MANY)
    values: re.Pattern[str] | None = None
    companions: tuple[tuple[frozenset[str], frozenset[str]], ...] = ()
    script: re.Pattern[str] | None = None
    scripts: frozenset[str] = frozenset()
    statements: bool = False
    script_at: int = 0
    does: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()
    effects: Mapping[str, frozenset[str]] = field(default_factory=dict)
    marks: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    lines: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    rest: frozenset[str] = frozenset()
    then: tuple[int, int] | None = None
    line: tuple[int, int] | None = None
    assign: re.Pattern[str] | None = None
    neutral: frozenset[str] | None = None
    arguments: re.Pattern[str] | None = None
    code: bool = False
    stdin: bool = False
    folder: bool = False
    style: str = "gnu"
    remote: bool = False
    elevates: bool = False
    elsewhere: bool = False
    appends: bool = False
    launcher: bool = False
    line_if: frozenset[str] = frozenset()
    shows: frozenset[str] = frozenset()
    version: frozenset[str] = frozenset()
    kinds: Mapping[str, int] = field(default_factory=dict)
    sub: Mapping[str, ProgramForm] = field(default_factory=dict)
    patterns: tuple[tuple[re.Pattern[str], ProgramForm], ...] = ()

    @property
    def limited(self) -> bool:
        """Whether the number of its operands is limited."""
        return self.counts[1] < _MANY

    @property
    def wraps(self) -> bool:
        """Whether it runs a command among its own words."""
        return self.then is not None or self.line is not None or bool(self.line_if)

    @cached_property
    def hands_on(self) -> bool:
        """Whether any of its forms may run some of its words."""
        return any(
            form.wraps or form.rest or form.lines or form.commands or "runs" in form.marks for form in self.all_forms()
        )

    @property
    def takes_commands(self) -> bool:
        """Whether some words after the program can name what it runs."""
        return self.wraps or bool(self.rest or self.lines or self.commands) or "runs" in self.effects

    def lacks_companion(self, names: AbstractSet[str]) -> bool:
        """Return whether one of the options is missing its harmless companion."""
        return any(options & names and not companions & names for options, companions in self.companions)

    def find_marked_effects(self, words: Iterable[str]) -> frozenset[str]:
        """Return the effects that operands have."""
        words = tuple(words)
        return frozenset(effect for effect, mark in self.marks.items() if any(map(mark.fullmatch, words)))

    def takes_values(self, values: Iterable[str]) -> bool:
        """Return whether all values of options are harmless."""
        return self.values is None or all(map(self.values.fullmatch, values))

    def takes_operands(self, operands: list[str]) -> bool:
        """Return whether the operands are harmless, and not too many."""
        low, high = self.counts
        return low <= len(operands) <= high and (self.operands is None or all(map(self.operands.fullmatch, operands)))

    def takes_scripts(self, scripts: list[str], operands: list[str]) -> bool:
        """Return whether there are scripts, and all are harmless."""
        if not scripts:
            scripts = operands[self.script_at :] if self.script_at else operands[:1]
        pattern = self.script
        return (
            pattern is not None
            and bool(scripts)
            and all(
                "{}" not in text and (pattern.fullmatch(text) or (self.statements and only_reads(text)))
                for text in scripts
            )
        )

    def below(self, word: str) -> ProgramForm | None:
        """Return the form of a sub-command, or None."""
        exact = self.sub.get(word)
        return exact or next((form for pattern, form in self.patterns if pattern.fullmatch(word)), None)

    def all_forms(self) -> Iterator[ProgramForm]:
        """Yield this form and those of all sub-commands below it."""
        yield self
        for form in (*self.sub.values(), *(form for _, form in self.patterns)):
            yield from form.all_forms()


def read_form(
    name: str, row: Mapping[str, Any], shared_lists: Mapping[str, str], languages: Mapping[str, str]
) -> ProgramForm:
    """Return the form that a row describes.

    Raises InvalidCatalog for an invalid row. `shared_lists`: options that rows name with `@`; `languages`: patterns
    that rows name as `script`.
    """
    unknown = set(row) - _FIELDS
    if unknown:
        raise InvalidCatalog(f"{name} has an unknown field: {sorted(unknown)[0]}")
    try:
        form = _FormBuilder(name, row, shared_lists, languages).build()
    except (ValueError, KeyError, re.error) as error:
        raise InvalidCatalog(f"{name}: {error}") from error
    if form.style not in STYLES:
        raise InvalidCatalog(f"{name}: {form.style} is not a style")
    if form.read_only and form.read_only & frozenset().union(*form.effects.values()):
        raise InvalidCatalog(f"{name}: an option is read-only and has an effect")
    if form.launcher and any(each.version or each.shows or each.read_only is not None for each in form.all_forms()):
        raise InvalidCatalog(f"{name}: a launcher is never read-only")
    return form


class _FormBuilder:
    def __init__(
        self, name: str, row: Mapping[str, Any], shared_lists: Mapping[str, str], languages: Mapping[str, str]
    ) -> None:
        self._name, self._row, self._shared, self._languages = name, row, shared_lists, languages
        self._kinds: dict[str, int] = {}

    def build(self) -> ProgramForm:
        row, effects = self._row, {effect: self._options(effect) for effect in EFFECTS if effect in self._row}
        parts: dict[str, Any] = {flag: row.get(flag, False) for flag in _FLAGS}
        parts |= {key: self._options(key) for key in _OPTIONS}
        parts |= {key: re.compile(row[key]) for key in _PATTERNS if key in row}
        parts |= {key: _parse_range(row[key]) for key in _RANGES if key in row}
        parts |= {key: _parse_effects(row.get(key, "")) for key in ("does", "may")} | self._operands() | self._subs()
        self._options("other")
        top = "read_only" in row and " " not in self._name
        return ProgramForm(
            name=self._name,
            anything=row.get("read_only") == "*",
            read_only=self._options("read_only") if "read_only" in row else None,
            need=self._only(row.get("need", "")),
            script=re.compile(self._languages[row["script"]]) if "script" in row else None,
            script_at=row.get("script_at", 0),
            effects=effects,
            companions=tuple(
                (self._only(options), self._only(names)) for options, names in row.get("companions", {}).items()
            ),
            marks={effect: re.compile(text) for effect, text in row.get("marks", {}).items()},
            rest=frozenset(row.get("rest", "").split()),
            neutral=self._options("neutral") if "neutral" in row else None,
            style=row.get("style", "gnu"),
            version=frozenset(row.get("version", HELP if top else "").split()),
            kinds=self._kinds,
            **parts,
        )

    def _options(self, key: str) -> frozenset[str]:
        """Return the names of the options in this field, and store their kinds."""
        text = self._row.get(key, "")
        tokens = [] if text == "*" else text.split()
        expanded_text = " ".join(self._shared[token[1:]] if token.startswith("@") else token for token in tokens)
        kinds = read_specification(expanded_text)
        for option, kind in kinds.items():
            if self._kinds.setdefault(option, kind) != kind:
                raise ValueError(f"{option} is listed with and without a value")
        return frozenset(kinds)

    def _only(self, text: str) -> frozenset[str]:
        return frozenset(read_specification(text))

    def _operands(self) -> dict[str, Any]:
        """Return the number of operands (`0`, `1-2`) or the pattern that each must match."""
        text = self._row.get("operands", "")
        if re.fullmatch(r"\d+(-\d+)?", text):
            low, high = _parse_range(text)
            return {"counts": (low if "-" in text else 0, high)}
        return {"operands": re.compile(text)} if text else {}

    def _subs(self) -> dict[str, Any]:
        subs = {
            key: read_form(f"{self._name} {key}", row, self._shared, self._languages)
            for keys, row in self._row.get("sub", {}).items()
            for key in keys.split()
        }
        globs = {key: subs.pop(key) for key in list(subs) if "*" in key}
        patterns = [(re.compile(re.escape(key).replace(r"\*", ".*")), form) for key, form in globs.items()]
        return {"sub": subs, "patterns": tuple(patterns)}


def _parse_range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def _parse_effects(text: str) -> frozenset[str]:
    effects = frozenset(EFFECTS if text == "anything" else text.split())
    if effects - {*EFFECTS}:
        raise ValueError(f"{text} is not a list of effects")
    return effects | {"writes"} if "deletes" in effects else effects
