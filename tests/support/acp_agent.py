"""An agent that speaks the Agent Client Protocol over stdio and does what the prompt says; no packages needed."""

import json
import sys
import time
from pathlib import Path

NUMBER = iter(range(100, 10_000))


def say(**msg):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **msg}) + "\n")
    sys.stdout.flush()


def update(session, update_kind, **value):
    say(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": update_kind, **value}})


def hear():
    line = sys.stdin.readline()
    if not line:
        sys.exit(7)
    return json.loads(line)


def turn(value, session):
    """One call, asked about; what is run is written to the file that the prompt names."""
    prompt = json.loads(value["params"]["prompt"][0]["text"])
    call = prompt["call"]
    update(session, "agent_message_chunk", content={"type": "text", "text": "Let me see."})
    update(session, "tool_call", toolCallId=call, title="bash", kind="execute", status="pending", rawInput={})
    fields = {"command": prompt["command"]}
    update(session, "tool_call_update", toolCallId=call, status="pending", title=prompt["command"], rawInput=fields)
    number = next(NUMBER)
    options = [
        {"optionId": "o-1", "kind": "allow_always", "name": "Always"},
        {"optionId": "o-2", "kind": "allow_once", "name": "Yes"},
        {"optionId": "o-3", "kind": "reject_once", "name": "No"},
    ]
    say(
        id=number,
        method="session/request_permission",
        params={"sessionId": session, "options": options, "toolCall": {"toolCallId": call, "title": prompt["command"]}},
    )
    is_stopped = False
    while True:
        message = hear()
        if message.get("method") == "session/cancel":
            is_stopped = True
        elif message.get("id") == number:
            break
    outcome = message["result"]["outcome"]
    if outcome == {"outcome": "selected", "optionId": "o-2"} and not is_stopped:
        with Path(prompt["file"]).open("a") as ran:
            ran.write(prompt["command"] + "\n")
        update(session, "tool_call_update", toolCallId=call, status="completed", rawOutput={"output": "done ☃"})
    else:
        update(session, "tool_call_update", toolCallId=call, status="failed", rawOutput={"error": "not run"})
    update(session, "agent_message_chunk", content={"type": "text", "text": json.dumps(message["result"])})
    if "linger" in prompt:
        time.sleep(prompt["linger"])
    say(id=value["id"], result={"stopReason": "cancelled" if is_stopped else "end_turn"})


def main():
    session = f"ses_{sys.argv[1]}"
    sys.stdout.write("a line that is no JSON\n")
    while True:
        message = hear()
        if message.get("method") == "initialize":
            say(id=message["id"], result={"protocolVersion": 1})
        elif message.get("method") == "session/new":
            say(id=message["id"], result={"sessionId": session})
        elif message.get("method") == "session/prompt":
            turn(message, session)


main()
