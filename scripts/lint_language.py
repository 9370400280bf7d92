#!/usr/bin/env python3
"""Checks the language of the project: phrases and names that `language.toml` rules out.

More phrases are ruled out in the words of users: templates, documents, and strings of modules and page scripts.
`language_baseline.json` holds the remaining count of each phrase and name over the whole project. A count may only
shrink. `--list PATH...` shows the places, `--lower` writes smaller counts to the baseline.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from user_texts import is_for_users, read_user_texts

ROOT = Path(__file__).resolve().parent.parent
WORD_LIST = ROOT / "scripts" / "language.toml"
BASELINE = ROOT / "scripts" / "language_baseline.json"
TEXT_SUFFIXES = {".md", ".html", ".txt", ".js", ".mjs", ".css"}
PRODUCTION = ("toolcards/", "dashboard/", "scripts/", "bench/")
LONGEST_FIRST_LINE = 12  # words
SHOWN_PLACES = 5
_EMPTY_WORDS = {"", "the", "a", "an", "of", "return", "this", "that", "and", "to", "it", "for", "in"}
_IN_ED = re.compile("[a-z]{3,}ed")


class Offense(NamedTuple):
    """A phrase or name that is ruled out, and its place."""

    path: str
    line: int
    key: str
    text: str


class PhraseList:
    """Phrases as regular expressions, in which a blank is any white space."""

    def __init__(self, phrases: Iterable[str]) -> None:
        self.patterns = {
            phrase: re.compile(rf"(?<![\w-])(?:{phrase.replace(' ', chr(92) + 's+')})(?![\w-])", re.IGNORECASE)
            for phrase in phrases
        }
        self.any_phrase = re.compile("|".join(f"(?:{each.pattern})" for each in self.patterns.values()), re.IGNORECASE)

    def find(self, path: str, line: int, text: str) -> Iterator[Offense]:
        """Yield the phrases in a text that begins at this line."""
        if self.any_phrase.search(text):
            for phrase, pattern in self.patterns.items():
                for match in pattern.finditer(text):
                    yield Offense(path, line + text.count("\n", 0, match.start()), phrase, match[0])


class WordList:
    """The phrases and names that are ruled out, as patterns and one set."""

    def __init__(self, path: Path = WORD_LIST) -> None:
        data = tomllib.loads(path.read_text())
        self.advice: dict[str, str] = data["phrases"] | data["user_phrases"]
        self.phrases = PhraseList(data["phrases"])
        self.user_phrases = PhraseList(data["user_phrases"])
        self.values: set[str] = set(data["values"])
        self.fields = set(data["names"].pop("fields").split())
        self.participles = set(data["names"]["participles"].split())
        self.nouns_in_ed = set(data["names"].pop("nouns_in_ed").split())
        self.names = {name for words in data["names"].values() for name in words.split()}
        self.skipped_files: tuple[str, ...] = tuple(data["skip"]["files"])
        self.schema_files: set[str] = set(data["skip"]["schemas"])
        self.allowed: dict[str, list[str]] = data["allowed"]

    def is_allowed(self, offense: Offense) -> bool:
        """Return whether the word list names this place as an exception."""
        words = offense.text.partition(",")[0].split()  # "variable at", "Watch, also in ..." or a phrase
        return any(words[-len(text.split()) :] == text.split() for text in self.allowed.get(offense.path, ()))


def list_files() -> list[str]:
    """Return the tracked and new files of the checkout, or all files where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        return sorted(set(listing.stdout.splitlines()))
    return sorted(
        str(path.relative_to(ROOT))
        for place in ("toolcards", "dashboard", "templates", "static", "docs", "tests", "scripts", "bench", "README.md")
        for path in ([ROOT / place] if (ROOT / place).is_file() else (ROOT / place).rglob("*"))
    )


def find_offenses(words: WordList, paths: list[str]) -> Iterator[Offense]:
    """Yield every offense in these files, without the exceptions of the word list."""
    return (offense for offense in _find_all(words, paths) if not words.is_allowed(offense))


def _find_all(words: WordList, paths: list[str]) -> Iterator[Offense]:
    classes: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for path in paths:
        file = ROOT / path
        if path.startswith(words.skipped_files) or not file.is_file():
            continue
        if is_for_users(path):
            for line, text in read_user_texts(path, file.read_text()):
                yield from words.user_phrases.find(path, line, text)
        if file.suffix == ".py":
            yield from find_in_python(words, path, file.read_text(), classes)
        elif file.suffix in TEXT_SUFFIXES:
            yield from words.phrases.find(path, 1, file.read_text())
    for name, places in classes.items():
        for path, line in places[1:]:
            yield Offense(path, line, "class name used twice", f"{name}, also in {places[0][0]}")


def find_in_python(
    words: WordList, path: str, source: str, classes: dict[str, list[tuple[str, int]]]
) -> Iterator[Offense]:
    """Yield the offenses of a module: its texts, names and docstrings.

    In tests, participles are ruled out as names; other names and docstrings are free.
    """
    tree = ast.parse(source)
    is_production = path.startswith(PRODUCTION)
    for line, text in read_texts(source, docstring_lines(tree), is_production):
        if text.strip("\"'") not in words.values:
            yield from words.phrases.find(path, line, text)
    if not is_production:
        yield from find_names(path, tree, words.participles, frozenset())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield from words.phrases.find(path, node.lineno, node.name.replace("_", " "))
    elif "/migrations/" not in path:
        yield from find_names(path, tree, words.names, words.fields)
        yield from find_participles(path, tree, words.names | words.nouns_in_ed)
        yield from find_module_name(words, path)
        yield from find_long_first_lines(path, tree)
        yield from find_repeated_names(path, tree)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and "/management/" not in path and path not in words.schema_files:
                classes[node.name].append((path, node.lineno))


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the lines on which docstrings begin."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        node.body[0].lineno
        for node in ast.walk(tree)
        if isinstance(node, owners) and ast.get_docstring(node, clean=False) is not None
    }


def read_texts(source: str, docstrings: set[int], with_strings: bool) -> Iterator[tuple[int, str]]:
    """Yield comments (neighboring lines as one), docstrings and, if wanted, all other strings, with their lines."""
    inner = getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)
    comment: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            if comment and line != last + 1:
                yield first, "\n".join(comment)
                comment = []
            first = first if comment else line
            comment.append(token.string.lstrip("# "))
            last = line
        elif token.type in (tokenize.STRING, inner) and (with_strings or line in docstrings):
            yield line, token.string
    if comment:
        yield first, "\n".join(comment)


def find_names(
    path: str, tree: ast.Module, ruled_out: Collection[str], stored_fields: Collection[str]
) -> Iterator[Offense]:
    """Yield the names that a module binds and that are ruled out, except fields that are stored or served."""
    fields = {
        id(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for item in node.body
        for target in (
            [item.target] if isinstance(item, ast.AnnAssign) else item.targets if isinstance(item, ast.Assign) else []
        )
    }
    field_names = {name for node in ast.walk(tree) if id(node) in fields for _, name in bound_names(node)}
    for node in ast.walk(tree):
        for kind, name in bound_names(node):
            is_field = id(node) in fields or (kind == "attribute" and name in field_names)
            is_special_method = name.startswith("__")
            is_stored = is_field and name in stored_fields
            if not is_stored and not is_special_method and name.strip("_").lower() in ruled_out:
                line: int = getattr(node, "lineno", 0)
                yield Offense(path, line, f"name: {name.strip('_').lower()}", f"{kind} {name}")


def find_participles(path: str, tree: ast.Module, other_words: Collection[str]) -> Iterator[Offense]:
    """Yield the parameters and local variables that are one word in -ed."""
    seen: set[str] = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                for kind, name in bound_names(node):
                    word = name.strip("_")
                    place = f"{getattr(node, 'lineno', 0)}:{word}"
                    is_local = kind in ("parameter", "variable") and place not in seen
                    if is_local and _IN_ED.fullmatch(word) and word not in other_words:
                        seen.add(place)
                        yield Offense(path, getattr(node, "lineno", 0), "name: one word in -ed", f"{kind} {name}")


def bound_names(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the kind and text of each name that this node binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield "function", node.name
    elif isinstance(node, ast.ClassDef):
        yield "class", node.name
    elif isinstance(node, ast.arg):
        yield "parameter", node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield "variable", node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
        yield "attribute", node.attr


def _is_self(node: ast.expr) -> bool:
    """Return whether an attribute of this is named here; other objects get their names in their own classes."""
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}


def find_long_first_lines(path: str, tree: ast.Module) -> Iterator[Offense]:
    """Yield the public functions whose docstring begins with more than twelve words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            first_line = (ast.get_docstring(node) or "").partition("\n")[0]
            if len(first_line.split()) > LONGEST_FIRST_LINE:
                yield Offense(path, node.lineno, "docstring: first line of more than 12 words", first_line)


def find_module_name(words: WordList, path: str) -> Iterator[Offense]:
    """Yield the module itself if its name is no noun."""
    name = Path(path).stem
    if name in words.names or (_IN_ED.fullmatch(name) and name not in words.nouns_in_ed):
        yield Offense(path, 1, "name: module", f"module {name}")


def find_repeated_names(path: str, tree: ast.Module) -> Iterator[Offense]:
    """Yield the functions whose docstring has only the words of their name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if text and _list_stems(re.findall("[A-Za-z]+", text)) <= _list_stems(node.name.split("_")):
                yield Offense(path, node.lineno, "docstring: repeats the name", text)


def _list_stems(words: Iterable[str]) -> set[str]:
    """Return the words without endings, so that `records` is `record`, and without articles."""
    return {re.sub("(?:ing|ed|es|s|e)$", "", word) for word in {word.lower() for word in words} - _EMPTY_WORDS}


def check(offenses: list[Offense], words: WordList, baseline: dict[str, int]) -> int:
    """Print the counts that grew, with their places; return the exit code."""
    counts = Counter(offense.key for offense in offenses)
    grown_keys = sorted(key for key in counts if counts[key] > baseline.get(key, 0))
    for key in grown_keys:
        advice = f" (write: {words.advice[key]})" if key in words.advice else ""
        print(f"{key!r}: {counts[key]}, and the baseline has {baseline.get(key, 0)}{advice}")
        places = [offense for offense in offenses if offense.key == key]
        for path, line, _, text in places[:SHOWN_PLACES]:
            print(f"    {path}:{line}: {' '.join(text.split())}")
        if len(places) > SHOWN_PLACES:
            print(f"    and {len(places) - SHOWN_PLACES} more: scripts/lint_language.py --list")
    if not grown_keys and any(counts[key] < count for key, count in baseline.items()):
        print("There are fewer offenses than the baseline has: run scripts/lint_language.py --lower")
    return 1 if grown_keys else 0


def main() -> int:
    """Check the project, list the offenses of some paths, or lower the baseline."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", nargs="*", metavar="PATH", help="print every offense below these paths")
    parser.add_argument("--lower", action="store_true", help="write the counts that shrank to the baseline")
    options = parser.parse_args()
    words = WordList()
    offenses = list(find_offenses(words, list_files()))
    if options.list is not None:
        listed_offenses = [each for each in offenses if not options.list or each.path.startswith(tuple(options.list))]
        for path, line, key, text in sorted(listed_offenses):
            print(f"{path}:{line}: {key}: {' '.join(text.split())}")
        return 0
    baseline: dict[str, int] = json.loads(BASELINE.read_text())
    if options.lower:
        counts = Counter(offense.key for offense in offenses)
        lower_counts = {key: min(count, counts[key]) for key, count in sorted(baseline.items()) if counts[key]}
        BASELINE.write_text(json.dumps(lower_counts, indent=2) + "\n")
    return check(offenses, words, baseline)


if __name__ == "__main__":
    sys.exit(main())
