"""The connect page's texts, run as printed with the real libraries and the files that `connect` writes.

Each project has nothing but what the recipe put there, the text, and a `yours` with a scripted model and one tool
that policy asks about. It runs after an approval and does not run after a denial.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.clients import models, npm, pip
from tests.clients.nodeapp import ZOD
from tests.support import gating
from tests.support.server import KEY, PATIENCE, ROOT, Server, held_port, read_address, until
from toolcards import connect
from toolcards.connect import snippet_text

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
PACKAGES = {
    "ai_sdk_7": ("ai-sdk", {"ai": "7.0.173", "zod": ZOD}, "ai-sdk-7"),
    "ai_sdk_6": ("ai-sdk", {"ai": "6.0.326", "zod": ZOD}, "ai-sdk-6"),
    "tanstack": ("tanstack-ai", {"tanstack__ai": "0.58.0", "tanstack__ai_client": "0.33.2", "zod": ZOD}, "tanstack"),
}

AI_SDK = """
import * as test from 'ai/test';
import { tool } from 'ai';
import { z } from 'zod';
const Mock = test.MockLanguageModelV4 ?? test.MockLanguageModelV3;
const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const words = [
  { type: 'text-start', id: 't' }, { type: 'text-delta', id: 't', delta: 'ok' }, { type: 'text-end', id: 't' },
];
const finish = (raw) => ({ type: 'finish', usage, finishReason: { unified: raw, raw } });
const turn = (done) => [
  { type: 'stream-start', warnings: [] },
  ...(done ? words : [{ type: 'tool-call', toolCallId: 'c1', toolName: 'delete_file', input: '{"path":"/a"}' }]),
  finish(done ? 'stop' : 'tool-calls'),
];
export const ran = [];
export const model = new Mock({
  doStream: async ({ prompt }) => ({ stream: ReadableStream.from(turn(prompt.some((m) => m.role === 'tool'))) }),
});
export const tools = {
  delete_file: tool({
    description: 'd', inputSchema: z.object({ path: z.string() }),
    execute: async ({ path }) => (ran.push(path), { deleted: path }),
  }),
};
export const body = { id: 'snippet', messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'go' }] }] };
"""
TANSTACK = """
import { toolDefinition } from '@tanstack/ai';
import { BaseTextAdapter } from '@tanstack/ai/adapters';
import { z } from 'zod';
export const ran = [];
class Scripted extends BaseTextAdapter {
  name = 'scripted';
  constructor() { super({}, 'scripted-1'); }
  async *chatStream({ messages, threadId, runId }) {
    const done = messages.some((m) => m.role === 'tool');
    const base = { threadId, runId, model: 'scripted-1', timestamp: Date.now() };
    yield { type: 'RUN_STARTED', ...base };
    if (!done) {
      const name = { toolCallName: 'delete_file', toolName: 'delete_file' };
      yield { type: 'TOOL_CALL_START', toolCallId: 'c1', ...name, index: 0 };
      yield { type: 'TOOL_CALL_ARGS', toolCallId: 'c1', delta: '{"path":"/a"}' };
      yield { type: 'TOOL_CALL_END', toolCallId: 'c1', input: { path: '/a' } };
    }
    yield { type: 'RUN_FINISHED', ...base, finishReason: done ? 'stop' : 'tool_calls' };
  }
  async structuredOutput() { throw new Error('unused'); }
}
export const adapter = new Scripted();
export const tools = [
  toolDefinition({ name: 'delete_file', description: 'd', inputSchema: z.object({ path: z.string() }) })
    .server(async ({ path }) => (ran.push(path), { deleted: path })),
];
export const body = {
  threadId: 'snippet', runId: 'r1', state: {}, tools: [], context: [], forwardedProps: {},
  messages: [{ id: 'm', role: 'user', content: 'go' }],
};
"""
ROUTE = """
import { POST } from './route.mjs';
import { body, ran } from './yours.mjs';
const request = new Request('http://127.0.0.1/chat', {
  method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' },
});
const said = await (await POST(request)).text();
console.log(JSON.stringify({ ran, said }));
process.stdin.on('end', () => process.exit()).resume();
"""
PYDANTIC_AI = """
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import DeltaToolCall, FunctionModel


async def turns(messages, info):
    if any(isinstance(message, ModelResponse) for message in messages):
        yield "Done."
    else:
        yield {0: DeltaToolCall(name="delete_file", json_args='{"path": "/a"}', tool_call_id="c1")}


def delete_file(path: str) -> str:
    print("ran", path)
    return "deleted"


model, tools = FunctionModel(stream_function=turns), [delete_file]
"""
LANGCHAIN = """
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools, **more):
        return self


def delete_file(path: str) -> str:
    "Delete a file."
    print("ran", path)
    return "deleted"


call = {"name": "delete_file", "args": {"path": "/a"}, "id": "c1"}
model, tools = Scripted(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("Done.")])), [delete_file]
"""
OPENAI_AGENTS = """
import os
from agents import OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def delete_file(path: str) -> str:
    "Delete a file."
    print("ran", path)
    return "deleted"


client = AsyncOpenAI(base_url=os.environ["MODEL"] + "/v1", api_key="none")
model, tools = OpenAIChatCompletionsModel("fake-model", client), [delete_file]
"""
PYTHONS = {"pydantic_ai": PYDANTIC_AI, "langchain": LANGCHAIN, "openai_agents": OPENAI_AGENTS}


EVENTS = [
    {"type": "RUN_STARTED"},
    {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "look"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": '{"path": "/a"}'},
    {"type": "TOOL_CALL_END", "toolCallId": "c1"},
    {"type": "TOOL_CALL_RESULT", "messageId": "m1", "toolCallId": "c1", "content": "seen"},
    {"type": "RUN_FINISHED"},
]
CLIENT = """
import { agent } from './client.mjs';
agent.threadId = 'snippet-ag-ui';
agent.addMessage({ id: 'u1', role: 'user', content: 'go' });
await agent.runAgent({ runId: 'r1' });
console.log(JSON.stringify(agent.messages.filter((message) => message.role === 'tool')));
process.exit();
"""


class Planner(BaseHTTPRequestHandler):
    """An AG-UI agent that calls one tool."""

    def do_POST(self) -> None:
        payload = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        about = {name: payload[name] for name in ("threadId", "runId")}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in EVENTS:
            value = event | (about if event["type"].startswith("RUN") else {})
            self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def planner() -> Iterator[str]:
    agent = ThreadingHTTPServer(("127.0.0.1", 0), Planner)
    threading.Thread(target=agent.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{agent.server_address[1]}/agui"
    agent.shutdown()
    agent.server_close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, planner: str) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), agui_upstreams=f"planner={planner}") as running:
        rule = {"id": "ask", "effect": "ask", "match": {"tool": ["delete_file"]}}
        gating.activate(running, {"v": 1, "default": "allow", "rules": [rule]})
        yield running


@pytest.fixture(scope="module")
def model() -> Iterator[models.FakeModel]:
    turns: models.Script = [[models.Call("c1", "delete_file", {"path": "/a"})], ["Done."]]
    fake = models.openai({})
    fake.turn = lambda value: turns[any(m["role"] == "tool" for m in value["messages"])]  # type: ignore[method-assign]
    yield fake
    fake.close()


def connected(recipe: str, server: Server, folder: Path) -> dict[str, str]:
    """Let the recipe write into the folder; return the environment that its file makes."""
    connect.write_changes(
        connect.get_recipe(recipe).plan(connect.Target(url=server.base, key=server.key, project=folder))
    )
    env = next(file for file in folder.iterdir() if file.name.startswith(".env"))
    text = dict(line.split("=", 1) for line in env.read_text().splitlines() if not line.startswith("#"))
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ} | text


def answer_new_run(server: Server, before: set[str], decision: str) -> str:
    """Answer the run that is new and waits; return its name."""

    def look() -> Any:
        return {run["run"] for run in server.get("/api/v1/runs?status=waiting")["runs"]} - before

    run = str(until(look).pop())
    gating.vote(server, run, decision)
    return run


def played(program: list[str], folder: Path, env: dict[str, str], server: Server, decision: str) -> tuple[str, str]:
    """Run it, answer its one question; return what it printed and the state of its call."""
    before = {run["run"] for run in server.get("/api/v1/runs?status=waiting")["runs"]}
    running = subprocess.Popen(
        program, cwd=folder, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    expected = {"approve": "output-available", "deny": "output-denied"}[decision]
    try:
        run = answer_new_run(server, before, decision)
        calls = until(lambda: [c for c in gating.calls(server, run).values() if c["state"] == expected])
        out, wrong = running.communicate(timeout=3 * PATIENCE)  # which closes its input
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 0, wrong[-2000:]
    assert [call["anomalies"] for call in calls] == [[]] * len(calls)
    return out, calls[0]["tool"]["name"]


@pytest.mark.parametrize("decision", ["approve", "deny"])
@pytest.mark.parametrize("name", PACKAGES)
def test_a_route_runs_as_printed(server: Server, tmp_path: Path, name: str, decision: str) -> None:
    recipe, packages, folder = PACKAGES[name]
    modules = npm.installed(folder, **packages)
    env = connected(recipe, server, tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "route.mjs").write_text(snippet_text.render_snippet(name, server.base))
    yours = (TANSTACK if name == "tanstack" else AI_SDK).replace("'snippet'", f"'{name}-{decision}'")
    (tmp_path / "yours.mjs").write_text(yours)
    (tmp_path / "app.mjs").write_text(ROUTE)
    out, tool = played([str(npm.node(modules)), "app.mjs"], tmp_path, env, server, decision)
    payload = json.loads(out.splitlines()[-1])
    assert payload["ran"] == (["/a"] if decision == "approve" else []) and tool == "delete_file"


@pytest.mark.parametrize("decision", ["approve", "deny"])
@pytest.mark.parametrize("name", PYTHONS)
def test_an_agent_runs_as_printed(
    server: Server, model: models.FakeModel, tmp_path: Path, name: str, decision: str
) -> None:
    env = connected(name.replace("_", "-"), server, tmp_path) | {"MODEL": model.base}
    (tmp_path / "agent.py").write_text(snippet_text.render_snippet(name, server.base))
    (tmp_path / "yours.py").write_text(PYTHONS[name])
    out, tool = played([str(pip.python()), "agent.py"], tmp_path, env, server, decision)
    assert ("ran /a" in out) == (decision == "approve") and "Done." in out and tool == "delete_file"


def test_the_printed_command_registers_an_agent(planner: str, tmp_path: Path) -> None:
    """The printed command, with this test's agent in place of the example."""
    command = snippet_text.render_snippet("ag_ui_serve", "").replace("https://agents.example.com/agui", planner)
    assert planner in command
    with held_port() as port:
        env = os.environ | {
            "TOOLCARDS_DATA_DIR": str(tmp_path), "TOOLCARDS_AGENT_KEY": KEY, "DEMO": "0",
            "PORT": str(port.getsockname()[1]), "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        serving = subprocess.Popen(
            ["sh", "-c", command], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            base, result = read_address(serving)
            assert base, result
            fields = {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": []}
            headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
            request = urllib.request.Request(
                f"{base}/api/v1/ag-ui/planner", json.dumps(fields).encode(), headers, method="POST"
            )
            with urllib.request.urlopen(request, timeout=2 * PATIENCE) as answer:
                assert b'"TOOL_CALL_RESULT"' in answer.read()
        finally:
            os.killpg(serving.pid, signal.SIGTERM)  # make, and the server below it
            serving.communicate()


def test_a_client_reaches_its_agent_through_us_as_printed(server: Server, tmp_path: Path) -> None:
    modules = npm.installed("ag-ui", ag_ui__client="1.0.0")
    env = connected("ag-ui", server, tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "client.mjs").write_text(snippet_text.render_snippet("ag_ui_client", server.base))
    (tmp_path / "app.mjs").write_text(CLIENT)
    completed = subprocess.run(
        [str(npm.node(modules)), "app.mjs"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=3 * PATIENCE
    )
    assert completed.returncode == 0, completed.stderr[-2000:]
    assert [message["content"] for message in json.loads(completed.stdout.splitlines()[-1])] == ["seen"]
    card = until(lambda: gating.calls(server, "snippet-ag-ui"))["c1"]
    assert (card["state"], card["tool"]["name"], card["input"]) == ("output-available", "look", {"path": "/a"})
