"""Results and errors in the shapes that clients, servers and libraries use: the client, the value, what it says."""

from __future__ import annotations

import json
from typing import Any

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
A, B = {"type": "text", "text": "part 1"}, {"type": "text", "text": "part 2"}
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///a.txt", "name": "a"}
FILE = {"type": "resource", "resource": {"uri": "file:///b.bin", "blob": "AAAA"}}
DIFF = {"type": "diff", "path": "a.py", "oldText": "a=1", "newText": "a=2"}
TERMINAL = {"type": "terminal", "terminalId": "t1"}
CHART = {"width": 335}


def wrap(*blocks: Any) -> list[Any]:
    """Return blocks as the Agent Client Protocol wraps them."""
    return [{"type": "content", "content": block} for block in blocks]


OUTPUTS: list[tuple[str, Any, Any]] = [
    ("any: text", "done", "done"), ("any: empty text", "", ""), ("any: nothing", None, None), ("any: zero", 0, 0),
    ("any: false", False, False), ("any: an object", {"rows": [1]}, {"rows": [1]}), ("any: a list", [1, 2], [1, 2]),
    ("LangChain: blocks in a text", json.dumps([A, IMAGE]), [A, IMAGE]),
    ("any: a document of text blocks", json.dumps([A]), json.dumps([A])),
    ("any: a cut one", '[{"type": "te', '[{"type": "te'),
    ("MCP: one text", {"content": [A]}, "part 1"), ("MCP: two texts", {"content": [A, B]}, "part 1\npart 2"),
    ("MCP: no content", {"content": []}, []), ("MCP: a picture", {"content": [IMAGE]}, [IMAGE]),
    ("MCP: text and picture", {"content": [A, IMAGE]}, [A, IMAGE]),
    ("MCP: sound, link, file", {"content": [AUDIO, LINK, FILE]}, [AUDIO, LINK, FILE]),
    ("MCP: structured part next to text", {"content": [A], "structuredContent": CHART},
     {"content": [A], "structuredContent": CHART}),
    ("MCP: structured part next to picture", {"content": [A, IMAGE], "structuredContent": CHART},
     {"content": [A, IMAGE], "structuredContent": CHART}),
    ("MCP: structured repeats the text", {"content": [{"type": "text", "text": '{ "width": 335 }'}],
                                          "structuredContent": CHART}, CHART),
    ("FastMCP: structured wraps the text", {"content": [A], "structuredContent": {"result": "part 1"}},
     {"result": "part 1"}),
    ("MCP: structured alone", {"structuredContent": CHART}, CHART),
    ("MCP: structured null", {"content": [{"type": "text", "text": "null"}], "structuredContent": None}, "null"),
    ("MCP: no error", {"content": [A], "isError": False}, "part 1"),
    ("MCP: with _meta", {"content": [A], "_meta": {"x": 1}}, "part 1"),
    ("MCP Python: dumped", {"meta": None, "content": [A], "structuredContent": None, "isError": False}, "part 1"),
    ("FastMCP: dumped", {"content": [A], "structured_content": CHART, "is_error": False},
     {"content": [A], "structuredContent": CHART}),
    ("MCP 2026: complete", {"resultType": "complete", "content": [A]}, "part 1"),
    ("AI SDK: an MCP tool", {"content": [A, IMAGE], "isError": False}, [A, IMAGE]),
    ("AI SDK: content parts", {"type": "content", "value": [A]}, {"type": "content", "value": [A]}),
    ("Anthropic: blocks", [A, B], "part 1\npart 2"),
    ("Anthropic: with a citation", [A | {"citations": None}], "part 1"),
    ("Claude Code: MCP blocks", [A, IMAGE], [A, IMAGE]),
    ("Claude Code: Bash", {"stdout": "ok", "stderr": "", "interrupted": False},
     {"stdout": "ok", "stderr": "", "interrupted": False}),
    ("LangChain: blocks", [A, {"type": "image", "base64": PNG, "mime_type": "image/png"}],
     [A, {"type": "image", "base64": PNG, "mime_type": "image/png"}]),
    ("LangChain: a block with an id", [A | {"id": "lc_1", "index": 0}], "part 1"),
    ("ACP: wrapped text", wrap(A, B), "part 1\npart 2"), ("ACP: wrapped picture", wrap(A, IMAGE), [A, IMAGE]),
    ("ACP: a difference", [DIFF], [DIFF]), ("ACP: text and difference", [*wrap(A), DIFF], [A, DIFF]),
    ("ACP: a terminal alone", [TERMINAL], None), ("ACP: terminal and text", [TERMINAL, *wrap(A)], "part 1"),
    ("MCP Python: a dumped block", {"content": [A | {"annotations": None, "meta": None}]}, "part 1"),
    ("OpenAI: hosted MCP without an error", {"type": "mcp_call", "output": "x", "error": None},
     {"type": "mcp_call", "output": "x", "error": None}),
    ("Copilot: a success", {"resultType": "success", "textResultForLlm": "x"},
     {"resultType": "success", "textResultForLlm": "x"}),
    ("any: an own status", {"status": "error", "content": "x"}, {"status": "error", "content": "x"}),
    ("OpenAI: other blocks", [{"type": "output_text", "text": "x"}], [{"type": "output_text", "text": "x"}]),
    ("any: an own list of objects", [{"type": "row", "text": "x"}], [{"type": "row", "text": "x"}]),
    ("any: an own object with content", {"content": "x", "title": "y"}, {"content": "x", "title": "y"}),
]  # fmt: skip

# What the result itself says to be an error: the client, the result, the error, and the output next to it.
REPORTED: list[tuple[str, Any, str, Any]] = [
    ("MCP", {"content": [A], "isError": True}, "part 1", None),
    ("MCP: more members", {"isError": True, "content": [A, B], "other": 1}, "part 1\npart 2",
     {"isError": True, "content": [A, B], "other": 1}),
    ("FastMCP: dumped", {"meta": None, "content": [A], "structured_content": None, "is_error": True}, "part 1", None),
    ("Anthropic: blocks", {"type": "tool_result", "tool_use_id": "c", "content": [A, IMAGE], "is_error": True},
     "part 1", [A, IMAGE]),
    ("Anthropic: text", {"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True}, "no", None),
    ("AutoGen", {"content": "no", "call_id": "c", "is_error": True, "name": "t"}, "no", None),
    ("AI SDK: error-text", {"type": "error-text", "value": "no"}, "no", None),
    ("AI SDK: error-json", {"type": "error-json", "value": {"message": "no"}}, "no", None),
    ("Bedrock", {"toolUseId": "c", "status": "error", "content": [{"text": "no"}]}, "no", None),
    ("LangChain: a dumped message", {"type": "tool", "content": "no", "status": "error", "tool_call_id": "c",
                                     "artifact": None}, "no", None),
    ("LangChain: with an artifact", {"type": "tool", "content": "no", "status": "error", "artifact": {"rows": 1}},
     "no", {"type": "tool", "content": "no", "status": "error", "artifact": {"rows": 1}}),
    ("Copilot", {"resultType": "failure", "textResultForLlm": "no"}, "no", None),
    ("OpenAI: hosted MCP", {"type": "mcp_call", "output": None, "error": {"content": [A]}}, "part 1", None),
    ("OpenAI: hosted MCP in the AI SDK", {"type": "call", "error": "no"}, "no", None),
]  # fmt: skip

FAILURES: list[tuple[str, Any, str]] = [
    ("any: text", "disk full", "disk full"), ("any: nothing", None, ""), ("any: empty", "", ""),
    ("any: an empty list", [], ""), ("any: a number", 7, "7"), ("any: message", {"message": "no"}, "no"),
    ("any: error", {"error": "no"}, "no"), ("any: error with message", {"error": {"message": "no", "code": 5}}, "no"),
    ("any: errors", {"errors": [{"message": "a"}, {"message": "b"}]}, "a\nb"), ("any: detail", {"detail": "no"}, "no"),
    ("Codex: ended by a signal", {"stdout": "", "exit_code": None, "signal": "SIGKILL"}, "ended by SIGKILL"),
    ("any: a list of texts", ["a", "b"], "a\nb"), ("any: an object without words", {"code": 5}, '{"code": 5}'),
    ("MCP: blocks", {"content": [A, B], "isError": True}, "part 1\npart 2"),
    ("MCP: structured error", {"content": [A], "structuredContent": {"code": "E"}, "isError": True},
     'part 1\n{"code": "E"}'),
    ("MCP: structured alone", {"structuredContent": {"code": "E"}, "isError": True}, '{"code": "E"}'),
    ("MCP: empty", {"content": [], "isError": True}, ""), ("MCP: a picture", {"content": [IMAGE], "isError": True}, ""),
    ("MCP: file", {"content": [{"type": "resource", "resource": {"uri": "a", "text": "why"}}], "isError": True}, "why"),
    ("Anthropic: blocks", [A, B], "part 1\npart 2"), ("Anthropic: empty message", {"message": ""}, ""),
    ("LangChain: text and picture", [A, IMAGE], "part 1"), ("ACP: wrapped", wrap(A), "part 1"),
    ("ACP: a terminal", [TERMINAL], ""), ("ACP: rawOutput text", "Exit code 1\n2 failing", "Exit code 1\n2 failing"),
    ("Codex: aggregated", {"stdout": "a", "stderr": "b", "aggregated_output": "a\nb", "exit_code": 1}, "a\nb"),
    ("Codex: formatted", {"formatted_output": "x", "exit_code": 1}, "x"),
    ("Codex: streams", {"stdout": "a\n", "stderr": "b", "exit_code": 1}, "a\nb"),
    ("Codex: no output", {"stdout": "", "stderr": "", "aggregated_output": "", "exit_code": 7}, "exit code 7"),
    ("Claude Code: stderr", {"stdout": "", "stderr": "no such file", "interrupted": False}, "no such file"),
    ("opencode: output", {"output": "boom", "metadata": {"exit": 2}}, "boom"),
    ("Gemini: llmContent", {"llmContent": "no", "returnDisplay": "x"}, "no"),
    ("Gemini: llmContent parts", {"llmContent": [{"text": "no"}]}, "no"),
    ("Copilot: text", {"textResultForLlm": "no", "resultType": "failure"}, "no"),
    ("TanStack: error", {"error": "no"}, "no"),
    ("JSON-RPC", {"code": -32602, "message": "Unknown tool"}, "Unknown tool"), ("any: only spaces", "  \n", ""),
    ("AWS: capitals", {"Error": {"Code": "AccessDenied", "Message": "no"}}, "no"), ("Goose: Err", {"Err": "no"}, "no"),
    ("Pydantic: errors", [{"type": "missing", "loc": ["a"], "msg": "a is missing"}], "a is missing"),
    ("FastAPI: detail", {"detail": [{"loc": ["a"], "msg": "a is missing"}]}, "a is missing"),
    ("Zod: issues", {"name": "ZodError", "issues": [{"message": "Required", "path": ["a"]}]}, "Required"),
    ("RFC 9457: only a title", {"title": "Not Found", "status": 404}, "Not Found"),
    ("any: a cause", {"error": {"cause": {"message": "no"}}}, "no"),
    ("any: a stack", {"stack": "E\n at x"}, "E\n at x"),
    ("any: a description", {"description": "no"}, "no"),
]  # fmt: skip
