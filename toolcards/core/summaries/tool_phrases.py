"""Calls of known tools as sentences, by a table (`tool_phrases.toml`), and of all others by name and arguments."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from toolcards.client.common.json_text import format_text
from toolcards.core.policy.places.patches import read_patch
from toolcards.core.summaries.command_phrases import join_names
from toolcards.core.summaries.statement_phrases import describe_statement

MAX_SCALARS = 2  # arguments in the summary of a tool without a phrase
MAX_VALUE = 80  # characters of one of them
MAX_PATCH = 20_000  # characters of a patch that are read
_MAX_LINE = 10**9  # Python refuses to write numbers of thousands of digits
_MAX_COMPARED_LINES = 200  # of an edit, on each side
_PATH = ("file_path", "path", "filename", "filepath", "file", "notebook_path", "target_file", "absolute_path",
         "dir_path", "directory", "dir", "relative_workspace_path", "target_directory")  # fmt: skip
_OLD, _NEW = ("old_string", "old_str", "old_text"), ("new_string", "new_str", "new_text", "content", "file_text")
_URL = ("url", "uri", "href")
_QUERY = ("pattern", "query", "regex", "search_term", "glob_pattern", "q")
_TEXT = ("description", "prompt", "text", "message", "content", "thought", "fact", "chars", "input", "body")
_TO = ("to", "cc", "bcc", "recipients", "recipient")
_ID = ("shell_id", "bash_id", "task_id", "taskId", "id", "session_id")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "path": _PATH, "query": _QUERY, "text": _TEXT, "id": _ID, "agent": ("subagent_type", "agent", "agent_type"),
    "subject": ("subject", "title"), "name": ("skill", "name", "skill_name"), "command": ("command",),
    "status": ("status",),
    "channel": ("channel", "channel_id", "channel_name"), "method": ("method", "http_method", "verb"),
    "old": ("source", "old_path", "from", "old_name"), "new": ("destination", "new_path", "to", "new_name"),
}  # fmt: skip
# What risk looks at comes first, so that it is named.
_WEIGHTY = re.compile(r"amount|total|price|method|action|to|cc|bcc|recipients?|path|file|dest\w*|url|uri", re.I)
_PLACE = re.compile(r"path|file|folder|dir|target|dest|location|method|action", re.I)
_SILENT = frozenset({*_OLD, *_NEW, *_URL})
_UNNAMED = re.compile(r"\w+Id|(?:\w+_)?(?:id|path|file|url|name|query|email)|to|repo|repository|file_?path", re.I)
_NUMBERED = re.compile(r"(?:pull|issue|pr|pull_request)?_?number", re.I)
_LIST_NAME = re.compile(r"[@#]?(?:all|everyone|team|staff|company|customers|users|list|announce)", re.I)
_QUERY_FIELDS = ("sql", "query", "statement")
_SLOT = re.compile(r"\{(\w+)\}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def describe_call(tool: str, arguments: Mapping[str, Any], *, is_own: bool) -> str:
    """Return the sentence of a call that has a phrase, else ""."""
    for text in _load_phrases().get(_fold(tool), ()) if is_own else ():
        values = {slot: _read_slot(slot, arguments) for slot in _SLOT.findall(text)}
        if None not in values.values():
            return _name_places(text.format(**values), arguments)
    statement = next((arguments[name] for name in _QUERY_FIELDS if isinstance(arguments.get(name), str)), "")
    sentence = describe_statement(statement) if statement else ""
    extras = [_describe_argument(name, value) for name, value in arguments.items() if value is not statement]
    return ", ".join((sentence, *extras)) if sentence else ""


def _name_places(sentence: str, arguments: Mapping[str, Any]) -> str:
    """Return the sentence with every place that it does not name yet."""
    for name, value in arguments.items():
        is_place = _PLACE.search(name) and name not in _SILENT and isinstance(value, str)
        if is_place and value and value not in sentence:
            sentence += f", {_describe_argument(name, value)}"
    return sentence


def describe_arguments(tool: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the tool with its first arguments, and whether these are all."""
    remaining = dict(arguments)
    texts = []
    if isinstance(remaining.get("owner"), str) and isinstance(remaining.get("repo"), str):
        texts.append(f"{remaining.pop('owner')}/{remaining.pop('repo')}")
    scalars = [name for name in remaining if is_scalar(remaining[name])]
    scalars.sort(key=lambda name: not _WEIGHTY.fullmatch(name))
    first_names = scalars[: MAX_SCALARS - len(texts)]
    texts += [_describe_argument(name, remaining.pop(name)) for name in first_names]
    start = " ".join(filter(None, (name_tool(tool), _join_arguments(texts))))
    return f"{start} and {len(remaining)} more" if remaining else start, not remaining and "…" not in start


def name_tool(tool: str) -> str:
    """Return the tool's name in words."""
    if not _PLAIN_NAME.fullmatch(tool):
        return tool
    words = _HUMP.sub(" ", tool).replace("_", " ").split()
    return " ".join(word if word.isupper() else word.lower() for word in words) or tool


def read_command(arguments: Mapping[str, Any]) -> str:
    """Return the command of a tool that runs one, "" without one."""
    value = get_first(arguments, ("command", "cmd", "script", "code"))
    if isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        is_shell = len(words) == 3 and words[0] in {"bash", "sh", "zsh"} and words[1] in {"-c", "-lc"}
        return words[2] if is_shell else " ".join(words)
    return value if isinstance(value, str) else ""


def is_scalar(value: Any) -> bool:
    """Return whether the value has no members."""
    return isinstance(value, (str, int, float))


def get_first(arguments: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the first of these arguments that the call has."""
    return next((arguments[name] for name in names if name in arguments), None)


def _describe_argument(name: str, value: Any) -> str:
    text = format_text(value)
    text = text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"
    if _NUMBERED.fullmatch(name):
        return f"#{text}"
    return text if _UNNAMED.fullmatch(name) else f"{name}: {text}"


def _join_arguments(texts: list[str]) -> str:
    """Return the arguments with commas, but none between a repository and a number."""
    return ", ".join(texts).replace(", #", " #")


def _read_slot(slot: str, arguments: Mapping[str, Any]) -> str | None:
    reader = _READERS.get(slot)
    if reader is not None:
        return reader(arguments)
    value = get_first(arguments, _NAMES[slot])
    return value if isinstance(value, str) and value else None


def _read_lines(arguments: Mapping[str, Any]) -> str:
    first = _get_line(arguments, "offset", "start_line", "start_line_one_indexed")
    last = _get_line(arguments, "end_line", "end_line_one_indexed_inclusive")
    count = _get_line(arguments, "limit")
    start = max(first or 1, 1)
    if count is not None and last is None:
        last = start + count - 1
    if last is not None:
        return f" lines {start}–{last}"
    return f" from line {start}" if first is not None else ""


def _get_line(arguments: Mapping[str, Any], *names: str) -> int | None:
    value = get_first(arguments, names)
    return value if isinstance(value, int) and abs(value) < _MAX_LINE else None


def _read_changes(arguments: Mapping[str, Any]) -> str:
    edits = arguments.get("edits")
    changes = [edit for edit in edits if isinstance(edit, dict)] if isinstance(edits, list) else [arguments]
    counts = [_count_changed_lines(get_first(change, _OLD), get_first(change, _NEW)) for change in changes]
    added_lines, removed_lines = sum(count for count, _ in counts), sum(count for _, count in counts)
    return f" (+{added_lines} −{removed_lines})" if added_lines or removed_lines else ""


def _read_patched(arguments: Mapping[str, Any]) -> str | None:
    text = get_first(arguments, ("input", "patch", "patchText", "diff"))
    if not isinstance(text, str) or len(text) > MAX_PATCH:
        return None
    patch = read_patch(text)
    lines = Counter(line[0] for line in text.splitlines() if line[:1] in {"+", "-"} and line[:3] not in {"+++", "---"})
    if not patch.paths or not patch.certain or patch.deletes:
        return None
    return f"{_count_names(list(patch.paths), 3)} (+{lines['+']} −{lines['-']})"


def _read_recipients(arguments: Mapping[str, Any]) -> str | None:
    """Return the first recipient, lists before people, and how many others there are."""
    values = [arguments[name] for name in _TO if name in arguments]
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    if not all(isinstance(text, str) for text in texts):
        return None
    names = [name.strip() for text in texts for name in re.split("[,;]", text) if name.strip()]
    return _count_names(sorted(names, key=lambda name: not _LIST_NAME.match(name))) if names else None


def _count_names(names: list[str], most: int = 1) -> str:
    count = len(names) - most
    if count <= 0:
        return join_names(names)
    return f"{', '.join(names[:most])} and {count} other{'s' * (count > 1)}"


def _read_url(arguments: Mapping[str, Any]) -> str | None:
    """Return host and path of the address; the rest of it is only hinted at."""
    url = get_first(arguments, _URL)
    if not isinstance(url, str) or not url:
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except ValueError:  # no address, or no such port
        return url
    more = "?…" if parts.query else ""
    return f"{host}{port}{parts.path.rstrip('/')}{more}" if host else url


def _read_place(arguments: Mapping[str, Any]) -> str:
    place = get_first(arguments, _PATH)
    return f" in {place}" if isinstance(place, str) and place not in {"", "."} else ""


def _read_title(arguments: Mapping[str, Any]) -> str:
    title = get_first(arguments, ("subject", "title"))
    return f": “{title}”" if isinstance(title, str) and title else ""


def _read_question(arguments: Mapping[str, Any]) -> str | None:
    questions = arguments.get("questions")
    first = questions[0] if isinstance(questions, list) and questions else arguments
    text = get_first(first, ("question", "text")) if isinstance(first, dict) else None
    return text if isinstance(text, str) and text else None


def _read_paths(arguments: Mapping[str, Any]) -> str | None:
    paths = get_first(arguments, ("paths", "file_paths", "files"))
    is_list = isinstance(paths, list) and paths and all(isinstance(path, str) for path in paths)
    return _count_names(paths, 3) if is_list else None


def _count_changed_lines(old: Any, new: Any) -> tuple[int, int]:
    """Return how many lines were added and removed; lines that both texts have do not count."""
    before, after = (text.splitlines() if isinstance(text, str) else [] for text in (old, new))
    while before and after and before[-1] == after[-1]:
        before.pop()
        after.pop()
    pairs = enumerate(zip(before, after, strict=False))
    start = next((number for number, (a, b) in pairs if a != b), min(len(before), len(after)))
    before, after = before[start:], after[start:]
    if max(len(before), len(after)) > _MAX_COMPARED_LINES:  # a comparison in order would take too long
        return (Counter(after) - Counter(before)).total(), (Counter(before) - Counter(after)).total()
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    shared_lines = sum(block.size for block in blocks)
    return len(after) - shared_lines, len(before) - shared_lines


_READERS: Mapping[str, Callable[[Mapping[str, Any]], str | None]] = {
    "lines": _read_lines, "changes": _read_changes, "patched": _read_patched, "recipients": _read_recipients,
    "url": _read_url, "place": _read_place, "title": _read_title, "question": _read_question, "paths": _read_paths,
}  # fmt: skip


@cache
def _load_phrases() -> Mapping[str, tuple[str, ...]]:
    """Return the sentences by the folded name of the tool."""
    text = files(__package__).joinpath("tool_phrases.toml").read_text(encoding="utf-8")
    phrases: dict[str, tuple[str, ...]] = {}
    for row in tomllib.loads(text)["phrase"]:
        for name in row["tools"].split():
            phrases[_fold(name)] = (*phrases.get(_fold(name), ()), row["says"])
    return phrases


def _fold(tool: str) -> str:
    return tool.lower().replace("_", "").replace("-", "")
