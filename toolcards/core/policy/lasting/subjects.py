"""The subjects of lasting answers: what a rule that a person writes by one press may cover, from a call.

A subject is narrow where the call goes outside: one host, one ticket system's tool, the words of one command.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

from toolcards.client.common.tool_kinds import OWN, is_program_tool
from toolcards.core.policy.changes.limited_tools import find_limit
from toolcards.core.policy.evaluation_context import find_values
from toolcards.core.policy.lasting.command_templates import list_templates
from toolcards.core.policy.lasting.tool_groups import Subject, list_object_tools, list_tool_groups
from toolcards.core.policy.matching.hosts import parse_host_pattern, parse_url
from toolcards.core.policy.matching.operands import MANIFESTS
from toolcards.core.policy.matching.read_names import VERBS, is_program
from toolcards.core.policy.places.patches import read_patch
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.shell.catalogs import find_tool
from toolcards.core.policy.shell.command_prefix import CommandPrefix, parse_prefix
from toolcards.core.policy.shell.program_match import match_program
from toolcards.core.policy.shell.rule_operands import EDITS
from toolcards.core.policy.shell.script import CommandSegment, Script, read_command
from toolcards.core.policy.shell.work.templates import SLOT
from toolcards.core.policy.statements import only_reads

MAX_TEXT = 200  # characters of a name in a rule
MAX_COMMANDS = 5  # of a line, in one rule
# Arguments that say where a tool works or sends: an answer covers their values only.
PLACES = (
    "owner", "repo", "repository", "project", "project_id", "workspace", "team", "channel", "channel_id", "channelId",
    "chat_id", "room", "to", "cc", "bcc", "recipient", "recipients", "database", "table", "bucket", "namespace",
    "environment", "env", "cluster", "account", "destination", "dest", "target", "endpoint", "webhook", "host",
    "hostname", "domain",
)  # fmt: skip
_ADDRESS = re.compile(r"[a-zA-Z][\w+.-]*://\S+|[^\s@]+@[^\s@]+")  # under any name
INSIDE = {"path": "", "op": "inside_project"}
TOOL_ONLY = {"path": "", "op": "tool_only"}
# The words for each class of work (`shell/work/classes.toml`)
WORK_WORDS = {
    "project": "tests and builds",
    "scripts": "scripts of the project",
    "git": "local git",
    "packages": "packages",
    "files": "commands that change named files",
    "containers": "local containers",
    "fetches": "reads of public addresses",
    "shares": "pushes of named branches to origin, pull requests and their comments",
    "pushes": "`git push` of any branch checked out",
}
# What stays in the project and can be undone there: who lets its tests run lets its files be changed, too.
LOCAL_WORK = frozenset({"project", "scripts", "git", "files"})
_PUSHES = frozenset({"shares", "pushes"})  # who lets a branch be pushed by its name mostly means the next pushes, too
_EDIT_KINDS = frozenset({"read", "edit", "move"})
_MAX_PATCH = 100_000  # characters of a patch in which files are looked for
_FILE_ARGUMENTS = frozenset({"file_path", "filePath", "path", "target_file"})
_ADDRESSES = ("url", "uri", "address", "href")


def list_subjects(request: PolicyRequest) -> list[Subject]:
    """Return what a lasting answer could cover, most useful first."""
    if not request.has_input or not isinstance(request.input, dict):
        return []
    tool = find_tool(request.tool)
    if tool.paths:
        return list(_list_commands(request, tool.paths, tool.list))
    if tool.foreign:
        return []
    subjects = [*_list_edits(request), *_list_hosts(request), *_list_statements(request), *_list_tools(request)]
    return [
        *_list_reads(request),
        *list_object_tools(request),
        *(subject for subject in subjects if is_plain(subject.match)),
    ]


def is_plain(value: Any) -> bool:
    """Return whether every text fits in a rule and means only itself."""
    if isinstance(value, dict):
        return all(is_plain(each) for each in value.values())
    if isinstance(value, list):
        return all(is_plain(each) for each in value)
    return not isinstance(value, str) or (len(value) <= MAX_TEXT and value.isprintable() and "*" not in value)


# ---------------------------------------------------------------- commands


def _list_commands(request: PolicyRequest, paths: tuple[tuple[str, ...], ...], list_of: str) -> Iterator[Subject]:
    values = [value for path in paths for value in find_values(request, path) or ()]
    scripts = [read_command(value, list_of, request.project) for value in values]
    if len(scripts) != 1 or scripts[0] is None:
        return
    yield from _list_work(request, scripts[0])
    templates = list_templates(scripts[0])
    if templates and all(map(is_plain, templates)):
        match = _in_project(request, {"args": [{"path": "", "op": "cmd", "value": templates}]})
        words = " and ".join(f"`{SLOT.sub('…', text)}`" for text in templates)
        yield Subject("like", words, match)
    prefixes = _find_prefixes(scripts[0])
    if prefixes and all(map(is_plain, prefixes)):
        match = _in_project(request, {"args": [{"path": "", "op": "cmd", "value": prefixes}]})
        yield Subject("command", " and ".join(f"`{text}`" for text in prefixes), match)


def _list_work(request: PolicyRequest, script: Script) -> Iterator[Subject]:
    """Yield the classes of work of the command, if it does nothing else than work in the project."""
    changes = [segment for segment in script.segments if segment.doubt]
    classes = frozenset().union(*(segment.work for segment in changes))
    if request.project is None or not classes or not all(segment.work for segment in changes):
        return
    if classes <= LOCAL_WORK:
        words = "edits, tests, builds, scripts, local git and file commands"
        yield _describe_work(request, "local", words, LOCAL_WORK | {EDITS})
    yield _describe_work(request, "work", _spell_work(classes), classes)
    if classes & _PUSHES and not classes >= _PUSHES:
        yield _describe_work(request, "pushes", _spell_work(classes | _PUSHES), classes | _PUSHES)


def _spell_work(classes: frozenset[str]) -> str:
    return " and ".join(text for name, text in WORK_WORDS.items() if name in classes)


def _describe_work(request: PolicyRequest, name: str, words: str, classes: frozenset[str]) -> Subject:
    effects = {"path": "", "op": "effect", "value": ["none", *sorted(classes)]}
    kinds = ["execute", "edit", "move"] if EDITS in classes else ["execute"]
    match = _in_project(request, {"kind": kinds, "args": [effects, INSIDE]})
    return Subject(name, f"{words} in this project", match)


def _in_project(request: PolicyRequest, match: dict[str, Any]) -> dict[str, Any]:
    """Return the conditions for the project of this run, if it is known."""
    return match | ({"project": [request.project.name]} if request.project else {})


def _find_prefixes(script: Script) -> list[str]:
    """Return the shortest first words that cover every part of the command that changes something."""
    prefixes: dict[str, None] = {}
    for segment in script.segments:
        if not segment.doubt:
            continue
        prefix = None if segment.opaque else _find_prefix(segment)
        if prefix is None:
            return []
        prefixes[prefix.text] = None
    return list(prefixes) if len(prefixes) <= MAX_COMMANDS else []


def _find_prefix(segment: CommandSegment) -> CommandPrefix | None:
    place = match_program(segment.words, segment.globs)
    for count in range(max(1, place.length if place else 1), len(segment.words) + 1):
        prefix = parse_prefix(shlex.join(segment.words[:count]))
        if prefix.words == segment.words[:count] and not segment.explain_refusal(prefix):
            return prefix
    return None


# ---------------------------------------------------------------- tools


def _list_edits(request: PolicyRequest) -> Iterator[Subject]:
    """Yield edits of the project's files, without protected ones."""
    if request.project is not None and "edit" in request.kinds and _EDIT_KINDS.issuperset(request.kinds):
        match = _in_project(request, {"kind": ["edit", "move"], "args": [INSIDE]})
        yield Subject("edits", "edits of files in this project", match)
        manifests = sorted({re.split(r"[\\/]", path)[-1] for path in _list_edited_files(request)} & MANIFESTS)
        if manifests:
            match = _in_project(request, {"kind": ["edit", "move"], "args": [INSIDE | {"value": manifests}]})
            names = " and ".join(f"`{name}`" for name in manifests)
            yield Subject("file", f"edits of files in this project, {names} included", match)


def _list_edited_files(request: PolicyRequest) -> Iterator[str]:
    for key, value in request.input.items():
        if isinstance(value, str):
            yield from (value,) if key in _FILE_ARGUMENTS else read_patch(value[:_MAX_PATCH]).paths


def _list_hosts(request: PolicyRequest) -> Iterator[Subject]:
    """Yield the host of a tool that only fetches."""
    if request.kinds != ("fetch",):
        return
    for key in _ADDRESSES:
        url = request.input.get(key)
        endpoint = parse_url(url) if isinstance(url, str) else None
        host = _name_host(url) if endpoint is not None else ""
        if host:
            match = _name_tool(request) | {"args": [{"path": f"/{key}", "op": "host_in", "value": [host]}]}
            yield Subject("host", f"`{request.tool}` from `{host}`", match)


def _name_host(url: str) -> str:
    """Return the host of a URL as rules name it, or ""."""
    authority = url.partition("://")[2].partition("/")[0].partition("?")[0]
    try:
        parse_host_pattern(authority)
    except ValueError:
        return ""
    return authority


def _list_reads(request: PolicyRequest) -> Iterator[Subject]:
    """Yield the tools of the same server, or the agent's own, that read by their names, or those for notes."""
    start = request.names.qualifier if request.tool.startswith("mcp__") else ""
    limit = find_limit(request, names_server=True)
    if limit == "notes":
        yield Subject(
            "notes", "the agent's own tools for its notes and drafts", {"args": [TOOL_ONLY | {"value": limit}]}
        )
    if limit != "reads" or request.kinds != ("other",) or not is_plain([start, request.source]):
        return
    server = start.removeprefix("mcp__").removesuffix("__") or (request.source if _names_server(request) else "")
    whose = f"tools of `{server}`" if server else "the agent's own tools"
    match = {
        "tool": [f"{start}{verb}_*" for verb in VERBS], "kind": ["other"],
        "args": [TOOL_ONLY | {"value": limit}],
    }  # fmt: skip
    yield Subject(
        "reads",
        f"{whose} whose names begin with get, list, find, search or read",
        match | ({"source": [request.source]} if _names_server(request) else {}),
    )


def _list_statements(request: PolicyRequest) -> Iterator[Subject]:
    """Yield the queries of a database that only read, by this tool."""
    for key, value in request.input.items():
        if isinstance(value, str) and is_plain([key]) and key.isidentifier() and only_reads(value):
            match = _name_tool(request) | {"args": [{"path": f"/{key}", "op": "reads_sql"}]}
            yield Subject("queries", f"queries of {_name_for_people(request)} that only read", match)


def _list_tools(request: PolicyRequest) -> Iterator[Subject]:
    words = _name_for_people(request)
    yield from list_tool_groups(request)
    if any(is_program(key, value) for key, value in request.input.items()):
        return
    is_own_tool = _names_server(request) or not is_program_tool(request.tool)
    places = {
        key: value
        for key, value in request.input.items()
        if (key in PLACES and value not in (None, "", [], {})) or (is_own_tool and _has_address(value))
    }
    if places:
        conditions = [{"path": f"/{key}", "op": "eq", "value": value} for key, value in places.items()]
        named_places = ", ".join(f"{key} `{_format(value)}`" for key, value in places.items())
        yield Subject("place", f"{words} with {named_places}", _name_tool(request) | {"args": conditions})
    elif is_own_tool:
        yield Subject("tool", words, _name_tool(request))


def _has_address(value: Any) -> bool:
    """Return whether a value is an address or has one in it, which a tool may send to."""
    if isinstance(value, str):
        return _ADDRESS.fullmatch(value) is not None
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_has_address, parts))


def _format(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _name_for_people(request: PolicyRequest) -> str:
    return f"`{request.source}:{request.tool}`" if _names_server(request) else f"`{request.tool}`"


def _name_tool(request: PolicyRequest) -> dict[str, Any]:
    return {"tool": [request.tool]} | ({"source": [request.source]} if _names_server(request) else {})


def _names_server(request: PolicyRequest) -> bool:
    return bool(request.source) and request.source not in OWN and not request.tool.startswith("mcp__")
