"""Policy as YAML with only the values of JSON, so that the text is unambiguous.

No anchors, aliases, tags or merge keys; names are text and unique; `no`, `on` and `08:00` are text, as in YAML 1.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from toolcards.client.common.canonical_json import escape
from toolcards.core.policy.language.document import PolicyError, PolicyFinding

LARGEST = 512 * 1024
DEEPEST = 40
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A document and the line (from 1) of each of its values, by JSON Pointer."""

    value: Any
    lines: dict[str, int]

    def line(self, pointer: str) -> int:
        """Return the line of the value or its nearest container."""
        while pointer and pointer not in self.lines:
            pointer = pointer.rpartition("/")[0]
        return self.lines.get(pointer, 1)


class NotYaml(PolicyError):
    """The text cannot be read; `line` is the place."""

    def __init__(self, pointer: str, message: str, line: int) -> None:
        super().__init__([PolicyFinding(pointer, "not_yaml", message)])
        self.line = line


@dataclass
class _OpenCollection:
    """A list or an object that is being read."""

    value: list[Any] | dict[str, Any]
    pointer: str
    key: str | None = None


@dataclass
class _Reader:
    """Reads YAML's events one by one; builds no value twice, so that documents cannot expand."""

    lines: dict[str, int] = field(default_factory=dict)
    stack: list[_OpenCollection] = field(default_factory=list)
    documents: list[Any] = field(default_factory=list)

    def take(self, event: yaml.Event) -> None:
        """Take the next event; raises NotYaml."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise NotYaml(self._get_pointer(), "Anchors and aliases are not supported. Write the value out.", line)
        if isinstance(event, yaml.CollectionEndEvent):
            self._store(self.stack.pop().value)
        elif isinstance(event, yaml.NodeEvent):
            self._node(event, line)
        elif isinstance(event, yaml.DocumentStartEvent) and self.documents:
            raise NotYaml("", "There is more than one document. Use only one.", line)

    def _node(self, event: yaml.NodeEvent, line: int) -> None:
        if getattr(event, "tag", None) not in (None, "!"):
            raise NotYaml(self._get_pointer(), "Tags are not supported. Write the plain value.", line)
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            self._name(top, event, line)
            return
        pointer = self._get_pointer()
        self.lines.setdefault(pointer, line)
        if isinstance(event, yaml.ScalarEvent):
            self._store(_convert_scalar(event))
            return
        if len(self.stack) >= DEEPEST:
            raise NotYaml(pointer, "The document is nested too deeply.", line)
        self.stack.append(_OpenCollection([] if isinstance(event, yaml.SequenceStartEvent) else {}, pointer))

    def _name(self, top: _OpenCollection, event: yaml.NodeEvent, line: int) -> None:
        name = _convert_scalar(event) if isinstance(event, yaml.ScalarEvent) else None
        if not isinstance(name, str) or name == "<<":
            raise NotYaml(top.pointer, "A key must be text. Put it in quotes.", line)
        if name in top.value:
            raise NotYaml(f"{top.pointer}/{escape(name)}", "This key occurs twice.", line)
        top.key = name
        self.lines[f"{top.pointer}/{escape(name)}"] = line

    def _get_pointer(self) -> str:
        """Return the pointer of the next value."""
        if not self.stack:
            return ""
        top = self.stack[-1]
        step = len(top.value) if isinstance(top.value, list) else top.key
        return top.pointer if step is None else f"{top.pointer}/{escape(str(step))}"

    def _store(self, value: Any) -> None:
        if not self.stack:
            self.documents.append(value)
            return
        top = self.stack[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        else:
            top.value[str(top.key)] = value
            top.key = None


def read_yaml(text: str) -> YamlDocument:
    """Return the document; raises NotYaml, which is a PolicyError."""
    if len(text) > LARGEST:
        raise NotYaml("", f"The document is larger than {LARGEST // 1024} KiB.", 1)
    reader = _Reader()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            reader.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        why = getattr(error, "problem", None) or getattr(error, "reason", None) or "the syntax is not valid"
        raise NotYaml(reader._get_pointer(), f"This is not valid YAML: {why}.", mark.line + 1 if mark else 1) from None
    if not reader.documents:
        raise NotYaml("", "The document is empty.", 1)
    return YamlDocument(reader.documents[0], reader.lines)


def _convert_scalar(event: yaml.ScalarEvent) -> Any:
    """Return the value as JSON has it; quoted values are text."""
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is None or len(text) > 40:
        return text
    return float(text) if number[1] or number[2] else int(text)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Write values instead of aliases."""
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """Quote text that looks like a number or has invisible characters."""
    style = '"' if _UNSEEN.search(text) else "'" if _NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_UNSEEN = re.compile(
    "[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb]"
)
_Dumper.add_representer(str, _represent_text)


def write_yaml(document: Any) -> str:
    """Return the document as YAML; invisible characters are written as escapes."""
    text = str(yaml.dump(_order_document(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


_FIRST = ("id", "effect", "mode", "enabled", "severity", "expires_at", "match", "unless")


def _order_document(document: Any) -> Any:
    """Put each rule's name and effect first.

    The order of names has no meaning.
    """
    rules = document.get("rules") if isinstance(document, dict) else None
    if not isinstance(rules, list):
        return document
    return document | {"rules": [_order_rule(rule) if isinstance(rule, dict) else rule for rule in rules]}


def _order_rule(rule: dict[str, Any]) -> dict[str, Any]:
    return {name: rule[name] for name in _FIRST if name in rule} | rule


# ---------------------------------------------------------------- findings next to the text


@dataclass(frozen=True, slots=True)
class Remark:
    """A finding with its line and the text there."""

    finding: PolicyFinding
    line: int
    source_line: str


def list_remarks(error: PolicyError, text: str, lines: YamlDocument | None) -> list[Remark]:
    """Return the findings in the order of the text."""
    rows = text.splitlines()
    remarks = []
    for finding in error.findings[:50]:
        line = error.line if isinstance(error, NotYaml) else lines.line(finding.pointer) if lines else 1
        line_text = rows[line - 1].strip()[:120] if line <= len(rows) else ""
        message = finding.message[:1].upper() + finding.message[1:]
        remarks.append(Remark(replace(finding, pointer=finding.pointer or "/", message=message), line, line_text))
    return sorted(remarks, key=lambda remark: remark.line)
