"""Pages, notifications and commands use plain words: the phrases below are banned, with what to write instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.tables import loop_over

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
ROOMS = ("dashboard", "toolcards/notifications", "toolcards/management", "toolcards/core/policy")
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py") if path.parent.name != "shell")
SCRIPTS = sorted((ROOT / "static" / "toolcards").glob("*.js"))
BANNED = {
    "what became of": "outcomes", "became of": "outcome", "whose fault|the fault is": "caused by",
    "who(?:m|so)?ever": "anyone who", "whom": "who", "nobody": "no one", "somebody": "someone", "anybody": "anyone",
    "(?:is|are|was|were|be) told": "receives, is notified", "told about": "is notified",
    "anew": "again", "once more": "again", "of late|lately": "recently", "by now": "already", "beside": "next to",
    "a yes": "an approval", "(?:said|says|say) (?:yes|no)": "approved, denied", "mean yes": "approve",
    "(?:these|this) very": "exactly these, this exact", "f[ae]ll(?:en)? silent": "lost contact",
    "take(?:s|n)? (?:it )?back": "revoke, undo", "as far as": "for, so far", "how far it is": "progress",
    "well again": "recovered", "broke off": "failed", "came out otherwise": "was corrected",
    "comes in|came in": "signs in, arrives", "in vain": "without effect", "shall": "must, can",
    "is none": "there is none", "stands (?:here|below|there)": "is listed", "this cannot be told": "this is not known",
    "without saying why": "with no message", "far too": "too", "upon": "on", "hence": "so", "lest": "so that ... not",
}  # fmt: skip
ANY = re.compile("|".join(rf"(?<![\w-])(?:{phrase})(?![\w-])" for phrase in BANNED), re.IGNORECASE)
EXCEPTIONS = {"nobody", "hashed anew"}  # values in the audit trail


def find_template_phrases(text: str) -> Iterator[str]:
    """Yield what is banned in the words of a template: neither tags of the language nor most attributes count."""
    text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", " ", text, flags=re.DOTALL)
    text = re.sub(r"""(?<![\w-])(?:class|id|name|href|value|(?:data|hx)-[\w:-]+)="[^"]*\"""", " ", text)
    yield from (match[0] for match in ANY.finditer(" ".join(text.split())))


def find_string_phrases(source: str) -> Iterator[str]:
    """Yield what is banned in the strings of a module, without docstrings."""
    tree = ast.parse(source)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements
        if is_text and node.value not in EXCEPTIONS:
            yield from (f"{node.lineno}: {match[0]}" for match in ANY.finditer(node.value))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@loop_over("template", TEMPLATES, ids=name_of)
def test_a_template_has_no_banned_phrase(template: Path) -> None:
    assert not list(find_template_phrases(template.read_text()))


@loop_over("module", MODULES, ids=name_of)
def test_the_texts_of_a_module_have_no_banned_phrase(module: Path) -> None:
    assert not list(find_string_phrases(module.read_text()))


@loop_over("script", SCRIPTS, ids=name_of)
def test_the_texts_of_a_page_script_have_no_banned_phrase(script: Path) -> None:
    strings = re.findall(r"'[^'\n]*'|`[^`]*`", re.sub(r"(?m)//.*$|/\*.*?\*/", "", script.read_text()))
    assert not [match[0] for string in strings for match in ANY.finditer(string)]


def test_the_check_finds_a_phrase_in_each_place() -> None:
    assert list(find_template_phrases("<p>Nobody is\n told {{ nobody }} yet</p>")) == ["Nobody", "is told"]
    assert list(find_string_phrases('"""Nobody."""\nx = f"Ask {y} once more"')) == ["2: once more"]


def test_the_glossary_has_one_row_for_each_term() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)[1:]
    assert len(rows) > 20 and len(rows) == len({row.lower() for row in rows})
