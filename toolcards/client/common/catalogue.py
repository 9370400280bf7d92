"""Which kind of thing a tool does, as far as we know it ourselves.

Policy asks `kind_of`, which knows well-known tools by name and names that promise a change
(`delete_…`, `send_…`); a name can make a call look more dangerous, never less. Cards show
`display_kind`, which also believes friendly names and what the agent says of its tool.
The ten kinds are the Agent Client Protocol's (v1). Standard library only: our client carries a copy.
"""

from __future__ import annotations

import re
from functools import lru_cache

KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
KNOWN: dict[str, str] = {
    name: kind
    for kind, names in {
        "read": "read readfile read_file view cat notebookread read_many_files ls list list_directory listdir "
        "read_mcp_resource readmcpresource listmcpresources lsp",
        "edit": "edit write multiedit notebookedit write_file edit_file create_file str_replace str_replace_editor "
        "str_replace_based_edit_tool apply_patch patch replace insert update_file",
        "delete": "delete_file remove_file rm unlink rmdir",
        "move": "move_file rename_file mv rename",
        "search": "grep glob search search_file_content find file_search codesearch code_search ripgrep websearch "
        "web_search google_web_search search_files toolsearch tool_search",
        "execute": "bash shell run_shell_command run_command execute_command terminal exec exec_command python "
        "run_code code_interpreter execute_code killshell killbash bashoutput local_shell powershell "
        "send_mail send_email sendmail computer",
        "think": "think task agent todowrite todoread todo_write todo_read taskcreate taskupdate tasklist taskget "
        "sequentialthinking save_memory askuserquestion question write_todos",
        "fetch": "webfetch web_fetch fetch fetch_url http_get http_request curl download browser_navigate",
        "switch_mode": "enterplanmode exitplanmode exit_plan_mode enter_plan_mode switch_mode plan_enter plan_exit",
    }.items()
    for name in names.split()
}
_CHANGES: dict[str, str] = {
    verb: kind
    for kind, verbs in {
        "delete": "delete remove drop destroy purge erase truncate wipe uninstall",
        "edit": "write edit update create insert set put patch save modify append upsert add upload commit merge",
        "move": "move rename",
        "execute": "run exec execute shell send post publish deploy pay transfer charge refund order buy email push "
        "install kill restart stop start invoke call trigger",
    }.items()
    for verb in verbs.split()
}
_FRIENDLY: dict[str, str] = {
    verb: kind
    for kind, verbs in {
        "read": "get read list show describe view load",
        "search": "search find query lookup grep",
        "fetch": "fetch download crawl browse",
        "think": "think plan reason",
    }.items()
    for verb in verbs.split()
}
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@lru_cache(maxsize=1_024)
def kind_of(tool: str) -> str:
    """Return the kind that policy may rely on: `other` unless the catalogue or a dangerous name says more."""
    known = KNOWN.get(_plain(tool))
    if known:
        return known
    for word in _words(tool):
        if word in _CHANGES:
            return _CHANGES[word]
    return "other"


def knows(tool: str) -> bool:
    """Return whether the catalogue has this tool by name."""
    return _plain(tool) in KNOWN


def display_kind(tool: str, claimed: str = "") -> str:
    """Return the kind that a card shows: ours, else the agent's claim, else a friendly name's."""
    kind = kind_of(tool)
    if kind != "other":
        return kind
    if claimed in KINDS:
        return claimed
    words = _words(tool)
    return next((_FRIENDLY[word] for word in words[:1] if word in _FRIENDLY), "other")


def _plain(tool: str) -> str:
    return tool.rsplit("__", 1)[-1].strip().lower() if tool.startswith("mcp__") else tool.strip().lower()


def _words(tool: str) -> list[str]:
    name = tool.rsplit("__", 1)[-1]
    return [word.lower() for word in _WORDS.findall(name[:200])]
