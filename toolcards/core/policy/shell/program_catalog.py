"""The catalog of programs and their effects, read once from `programs.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from toolcards.core.policy.shell.program_forms import EFFECTS, InvalidCatalog, ProgramForm, read_form

__all__ = ["EFFECTS", "InvalidCatalog", "ProgramCatalog", "ProgramForm", "find_program", "load_programs"]
_VERSION = re.compile(r"([a-z+-]*[a-z+])(-?)([0-9]+(?:\.[0-9]+)*)[a-z]?")


class ProgramCatalog:
    """All programs by name. Raises InvalidCatalog for an invalid row."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._shared, self._languages = document.get("options", {}), document.get("languages", {})
        self._names: dict[str, ProgramForm] = {}
        self._globs: list[tuple[re.Pattern[str], ProgramForm]] = []
        self._versioned: set[str] = set()
        for names, row in document["programs"].items():
            for name in names.split():
                self._add(name, row)

    def _add(self, name: str, row: Mapping[str, Any]) -> None:
        form = read_form(name, row, self._shared, self._languages)
        if "*" in name:
            self._globs.append((re.compile(re.escape(name).replace(r"\*", ".*")), form))
        elif name in self._names:
            raise InvalidCatalog(f"{name} is listed twice")
        else:
            self._names[name] = form
            if row.get("versioned"):
                self._versioned.add(name)

    @property
    def names(self) -> Mapping[str, ProgramForm]:
        """Return all forms by the exact name of their program."""
        return MappingProxyType(self._names)

    def find(self, name: str) -> ProgramForm | None:
        """Return the form of a program; python3.11 is python."""
        exact = self._names.get(name)
        if exact is not None:
            return exact
        for base in self.bases(name):
            if base in self._names:
                return self._names[base]
        return next((form for pattern, form in self._globs if pattern.fullmatch(name)), None)

    def bases(self, name: str) -> tuple[str, ...]:
        """Return the names of which this one is a version.

        For example, python3.11 is a version of python3 and of python.
        """
        parts = _VERSION.fullmatch(name)
        if parts is None or parts[1] not in self._versioned:
            return ()
        numbers = parts[3].split(".")
        shorter = [".".join(numbers[:count]) for count in range(len(numbers) - 1, 0, -1)]
        return (*(f"{parts[1]}{parts[2]}{number}" for number in shorter), parts[1])


@cache
def load_programs() -> ProgramCatalog:
    """Return the catalog of this package."""
    text = files(__package__).joinpath("programs.toml").read_text(encoding="utf-8")
    return ProgramCatalog(tomllib.loads(text))


@lru_cache(maxsize=2_048)
def strip_program_name(word: str) -> str:
    """Return a program's name in lower case, without directory and .exe."""
    name = word.rsplit("/", 1)[-1].rsplit("\\", 1)[-1].lower()
    return re.sub(r"\.(exe|cmd|bat|com)$", "", name)


@lru_cache(maxsize=2_048)
def find_program(word: str) -> ProgramForm | None:
    """Return the form of the program that this word names, or None."""
    return load_programs().find(strip_program_name(word))


@lru_cache(maxsize=2_048)
def list_names(word: str) -> tuple[str, ...]:
    """Return the program's names in rules: its own and those without version."""
    name = strip_program_name(word)
    return (name, *load_programs().bases(name))


def is_plain_name(word: str) -> bool:
    """Return whether the word certainly means the program of that name.

    It must be a bare name, or in a directory of the system.
    """
    directory, slash, name = word.rpartition("/")
    return name == strip_program_name(word) and (not slash or directory in {"/bin", "/usr/bin"})
