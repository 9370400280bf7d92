"""What the input of any tool touches: paths, commands and URLs among its values, but no text."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.core.policy.matching.touches import TouchHints, find_touched, match_touched, read_touched
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN, Truth

SECRETS, PRIVATE = frozenset({"secrets"}), frozenset({"private-address"})


def touch(tool: str, value: Any, names: frozenset[str], source: str = "") -> Truth:
    request = PolicyRequest.for_tool(tool, source=source, input=value)
    return match_touched(find_touched(value, TouchHints(tool, request.kinds)), names)


PATCH = "*** Begin Patch\n*** Update File: {}\n@@\n-a\n+b\n*** End Patch\n"
TOUCHING = [
    ("Read", {"file_path": "/home/ann/.ssh/id_rsa"}),
    ("read", {"filePath": "~/.netrc"}),
    ("view", {"path": "../../.aws/config"}),
    ("Edit", {"file_path": "~/.ssh/config", "old_string": "a", "new_string": "b"}),
    ("Write", {"file_path": "app/.env", "content": ""}),
    ("Glob", {"pattern": "~/.ssh/*"}),
    ("Grep", {"pattern": "key", "path": "/home/ann/.aws"}),
    ("Grep", {"pattern": "key", "path": "app", "glob": ".env*"}),
    ("Grep", {"pattern": "sk_live_[A-Za-z0-9]+"}),
    ("grep", {"pattern": "x", "path": "/home/ann"}),
    ("read_many_files", {"paths": ["a.py", "~/.kube/config"]}),
    ("mcp__x__y", {"a": {"b": [{"c": "file:///proc/self/environ"}]}}),
    ("mcp__notes__get", {"path": "/home/ann/.ssh/id_rsa", "webhook": "https://example.net"}),
    ("use_mcp_tool", {"arguments": json.dumps({"path": "~/.ssh/id_rsa"})}),
    ("use_mcp_tool", {"arguments": json.dumps({"inner": json.dumps({"path": "~/.ssh/id_rsa"})})}),
    ("apply_patch", {"input": PATCH.format("/home/ann/.ssh/authorized_keys")}),
    ("apply_patch", {"input": PATCH.format("app/.env")}),
    ("Bash", {"command": "cat ~/.netrc"}),
    ("shell", {"command": ["cat", "/home/ann/.netrc"]}),
    ("shell", {"command": ["bash", "-lc", "cat < ~/.netrc"]}),
    ("exec_command", {"cmd": "cat gh/hosts.yml", "workdir": "/home/ann/.config"}),
    ("exec_command", {"cmd": "ls", "workdir": "/home/ann/.ssh"}),
    ("mcp__desktop__start_process", {"command": "cat ~/.netrc"}),
    ("shell_call", {"action": {"commands": ["ls", "cat ~/.netrc"]}}),
    ("python", {"code": "open('/home/ann/.netrc')"}),
    ("mcp__x__copy", {"from": "a", "/home/ann/.ssh/id": "b"}),
    ("WebFetch", {"url": "https://a.example/?token=ghp_0123456789abcdef0123", "prompt": "Read"}),
    ("web_fetch", {"prompt": "Read https://ann:hunter22@a.example/ and tell me"}),
    ("WebFetch", {"url": "file:///home/ann/.netrc"}),
]
NOT_TOUCHING = [
    ("Read", {"file_path": "src/secrets.py"}),
    ("Read", {"file_path": ".env.example"}),
    ("Read", {}),
    ("Read", None),
    ("Read", [1]),
    ("Write", {"file_path": "docs/a.md", "content": "~/.ssh/id_rsa"[2:]}),
    ("Write", {"file_path": "docs/a.md", "content": "# Keys\n\nThey are in ~/.ssh and ~/.aws.\n"}),
    ("Edit", {"file_path": "a.md", "old_string": ".env", "new_string": ".netrc"}),
    ("Grep", {"pattern": ".env", "path": "src"}),
    ("Grep", {"pattern": "password", "path": "/home/ann/work/app"}),
    ("Glob", {"pattern": "**/*.py", "path": "/home/ann"}),
    ("WebSearch", {"query": "how does .netrc work"}),
    ("send_message", {"text": "The key is in ~/.ssh/id_rsa, see http://10.0.0.1/"}),
    ("TodoWrite", {"todos": [{"content": "Move .env to the vault", "status": "pending"}]}),
    ("Bash", {"command": "ls", "description": "Look for .env and ~/.ssh"}),
    ("Bash", {"command": "git status"}),
    ("apply_patch", {"input": PATCH.format("src/app.py")}),
    ("WebFetch", {"url": "https://a.example/.env", "prompt": "Read"}),
    ("browser_navigate", {"url": "https://a.example/home/.ssh/"}),
]
PRIVATE_ROWS = [
    ("WebFetch", {"url": "http://169.254.169.254/", "prompt": "x"}, TRUE),
    ("WebFetch", {"url": "169.254.169.254/x"}, TRUE),
    ("web_fetch", {"prompt": "Read http://10.0.0.1/a, please"}, TRUE),
    ("mcp__x__get", {"target": "http://metadata.google.internal/"}, TRUE),
    ("mcp__x__get", {"urls": ["https://a.example/", "http://192.168.0.1/"]}, TRUE),
    ("WebFetch", {"url": "http://vault:8200/"}, UNKNOWN),
    ("Bash", {"command": "curl -s 10.0.0.1"}, TRUE),
    ("browser_navigate", {"url": "http://10.0.0.1"}, TRUE),
    ("WebFetch", {"url": "http://localhost:3000/"}, FALSE),
    ("WebFetch", {"url": "https://a.example/", "prompt": "b"}, FALSE),
    ("send_message", {"text": "See http://10.0.0.1/ for it"}, FALSE),
    ("Read", {"file_path": "10.0.0.1"}, FALSE),
]


@loop_over(("tool", "value"), TOUCHING)
def test_a_call_that_names_a_secret_touches_it(tool: str, value: Any) -> None:
    assert touch(tool, value, SECRETS) >= UNKNOWN


@loop_over(("tool", "value"), NOT_TOUCHING)
def test_a_call_about_ordinary_files_or_with_a_text_about_secrets_touches_none(tool: str, value: Any) -> None:
    assert touch(tool, value, SECRETS) is FALSE and touch(tool, value, PRIVATE) is FALSE


@loop_over(("tool", "value", "answer"), PRIVATE_ROWS)
def test_a_call_that_fetches_a_private_address_touches_it(tool: str, value: Any, answer: Truth) -> None:
    assert touch(tool, value, PRIVATE) is answer


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["path", "command", "url", "content", "/a", "cwd", "code"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(json_values)
def test_every_input_is_answered(value: Any) -> None:
    assert match_touched(read_touched(value), SECRETS | PRIVATE) in Truth


@settings(deadline=None)
@given(json_values, st.sampled_from(["file", "target", "x"]))
def test_nothing_next_to_a_secret_hides_it(value: Any, key: str) -> None:
    assert match_touched(read_touched({"first": value, "in": [{key: "~/.ssh/id_rsa"}]}), SECRETS) is TRUE
