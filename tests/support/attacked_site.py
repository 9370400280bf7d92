"""A real server under attack: its policy, its people in their browsers, and agents with calls."""

from __future__ import annotations

import http.cookiejar
import itertools
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.server import PATIENCE, Server

DECIDE = "/api/v1/calls/decide"
PASSWORD = "a password of the attacked"


def rule(name: str, effect: str, tool: str, *args: Any, **more: Any) -> dict[str, Any]:
    match = {"tool": [tool], "args": [dict(zip(("path", "op", "value"), arg, strict=True)) for arg in args]}
    return {"id": name, "effect": effect, "match": match | more}


def command(name: str, effect: str, words: str) -> dict[str, Any]:
    return rule(name, effect, "bash", ("/command", "cmd", words))


POLICY: dict[str, Any] = {
    "v": 1,
    "default": "ask",
    "unknown_tool": "ask",
    "changed_tool": "ask",
    "rules": [
        *(command(f"may_{n}", "allow", words) for n, words in enumerate(("ls", "git status", "cat", "echo", "grep"))),
        command("no_rm", "deny", "rm"),
        command("push", "ask", "git push"),
        rule("read", "allow", "read_file", ("/path", "path_under", "/data")),
        rule("no_etc", "deny", "read_file", ("/path", "path_under", "/etc")),
        rule("fetch", "allow", "fetch", ("/url", "host_in", ["example.com"])),
        rule("pay", "allow", "pay", ("/amount", "lt", 10)),
        rule("mail", "allow", "mail", ("/to", "re2", "[a-z]+@example\\.com")),
        rule("no_deploy", "deny", "deploy", env=["prod"]),
        rule("deploy", "allow", "deploy", env=["dev"]),
        rule("no_intern", "deny", "merge", agent=["intern"]),
        rule("merge", "allow", "merge", agent=["lead"]),
        rule("critical", "ask", "wire_money") | {"severity": "critical"},
        rule("two", "ask", "launch") | {"ask": {"quorum": 2, "editable": ["/note"]}},
        rule("fresh", "ask", "rotate") | {"ask": {"reauth": True}},
        rule("chosen", "ask", "release") | {"ask": {"approvers": ["group:admin"]}},
        rule("browse", "allow", "browse"),
        rule("no_meta", "deny", "browse", ("/url", "cidr", ["169.254.0.0/16", "127.0.0.0/8", "::1/128"])),
        rule("count", "allow", "count", ("/n", "eq", 1)),
        rule("all_of", "allow", "all_of", ("/paths/*", "path_under", "/data")),
    ],
}
MAKE = f"""
from dashboard.accounts import roles
from django.core.management import call_command
for name, role in (("ann", "approver"), ("ben", "approver"), ("vic", "viewer")):
    roles.create_person(name, role=role, password={PASSWORD!r})
call_command("agentkey", "create", "prod-bot", "--env", "prod", "--owner", "ann")
call_command("agentkey", "create", "limited", "--scopes", "read")
"""


class Person:
    """A person in a browser."""

    def __init__(self, site: Server, name: str, password: str = PASSWORD) -> None:
        self.site, self.jar = site, http.cookiejar.CookieJar()
        self._browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))
        self.token = self._token("/login/")
        status, _ = self.send("POST", "/login/", {"username": name, "password": password}, form=True)
        assert status == 200
        self.token = self._token("/approvals/")

    def _token(self, page: str) -> str:
        match = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self.send("GET", page)[1])
        return match[1] if match else ""

    def send(
        self, method: str, path: str, body: Any = None, *, form: bool = False, csrf: bool = True, **headers: str
    ) -> tuple[int, str]:
        """Send a form, JSON, or text; return status and text."""
        header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if csrf and hasattr(self, "token"):
            header_fields["X-CSRFToken"] = self.token
        data = urllib.parse.urlencode(body).encode() if form else body if isinstance(body, bytes) else None
        if data is None and body is not None:
            data, header_fields["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(self.site.base + path, data, header_fields, method=method)
        try:
            with self._browser.open(request, timeout=2 * PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def vote(self, approval: str, form: dict[str, Any], **how: Any) -> tuple[int, str]:
        return self.send("POST", f"/approvals/{approval}/vote", form, form=True, HX_Request="true", **how)


_numbers = itertools.count()


def question(tool: Any, args: Any, **more: Any) -> dict[str, Any]:
    return {"run": f"r{next(_numbers)}", "call_id": "c", "tool": tool, "args": args} | more


def ask(site: Server, tool: Any, args: Any, *, key: str | None = None, **more: Any) -> dict[str, Any]:
    status, decision, _ = site.request("POST", DECIDE, question(tool, args, **more), key=key or site.key)
    assert status == 200, decision
    return decision


def waiting(
    site: Server, tool: str = "bash", args: Any = None, **more: Any
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return a pending approval, the form of a person who sees it, and the agent's decision."""
    decision = ask(site, tool, {"command": "git push"} if args is None else args, **more)
    assert decision["decision"] == "ask", decision
    _, run, _ = site.request("GET", f"/api/v1/runs/{decision['run']}/calls", key=more.get("key") or site.key)
    form = {"decision": "approve", "rev": run["calls"][0]["rev"], "args_sha256": decision["args_sha256"]}
    return decision["approval"]["id"], form, decision


def permit(site: Server, people: dict[str, Person]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    approval, form, _ = waiting(site, {"name": "bash", "schema_sha256": "a" * 64})  # type: ignore[arg-type]
    assert people["ann"].vote(approval, form)[0] == 200
    answer = site.get(f"/api/v1/approvals/{approval}")
    proof = {"call_id": "c", "args_sha256": answer["args_sha256"], "schema_sha256": "a" * 64}
    return f"/api/v1/permits/{answer['permit']['id']}/claim", proof, answer


@contextmanager
def serve_attacked_site(folder: Path) -> Iterator[Server]:
    """Run a server under `POLICY`, with the people ann, ben and vic, and a source that works in prod."""
    with Server(folder) as running:
        completed = running.manage("shell", "-v", "0", "-c", MAKE)  # one process: each takes its seconds to start
        assert completed.returncode == 0, completed.stderr
        running.prod, running.limited = re.findall(r"^tck_\S+$", completed.stdout, re.M)  # type: ignore[attr-defined]
        root = Person(running, "admin", running.password)
        assert root.send("PUT", "/api/v1/policy/draft", POLICY)[0] == 200
        status, result = root.send("POST", "/api/v1/policy/activate", {"expected_active": 1})
        assert status == 200, result
        running.root = root  # type: ignore[attr-defined]
        yield running
