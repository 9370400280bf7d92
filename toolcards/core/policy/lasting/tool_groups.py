"""Groups of tools that one lasting answer may cover, since they do the same kind of work: on tickets, say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolcards.client.common.tool_kinds import OWN, is_program_tool
from toolcards.core.policy.request import PolicyRequest

# Tools of the agent's framework that work on one of these at a time; what pays, sends or ends something does not count.
_OBJECTS = ("ticket_id", "case_id", "issue_id", "task_id", "conversation_id", "thread_id", "incident_id")
_OBJECT_VERBS = (
    "add", "update", "set", "tag", "label", "note", "append", "assign", "close", "reopen", "save", "draft", "write",
    "mark", "resolve", "escalate",
)  # fmt: skip
_CRITICAL = ("amount", "price", "email", "to", "recipient", "url", "webhook", "password", "role")
_FORGES = ("github", "github-mcp-server")
_TALKS = (
    "create_pull_request", "update_pull_request", "request_reviewers", "add_issue_comment", "create_issue",
    "update_issue", "add_pull_request_review_comment", "add_comment_to_pending_review", "request_copilot_review",
)  # fmt: skip
_BROWSERS = ("playwright", "playwright-mcp")
_CLICKS = (
    "browser_click", "browser_type", "browser_press_key", "browser_fill_form", "browser_select_option",
    "browser_hover", "browser_drag", "browser_close",
)  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """What a lasting answer covers: its name in forms, its words for people, and a rule's conditions."""

    name: str
    words: str
    match: dict[str, Any]


def list_object_tools(request: PolicyRequest) -> Iterator[Subject]:
    """Yield the agent's own tools for objects of one kind."""
    verb, key = request.tool.partition("_")[0], next((key for key in _OBJECTS if request.input.get(key)), "")
    is_own = request.source in OWN and not request.tool.startswith("mcp_") and not is_program_tool(request.tool)
    is_changing = set(request.kinds) <= {"edit", "other"} and verb in _OBJECT_VERBS
    if is_own and key and is_changing and not any(request.input.get(name) for name in _CRITICAL):
        conditions = [
            {"path": f"/{key}", "op": "exists"},
            *({"path": f"/{name}", "op": "absent"} for name in _CRITICAL),
        ]
        tools = [f"{each}_*" for each in _OBJECT_VERBS]
        words = f"the agent's own tools that add to or update a {key.removesuffix('_id')} (`{key}`)"
        yield Subject("object", words, {"tool": tools, "kind": ["edit", "other"], "args": conditions})


def list_tool_groups(request: PolicyRequest) -> Iterator[Subject]:
    """Yield groups of tools for one repository or one browser."""
    owner, repo = request.input.get("owner"), request.input.get("repo")
    if request.source in _FORGES and request.tool in _TALKS and isinstance(owner, str) and isinstance(repo, str):
        conditions = [{"path": "/owner", "op": "eq", "value": owner}, {"path": "/repo", "op": "eq", "value": repo}]
        match = {"tool": list(_TALKS), "source": [request.source], "args": conditions}
        yield Subject("talks", f"pull requests, issues and comments in `{owner}/{repo}`", match)
    if request.source in _BROWSERS and request.tool in _CLICKS:
        match = {"tool": list(_CLICKS), "source": [request.source]}
        yield Subject("clicks", f"clicks and keys in pages of `{request.source}`", match)
