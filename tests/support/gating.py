"""Shared parts of the client tests: a policy with a rule for each effect, votes, and the cards of a run."""

from __future__ import annotations

import json
from typing import Any

from tests.support.server import Server, until
from tests.support.voter import Voter


def policy(tool: str, field: str) -> dict[str, Any]:
    """Return a policy that decides about this tool by one field of its input."""

    def rule(name: str, effect: str, start: str, **more: Any) -> dict[str, Any]:
        match = {"tool": [tool], "args": [{"path": field, "op": "prefix", "value": start}]}
        return {"id": name, "effect": effect, "match": match, **more}

    return {
        "v": 1,
        "default": "allow",
        "rules": [
            rule("no", "deny", "echo forbidden", public_reason="Not allowed here.", suggest="Try something else."),
            rule("ask", "ask", "echo ask", public_reason="Ask first.", ask={"editable": [field]}),
            *(rule(f"ok-{n}", "allow", start) for n, start in enumerate(("exit ", "python3 "))),
        ],
    }


def activate(server: Server, document: dict[str, Any]) -> None:
    """Activate the document."""
    text = json.dumps(json.dumps(document))
    code = f"import json; from toolcards import gate; gate.activate(json.loads({text}), author='a test')"
    completed = server.manage("shell", "-c", code)
    assert completed.returncode == 0, completed.stderr[-2000:]


def calls(server: Server, run: str) -> dict[str, Any]:
    """Return the run's calls by their ids; empty without such a run."""
    status, listing, _ = server.request("GET", f"/api/v1/runs/{run}/calls")
    return {call["call_id"]: call for call in listing["calls"]} if status == 200 else {}


def waiting(server: Server, run: str) -> dict[str, Any]:
    """Return the run's waiting call, as soon as there is one."""

    def look() -> Any:
        questions = (call for call in calls(server, run).values() if call["state"] == "approval-requested")
        return next((call for call in questions if not call["approval"]["twin"]), None)

    result: dict[str, Any] = until(look)
    return result


def vote(server: Server, run: str, decision: str, *, reason: str = "", edited: Any = None) -> None:
    """Answer the run's waiting call, by the form that a person uses."""
    call = waiting(server, run)
    fields = {"rev": str(call["rev"]), "args_sha256": call["approval"]["args_sha256"], "reason": reason}
    if edited is not None:
        fields["edited_args"] = json.dumps(edited)
    path = f"/approvals/{call['approval']['id']}/vote"
    status, page = Voter(server).post(path, page="/approvals/", decision=decision, **fields)
    assert status == 200, page[:1000]
