"""An MCP server over stdio that does what its calls ask and logs what it received; no packages needed.

python mcp_server.py <log>
"""

import json
import sys
import time
from pathlib import Path

LOG = Path(sys.argv[1])


def write(**message):
    """Send a message to the client."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def call(number, params):
    """Run one call as its arguments say."""
    args = params.get("arguments", {})
    if args.get("exit"):
        sys.exit(3)
    if args.get("sleep"):
        time.sleep(args["sleep"])
    if args.get("wants_input") and "requestState" not in params:
        write(id=number, result={"resultType": "input_required", "requestState": "state-1"})
    elif args.get("error"):
        write(id=number, error={"code": -32602, "message": "unusable"})
    else:
        write(id=number, result={"content": [{"type": "text", "text": "done"}]})


for line in sys.stdin:
    with LOG.open("a") as log:
        log.write(line)
    message = json.loads(line)
    for each in message if isinstance(message, list) else [message]:
        if each.get("method") == "tools/call":
            call(each.get("id"), each["params"])
        elif each.get("method") == "tools/list":
            write(id=each["id"], error={"code": -32601, "message": "no list"})
        elif "id" in each and "method" in each:
            write(id=each["id"], result={"method": each["method"]})
