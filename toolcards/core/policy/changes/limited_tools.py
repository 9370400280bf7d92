"""The condition `tool_only`: whether a tool does no more than one of these, by its name, server and arguments.

`reads`: it reads or calculates (`get_task`, `translate_text`); it is of the agent's own framework, or of a server that
the catalog or the rule names. `queries`: it runs one SQL query that only reads. `notes`: it changes the notes and
drafts that the agent keeps for its work (`create_outline`). `pages`: its browser shows a page of this computer, or
moves in a page.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from toolcards.client.common.tool_kinds import OWN, is_program_tool, is_server, split_words
from toolcards.core.policy.evaluation_context import EvaluationContext
from toolcards.core.policy.matching.read_names import is_program, names_secret, reads_by_name
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.shell.script import CommandSegment
from toolcards.core.policy.shell.work.inline_code import only_calculates
from toolcards.core.policy.shell.work.tame_words import is_local_address, is_loud, is_plain_address
from toolcards.core.policy.statements import only_reads
from toolcards.core.policy.truth import UNKNOWN, Truth, to_truth

_WORDS = {
    name: frozenset(text.split())
    for name, text in tomllib.loads(files(__package__).joinpath("limited_tools.toml").read_text("utf-8")).items()
}
# Arguments by which a call works for someone else, or reports somewhere.
_ELSEWHERE = re.compile(
    r"(?i)(?:.*_)?(?:to|cc|bcc|recipients?|emails?|phone|webhook|callback|destination|target_url|endpoint|host|server|"
    r"channels?|owner|repo|repository|tickets?|tickets?_id|customer|customer_id|orders?_id|users?|users?_id|accounts?|"
    r"account_id|cases?_id|issues?|issue_id|patients?_id|pages?_id|workspace|team|bucket|database|table|share|public|"
    r"publish|visibility|notify|send|amount|price|payment)"
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*")
_ADDRESS = re.compile(r"(?i)\b[a-z][a-z0-9+.-]*://|^\s*(?://|www\.|mailto:|data:)")
_PLACE = re.compile(r"(?i)(?:.*_)?(?:path|file|filename|dir|directory|folder|location|output|out)")
_PLAIN_PLACE = re.compile(r"(?:[A-Za-z0-9_][\w .-]*/)*[A-Za-z0-9_][\w .-]*")  # nothing hidden, nothing outside
_LINKS = frozenset({"url", "link", "source", "source_url", "href"})  # of a citation or a bookmark
_MOVES = frozenset(
    {"browser_close", "browser_resize", "browser_hover", "browser_navigate_back", "browser_navigate_forward"}
)
_ACTIONS = frozenset({"scroll_down", "scroll_up", "close", "screenshot", "resize", "hover"})
_BROWSERS = OWN | {"playwright"}
_PYTHON_TOOLS = frozenset({"run_python", "python", "execute_python", "python_repl", "python_interpreter"})
_QUERY_TOOLS = frozenset(
    {"query", "read_query", "run_query", "execute_query", "sql_query", "run_sql", "execute_sql", "sql_db_query"}
)
_STATEMENTS = frozenset({"sql", "query", "statement"})
_MAX_VALUES = 200


def find_limit(request: PolicyRequest, *, names_server: bool = False) -> str:
    """Return what the call does at most, or "".

    The answers are those of `operands.TOOL_LIMITS`. `names_server`: a person has named the tool or its server.
    """
    arguments = request.input
    if not isinstance(arguments, dict):
        return ""
    if _shows_page(request):
        return "pages"
    if _only_queries(request):
        return "queries"
    values = list(_list_values(arguments))
    if len(values) > _MAX_VALUES:
        return ""
    name = request.tool.removeprefix(request.names.qualifier) if request.tool.startswith("mcp__") else request.tool
    if request.source not in OWN or request.tool.startswith("mcp_"):
        is_clear = bool(request.names.qualifier) or not request.tool.startswith("mcp_")
        is_known = is_clear and (names_server or is_server(request.source))
        reads = is_known and reads_by_name(request) and not any(_is_address(value) for _, value in values)
        return "reads" if reads else ""
    if not _NAME.fullmatch(name):
        return ""
    if name == "attempt_completion":  # of Cline, which offers to run its command
        return "" if arguments.get("command") else "reads"
    if name in _PYTHON_TOOLS:
        return "reads" if set(arguments) <= {"code", "timeout"} and _calculates(arguments.get("code")) else ""
    words = split_words(name)
    works_elsewhere = any(_ELSEWHERE.fullmatch(key) and value for key, value in values)
    if is_program_tool(name):
        return ""
    is_doubtful = works_elsewhere or any(_leads_elsewhere(*pair) or is_program(*pair) for pair in values)
    if _keeps_notes(words) and not is_doubtful:
        return "notes" if request.kinds[0] in {"edit", "move", "other"} and not names_secret(name) else ""
    return "reads" if _only_reads(request, words, values) else ""


def _only_reads(request: PolicyRequest, words: list[str], values: list[tuple[str, Any]]) -> bool:
    addresses = [(key, value) for key, value in values if _is_address(value)]
    if addresses and not (len(addresses) == 1 and addresses[0][0] == "url" and is_plain_address(addresses[0][1])):
        return False
    is_fetched = bool(addresses) and words[0] in {"fetch", "crawl", "open"}
    if (
        (words[0] in _WORDS["calculating"] or is_fetched)
        and request.kinds == ("other",)
        and not names_secret(request.tool)
    ):
        return not is_loud(request.tool) and not any(is_program(key, value) for key, value in values)
    return reads_by_name(request)


def _calculates(code: Any) -> bool:
    return isinstance(code, str) and only_calculates(code)


def _only_queries(request: PolicyRequest) -> bool:
    """Return whether a tool for one query has one that only reads, and nothing else that counts."""
    name = request.tool.removeprefix(request.names.qualifier) if request.tool.startswith("mcp__") else request.tool
    texts = [value for key, value in request.input.items() if key in _STATEMENTS]
    are_plain = all(key in _STATEMENTS or isinstance(value, int | float | None) for key, value in request.input.items())
    is_query = name in _QUERY_TOOLS and len(texts) == 1 and isinstance(texts[0], str)
    return is_query and are_plain and only_reads(texts[0])


def _keeps_notes(words: list[str]) -> bool:
    """Return whether the name is a verb and the notes that it changes."""
    return (
        len(words) > 1
        and words[0] in _WORDS["noting"]
        and words[-1] in _WORDS["notes"]
        and _WORDS["before"].issuperset(words[1:-1])
    )


def _shows_page(request: PolicyRequest) -> bool:
    """Return whether a browser shows a page of this computer, or only moves in the page that it shows."""
    if request.source not in _BROWSERS or request.tool.startswith("mcp_"):
        return False
    action, address = request.input.get("action"), request.input.get("url")
    if request.tool == "browser_action":
        is_plain = {"action", "url", "coordinate", "size"}.issuperset(request.input)
        return is_plain and (action in _ACTIONS or (action == "launch" and _is_local(address)))
    if request.tool == "browser_navigate":
        return {"url"}.issuperset(request.input) and _is_local(address)
    return request.tool in _MOVES and {"width", "height", "element", "ref"}.issuperset(request.input)


def _is_local(address: Any) -> bool:
    return isinstance(address, str) and "@" not in address and "://" in address and is_local_address(address)


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and _ADDRESS.search(value) is not None


def _leads_elsewhere(key: str, value: Any) -> bool:
    """Return whether a value may be an address to which something goes, or a file outside."""
    if _PLACE.fullmatch(key) and isinstance(value, str):
        return _PLAIN_PLACE.fullmatch(value) is None
    return key not in _LINKS and _is_address(value) and " " not in str(value).strip()


def _list_values(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value with the key that it has."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _list_values(part, name) if isinstance(part, dict | list) else ((name, part),)
            if isinstance(part, dict | list) and part:
                yield name, True
    elif isinstance(value, list):
        for part in value:
            yield from _list_values(part, key)
    else:
        yield key, value


@dataclass(frozen=True, slots=True)
class LimitedToolCondition:
    """Whether a call is of a tool that does one of these at most."""

    operand: frozenset[str]
    names_server: bool = False
    name: str = "tool only"
    cost: int = 2

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return whether it is; unknown without an input."""
        context.step()
        if not context.request.has_input:
            return UNKNOWN
        return to_truth(self._find(context) in self.operand)

    def _find(self, context: EvaluationContext) -> str:
        names_server = self.names_server
        kind: str = context.remember(
            ("tool only", names_server), lambda: find_limit(context.request, names_server=names_server)
        )
        return kind

    def actual(self, context: EvaluationContext) -> Any:
        """Return what the tool does at most."""
        return self._find(context)
