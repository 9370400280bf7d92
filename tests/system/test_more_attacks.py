"""More attacks, each through a real server's own doors and on two databases: none gets through, and none is a 500."""

# ruff: noqa: E501 - tables read better in long lines; fixtures come from next door
from __future__ import annotations

import json
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.attacked_site import DECIDE, MAKE, PASSWORD, POLICY, Person, ask, permit, question, waiting
from tests.support.server import PATIENCE, Server
from tests.support.services import postgres

JSON = "application/json"

# ---------------------------------------------------------------- calls that no allow rule may let through

SHELL = [
    "ls${IFS}-la;rm${IFS}x", "{rm,-rf,/}", "cat <<EOF\n$(rm x)\nEOF", "cat <<'EOF' | sh\nrm x\nEOF", "cat <<< x; rm y",
    "PATH=/tmp:$PATH ls", "LD_PRELOAD=./x.so ls", "GIT_SSH_COMMAND='rm x' git status", "env LD_PRELOAD=x ls",
    "/b*/ls x", "l[s]", "ls 2>&1 | tee x", "ls |& rm x", "ls;;rm x", "!ls", "! ls", "coproc ls", "exec -a ls ls",
    "builtin eval ls", "\\ls", "l\\s", "ls\x0brm x", "ls\x0crm x", "ls\x85rm x", "git --exec-path=/tmp status",
    "git --git-dir=/tmp/evil status", "git -C /tmp/evil status", "git --config-env=core.pager=X status",
    "ls $'\\n'rm x", "echo $[1+1]", "echo $((rm))", "function ls { rm x; }; ls", "ls() { rm x; }; ls", "alias ls=rm; ls x",
    "trap 'rm x' EXIT", ". x", "unset x; ls", "export X=1; ls", "[ -n x ] && ls", "case x in *) ls;; esac",
    "while ls; do ls; done", "ssh host ls", "python -c 'ls'", "\uff4c\uff53", "ls\u00a0rm", "ls\uff1brm x", "ls\ufeff",
    "ls \x1b[2Kx", "(ls)", "{ ls; }", "ls || (ls)", "git status --output=/etc/x", "cat -- $(id)",
    "echo \"$(ls)\"", "echo x >| y", "ls | bash", "ls\\\nrm", "LS", "ls.exe",
    "../ls", "$HOME/ls", "%ls%", "@ls", "-ls",
]  # fmt: skip
TOOLS: list[Any] = [
    "Bash", " bash", "bash\u200b", "\uff42\uff41\uff53\uff48", "b\u0430sh", "ba\u00adsh", "bash/", "mcp__bash", "functions.bash",
    "bash\t", "__proto__", "constructor", "*", "b*", "bash\n", "bash\u202e", "bash\ufe0f", "b\u00e0sh", "bash\x00",
]  # fmt: skip
ELSEWHERE: list[Any] = [{"name": "bash", "source": name} for name in ("evil", "-", "builtin ", "\u202e", "x" * 5000)]
PATHS = [
    "/data/..%2f..%2fetc/passwd", "/data\\..\\..\\etc", "\\\\server\\share\\data", "//server/data", "C:\\data\\x",
    "file:///data/x", "/data/\u2025/etc", "/data/\uff0e\uff0e/etc", "/data/.\u200b./etc", "/DATA/x", "~/../data/x",
    "/proc/self/root/data/x", "/data//../etc", "/data/..;/etc", "/data/ ../etc", "/data/x ", "/data\u2215..\u2215etc/x",
"/d*ta/x", "/{data,etc}/x", "\\\\?\\C:\\data", "/dev/fd/3", "/data/`id`", "/data/\x7fx", "/data/...",
]  # fmt: skip
HOSTS = [
    "https://example.com:443@evil.org/", "https://example.com%2eevil.org", "https://example.com%00.evil.org/",
    "https://[::1]/", "https://[::ffff:93.184.216.34]/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1",
    "https://example.com\t.evil.org/", "https://example.com\n@evil.org", "https:example.com", "https:///example.com",
    "http://xn--xample-2of.com", "https://user:pass@example.com/", "https://example.com:99999/", "https://ex\u00adample.com/",
    "view-source:https://example.com", "https://example.com\\.evil.org", "https://example.com;evil.org",
    "https://example.com%2f@evil.org", "http://[example.com]/", "https://example.com..", "https://sub.example.com/",
    "https://%65xample.com/", "https://\u24d4xample.com", "data:text/html,https://example.com",
]  # fmt: skip
NEAR = [
    "http://169.254.169.254./", "http://2852039166/", "http://0xA9FEA9FE/", "http://0251.0376.0251.0376/",
    "http://[::ffff:a9fe:a9fe]/", "http://169.254.43518/", "http://169.254.169.254:80/", "http://user@169.254.169.254/",
    "169.254.169.254", "http://127.1/", "http://localhost/", "http://[0:0:0:0:0:0:0:1]/", "http://[::]/", "http://0.0.0.0/",
    "http://[64:ff9b::a9fe:a9fe]/", "http://[2002:a9fe:a9fe::]/", "http://169\u3002254\u3002169\u3002254/", "//169.254.169.254/",
    "http:\\\\169.254.169.254\\", "http://metadata.google.internal/", "http://[::127.0.0.1]/", "http://127.0.0.1.nip.io/",
]  # fmt: skip
LISTS: list[Any] = [
    ["/data/x", "/etc/y"], {"a": "/data/x", "b": "/etc/y"}, "/data/x", [["/data/x"]], ["/data/x", None], ["/data/x"] * 2000 + ["/etc/y"],
    [],
]  # fmt: skip
COUNTS = ["true", '"1"', "[1]", "null", "1e-400", "{}", '"\\u0661"', "1.0000000001"]
REFUSED_CALLS = [
    *(("bash", {"command": text}) for text in SHELL), *((name, {"command": "ls"}) for name in (*TOOLS, *ELSEWHERE)),
    *(("read_file", {"path": path}) for path in PATHS), *(("fetch", {"url": url}) for url in HOSTS),
    *(("browse", {"url": url}) for url in NEAR), *(("all_of", {"paths": value}) for value in LISTS),
]  # fmt: skip


@pytest.mark.slow
def test_no_rule_lets_these_pass(site: Server) -> None:
    assert ask(site, "bash", {"command": "ls"})["decision"] == "allow"  # the tool's first server is empty
    assert ask(site, "browse", {"url": "http://93.184.216.34/"})["decision"] == "allow"
    assert ask(site, "all_of", {"paths": ["/data/x"] * 2000})["decision"] == "allow"
    decision = [
        (tool, args) for tool, args in REFUSED_CALLS if ask(site, tool, args)["decision"] not in {"ask", "deny"}
    ]
    assert not decision


@pytest.mark.parametrize("text", COUNTS)
def test_only_the_number_itself_is_the_number(site: Server, text: str) -> None:
    body = f'{{"run":"count-{text.encode().hex()}","call_id":"c","tool":"count","args":{{"n":{text}}}}}'
    status, decision, _ = site.request("POST", DECIDE, body, Content_Type=JSON)
    assert status == 200 and decision["decision"] == "ask", decision


# ---------------------------------------------------------------- bodies, names and addresses that are none

BODIES = [
    b'{"run":"a","call_id":"c","tool":"bash","args":{"a":{"b":[{"x":1,"x":2}]}}}',
    b'{"run":"a","call_id":"c","tool":"bash","args":{"command":"ls","\\u0063ommand":"rm x"}}',
    b'{"run":"a","call_id":"c","tool":{"name":"ls","name":"rm"},"args":{}}',
    b'\xef\xbb\xbf{"run":"a","call_id":"c","tool":"bash","args":{}}',
    '{"run":"a","call_id":"c","tool":"bash","args":{}}'.encode("utf-16"),
    b'{"run":"a","call_id":"c","tool":"bash","args":{"x":1e400}}', b'{"run":"a","call_id":"c","tool":"bash","args":{"x":-1e999999}}',
    b'{"run":"a","call_id":"c","tool":"bash","args":{}}{"run":"b"}', b'{"run":"a","call_id":"c","tool":"bash","args":{}}\x00',
    b'{"run":"a\\u0000","call_id":"c","tool":"bash","args":{}}',
]  # fmt: skip
BIG = "x" * 200_000
ODD_FIELDS: list[tuple[str, Any, set[int]]] = [
    ("call_id", BIG, {200}), ("call_id", "\x00", {200}), ("call_id", "\ud800", {200, 422}), ("agent_path", [BIG], {200}),
    ("agent_path", ["\x00", "\ud800"], {200}), ("labels", {"env": BIG}, {200}), ("attempt", 2**31, {422}),
    ("attempt", 2**63, {422}), ("attempt", 10**30, {422}), ("wait_ms", -(10**30), {422}),
    ("tool", {"name": "bash", "schema_sha256": BIG}, {422}), ("tool", {"name": "bash", "schema_sha256": "\x00"}, {422}),
    ("tool", {"name": "bash", "source": "\x00" + BIG}, {200}), ("tool", {"name": "\x00"}, {200}),
    ("tool", {"name": "bash", "title": BIG, "kind": BIG}, {200}), ("idempotency_key", "\x00", {200}), ("run", "\u202e", {400}),
    ("run", "\U0001f600" * 200, {200}), ("v", 10**40, {200}), ("args_sha256", "\x00", {422}),
]  # fmt: skip
ODD = ["%00", "a%00b", "%ff", "%ed%a0%80", "%0d%0aX-Evil:%201", "..%2f..%2fetc", "%C0%80", "x" * 5000, "9" * 40, "-1"]
AGENTS = [
    ("GET", "/api/v1/runs/{}"), ("GET", "/api/v1/runs/{}/calls"), ("GET", "/api/v1/runs/{}/events"), ("POST", "/api/v1/runs/{}/beat"),
    ("POST", "/api/v1/runs/{}/end"), ("GET", "/api/v1/approvals/{}"), ("POST", "/api/v1/approvals/{}/withdraw"),
    ("POST", "/api/v1/permits/{}/claim"), ("POST", "/api/v1/calls/{}/result"), ("GET", "/api/v1/runs?agent={}"),
    ("GET", "/api/v1/runs?status={}"), ("GET", "/api/v1/runs?cursor={}"), ("GET", "/api/v1/runs?limit={}"),
    ("GET", "/api/v1/approvals?cursor={}"), ("GET", "/api/v1/approvals/x?wait={}"), ("POST", "/api/v1/ingest?protocol={}"),
    ("POST", "/api/v1/ingest?protocol=native&run={}"), ("POST", "/api/v1/ingest?protocol=native&agent={}"),
    ("POST", "/api/v1/hooks/claude-code?limit={}"),
]  # fmt: skip
PAGES = [
    "/runs/{}/", "/runs/?q={}", "/runs/?agent={}", "/calls/{}/", "/calls/?q={}&tool={}&state={}", "/approvals/{}/",
    "/calls/tools/?range={}&sort={}", "/calls/agents/?range={}&sort={}",
    "/approvals/history/?q={}", "/sources/{}/", "/policy/versions/{}/", "/policy/rules/{}/", "/policy/try/?call={}",
    "/settings/audit/?person={}&call={}", "/settings/audit/?since={}", "/login/?next={}", "/login/link/{}/",
    "/admin/toolcards/run/?q={}", "/admin/toolcards/approval/{}/change/", "/api/v1/grants/{}", "/api/v1/grants?id={}",
]  # fmt: skip
POSTS = [
    "/approvals/{}/vote", "/policy/rules/{}/switch/", "/policy/rules/{}/remove/", "/sources/keys/{}/revoke/",
    "/sources/tools/{}/accept/", "/sources/{}/owner/", "/calls/{}/reveal",
]  # fmt: skip
ONE = {"approval": "apr_x", "decision": "approve", "rev": 1, "args_sha256": "x"}
JSONS: list[tuple[str, Any, set[int]]] = [
    ("/approvals/votes", {"votes": [ONE | {"approval": "\x00"}]}, {200}), ("/approvals/votes", {"votes": [ONE] * 51}, {422}),
    ("/approvals/votes", {"votes": [{"approval": {"a": 1}, "decision": ["approve"], "rev": [1], "grant_minutes": [1]}]}, {200}),
    ("/approvals/votes", {"votes": [None, 1, "x", [], ONE | {"rev": 10**300}]}, {200}),
    ("/approvals/votes", b'{"votes":' + b"[" * 100_000, {400}), ("/api/v1/killswitch", {"on": False, "reason": "\x00"}, {200}),
    ("/api/v1/breakglass", {"on": True, "reason": "\x00", "minutes": 1e-9}, {200, 422}),
    ("/api/v1/breakglass", b'{"on":true,"reason":"x","minutes":1e400}', {422}), ("/api/v1/breakglass", {"on": False}, {200}),
    ("/api/v1/policy/activate", {"expected_active": 1}, {409}), ("/api/v1/policy/activate", {"expected_active": 10**300}, {409}),
    ("/api/v1/policy/activate", {"expected_active": -1}, {409}), ("/api/v1/policy/activate", {"expected_active": True}, {422}),
    ("/api/v1/policy/activate", {"expected_active": "2"}, {422}), ("/api/v1/policy/activate", {"expected_active": 2.0}, {422}),
    ("/api/v1/policy/activate", {}, {422}),
]  # fmt: skip


def _pattern(text: str) -> dict[str, Any]:
    return {"effect": "allow", "match": {"args": [{"path": "/x", "op": "re2", "value": text}]}}


RULES: list[Any] = [
    _pattern("(((a{100}){100}){100})"), _pattern("a{1001}"), _pattern("|".join(f"a{n}" for n in range(50_000))),
    _pattern("(?P<a>x)" * 2000), _pattern("\\pN" * 3000), {"effect": "deny", "match": {"tool": ["\x00"]}},
    {"effect": "allow", "match": {"tool": ["*a" * 2000]}}, {"effect": "ask", "expires_at": "9999-99-99"},
    {"effect": "ask", "match": {"when": {"tz": "../../etc/passwd", "days": ["mon"], "from": "08:00", "to": "18:00"}}},
    {"effect": "ask", "ask": {"decide_ttl": "1" * 400 + "m"}}, {"effect": "ask", "ask": {"escalate": [{"after": "5m", "to": "\x00"}]}},
    {"effect": "ask", "ask": {"escalate": [{"after": "-5m", "to": "ann"}]}}, {"id": "a\x00", "effect": "deny"},
]  # fmt: skip
YAML = [
    "a: &a [x,x]\nb: *a", "!!python/object/apply:os.system ['id']", "v: 1\nrules: " + "[" * 20_000, "{" * 20_000, "v: 1\nv: 1",
    "v: 1\nrules:\n" + "  - {effect: deny}\n" * 30_000, "<<: {v: 1}", "v: 1\n---\nv: 2", "v: 1e999", "v: .inf", "? [a]\n: b",
    "- " * 20_000 + "x", "%YAML 9.9\n---\nv: 1", "x" * 600_000, 'v: "\\ud800"', "", "~", "v: !!float 1",
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=[str(n) for n in range(len(BODIES))])
def test_a_body_that_says_two_things_says_nothing(site: Server, body: bytes) -> None:
    status, decision, _ = site.request("POST", DECIDE, body, Content_Type=JSON)
    assert status == 400 and decision["error"]["code"], (status, decision)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same server on PostgreSQL, which takes no NUL, no number beyond its columns and no text beyond their size."""
    # Not in pytest's own folder, which every other pytest of the same user closes to PostgreSQL's user as it starts.
    with (
        tempfile.TemporaryDirectory(prefix="toolcards-postgres-", ignore_cleanup_errors=True) as folder,
        postgres(Path(folder)) as url,
        Server(tmp_path_factory.mktemp("data"), database_url=url) as running,
    ):
        completed = running.manage("shell", "-v", "0", "-c", MAKE)
        assert completed.returncode == 0, completed.stderr
        root = Person(running, "admin", running.password)
        assert root.send("PUT", "/api/v1/policy/draft", POLICY)[0] == 200
        assert root.send("POST", "/api/v1/policy/activate", {"expected_active": 1})[0] == 200
        running.root = root  # type: ignore[attr-defined]
        yield running


@pytest.fixture(params=["site", pytest.param("other", marks=pytest.mark.postgres)])
def either(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(request.param)
    return server


@pytest.mark.slow
def test_no_value_however_odd_is_a_fault_of_ours(either: Server) -> None:
    ann = Person(either, "ann", PASSWORD)
    for number, (field, value, statuses) in enumerate(ODD_FIELDS):
        result = question("bash", {"command": f"git push {number}"}) | {field: value}
        status, decision, _ = either.request("POST", DECIDE, result)
        assert status in statuses, (field, repr(value)[:60], status, decision)
        if status != 200 or decision["decision"] != "ask":
            continue
        calls = either.get(f"/api/v1/runs/{urllib.parse.quote(result['run'], safe='')}/calls")["calls"]
        form = {"decision": "approve", "rev": calls[0]["rev"], "args_sha256": decision["args_sha256"], "grant": "until"}
        status, page = ann.vote(decision["approval"]["id"], form)
        assert status in {200, 422}, (field, repr(value)[:60], status, page[:300])


NUL = "\x00\ud800\u202e" * 2_000
CALL: dict[str, Any] = {
    "type": "tool.input.available",
    "call_id": "c",
    "tool": "bash",
    "input": {"command": "git push"},
}
FRAMES: list[Any] = [
    {"type": "run.started", "agent": NUL, "title": NUL, "tools": [{"name": NUL, "input_schema": {"\x00": 2**70}}]},
    CALL | {"call_id": NUL}, CALL | {"tool": NUL, "call_id": "d"}, CALL | {"title": NUL, "source": NUL, "kind": NUL},
    CALL | {"call_id": "e", "input": {"command": NUL}}, CALL | {"call_id": "f", "input": {NUL: 2**70}}, CALL | {"n": 10**17},
    {"type": "approval.requested", "call_id": "c", "approval_id": NUL, "reason": NUL}, {"type": "step.started", "step": NUL},
    {"type": "step.started", "step": 10**30}, {"type": "tool.input.started", "call_id": "g", "tool": NUL},
    {"type": "tool.input.delta", "call_id": "g", "delta": NUL}, {"type": "tool.output.denied", "call_id": "g", "reason": NUL},
    {"type": "tool.output.error", "call_id": "c", "error": {"message": NUL, "code": NUL, "authority": NUL}},
    {"type": "tool.input.repaired", "call_id": "h", "tool": NUL, "input": {}, "original": NUL, "method": NUL},
    {"type": "run.finished", "outcome": "error", "reason": NUL},
]  # fmt: skip


@pytest.mark.slow
def test_no_frame_however_odd_is_lost_or_let_through(either: Server) -> None:
    with either.socket(protocol="native", run="odd", mode="gate", agent="\x00" * 500) as socket:
        for frame in FRAMES:
            socket.send(json.dumps(frame))
        entries: list[dict[str, Any]] = []
        while not entries or (entries[-1]["type"], entries[-1].get("frames")) != ("ack", len(FRAMES)):
            entries.append(json.loads(socket.recv(timeout=PATIENCE)))
    assert not [one for one in entries if one["type"] == "error" or one.get("decision") == "allow"]
    run = either.get("/api/v1/runs/odd")
    assert run["status"] == "error" and "\x00" not in run["reason"]
    for path in ("/runs/odd/", "/calls/", "/approvals/", "/settings/audit/"):
        assert either.root.send("GET", path)[0] == 200, path  # type: ignore[attr-defined]


@pytest.mark.thorough
def test_no_address_however_odd_is_a_fault_of_ours(either: Server) -> None:
    root: Person = either.root  # type: ignore[attr-defined]
    body = {"call_id": "c", "args_sha256": "x", "outcome": "ok", "run": "r", "type": "run.started"}
    for odd in ODD:
        for method, path in AGENTS:
            status, answer, headers = either.request(method, path.format(odd), body if method == "POST" else None)
            assert status < 500 and "X-Evil" not in headers, (method, path, odd[:40], status, answer)
        for path in PAGES:
            assert root.send("GET", path.replace("{}", odd))[0] < 500, (path, odd[:40])
        for path in POSTS:
            assert root.send("POST", path.format(odd), {"decision": "approve", "to": "on"}, form=True)[0] < 500, path
    root = Person(either, "admin", either.password)  # breaking the glass takes a fresh sign-in
    for path, fields, statuses in JSONS:
        status, page = root.send("POST", path, fields, **({"Content_Type": JSON} if isinstance(fields, bytes) else {}))
        assert status in statuses, (path, repr(fields)[:80], status, page[:300])
    for path in ("/settings/killswitch/", "/policy/rules/new/", "/sources/keys/", "/policy/draft/activate/"):
        form = dict.fromkeys(("to", "reason", "tool", "effect", "name", "note", "expected_active"), "\x00")
        assert root.send("POST", path, form, form=True)[0] in {400, 422}, path


def test_no_policy_however_odd_is_a_fault_of_ours(site: Server) -> None:
    root: Person = site.root  # type: ignore[attr-defined]
    for odd in RULES:
        status, result = root.send("POST", "/api/v1/policy/validate", {"v": 1, "rules": [odd]})
        assert status == 422 and json.loads(result)["error"]["code"] == "invalid_policy", (
            repr(odd)[:80],
            status,
            result,
        )
    for text in YAML:
        form = {"text": text, "what": "check", "based_on": ""}
        assert root.send("POST", "/policy/draft/text/", form, form=True)[0] == 422, repr(text[:60])


# ---------------------------------------------------------------- who asks, and from where

ELSEWHERES = ["https://evil.example", "null", "http://127.0.0.1:1", "file://"]


@pytest.mark.parametrize("origin", ELSEWHERES)
def test_foreign_pages_open_no_agent_socket_and_send_no_form(
    site: Server, people: dict[str, Person], origin: str
) -> None:
    with site.socket(protocol="native", run="foreign", mode="gate", headers={"Origin": origin}) as socket:
        assert json.loads(socket.recv(timeout=PATIENCE))["type"] == "error"
        with pytest.raises(ConnectionClosed) as closing:
            socket.recv(timeout=PATIENCE)
    assert closing.value.rcvd is not None and closing.value.rcvd.code == 4403
    approval, form, _ = waiting(site)
    ann = people["ann"]
    assert ann.vote(approval, form, Origin=origin)[0] == 403
    assert ann.send("POST", "/approvals/votes", {"votes": [form | {"approval": approval}]}, Origin=origin)[0] == 403
    assert ann.send("POST", "/approvals/votes", {"votes": [form | {"approval": approval}]}, csrf=False)[0] == 403
    assert site.get(f"/api/v1/approvals/{approval}")["decision"] == "ask"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1@evil.example", "127.0.0.1:1:2", "[::1", "a b"])
def test_another_host_name_is_not_served(site: Server, host: str) -> None:
    for path in ("/login/", "/api/v1/runs"):
        status, body, headers = site.request("GET", path, Host=host)
        assert status == 400 and "evil" not in str(headers), (status, body)
    status, _, headers = site.request("GET", "/", X_Forwarded_Host=host, X_Forwarded_Proto="https")
    assert "evil" not in headers.get("Location", "")


ELSEWHERE_AFTER = [
    "//evil.example", "/\\evil.example", "https:evil.example", "javascript:x", "/%0d%0aX-Evil:x", "\t//evil.example",
    "http://evil.example/", "///evil.example",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("target", ELSEWHERE_AFTER)
def test_after_signing_in_or_voting_no_one_is_sent_elsewhere(site: Server, target: str) -> None:
    ann = Person(site, "ann")
    approval, form, _ = waiting(site)
    assert landed(ann, f"/approvals/{approval}/vote", form | {"next": target}).startswith(f"{site.base}/")
    assert landed(ann, "/logout/", {"next": target}).startswith(f"{site.base}/")
    ann.token = ann._token("/login/")
    form = {"username": "ann", "password": PASSWORD, "next": target}
    assert landed(ann, "/login/", form).startswith(f"{site.base}/")


def landed(person: Person, path: str, form: dict[str, Any]) -> str:
    """Send the form, follow where it leads, and return the address; nothing answers elsewhere."""
    body = urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(person.site.base + path, body, {"X-CSRFToken": person.token})
    try:
        with person._browser.open(request, timeout=2 * PATIENCE) as answer:
            return str(answer.url)
    except urllib.error.HTTPError as error:
        return str(error.url)


# ---------------------------------------------------------------- replays and races


def test_what_one_approval_was_shown_answers_no_other(site: Server, people: dict[str, Person]) -> None:
    first, shown_form, _ = waiting(site, args={"command": "git push a"})
    second, form, _ = waiting(site, args={"command": "git push b"})
    assert people["ann"].vote(second, shown_form)[0] == 412
    both = {
        "votes": [
            shown_form | {"approval": second},
            form | {"approval": second},
            form | {"approval": second, "decision": "deny"},
        ]
    }
    payload = json.loads(people["ann"].send("POST", "/approvals/votes", both)[1])["results"]
    assert [one["status"] for one in payload] == [412, 200, 409]
    assert site.get(f"/api/v1/approvals/{first}")["decision"] == "ask"


def test_a_used_permit_a_told_result_and_an_old_permit_open_nothing(site: Server, people: dict[str, Person]) -> None:
    path, proof, headers = permit(site, people)
    assert site.request("POST", path, proof)[0] == 200
    result = {"run": headers["run"], "outcome": "ok", "output": 1}
    assert site.request("POST", "/api/v1/calls/c/result", result)[0] == 200
    assert site.request("POST", path, proof)[0] == 410
    forged = result | {"output": "forged", "outcome": "error"}
    assert site.request("POST", "/api/v1/calls/c/result", forged)[1]["state"] == "output-available"
    call = site.get(f"/api/v1/runs/{headers['run']}/calls")["calls"][0]
    assert (call["output"], call["approval"]["state"]) == (1, "succeeded")
    path, proof, headers = permit(site, people)
    assert site.request("POST", f"/api/v1/approvals/{headers['approval']['id']}/withdraw", {})[0] == 200
    assert site.request("POST", path, proof)[0] == 410


def test_fifty_questions_at_once_about_one_call_are_one_question(site: Server) -> None:
    result = question("bash", {"command": "git push"})
    with ThreadPoolExecutor(50) as threads:
        decision = list(threads.map(lambda _: site.request("POST", DECIDE, result), range(50)))
    assert {status for status, _, _ in decision} == {200}
    assert len({one["approval"]["id"] for _, one, _ in decision}) == 1


def test_fifty_activations_at_once_are_one_version(site: Server, people: dict[str, Person]) -> None:
    root = people["admin"]
    active = json.loads(root.send("GET", "/api/v1/policy/versions")[1])["active"]
    with ThreadPoolExecutor(20) as threads:
        bodies = [{"expected_active": active}] * 20
        statuses = Counter(threads.map(lambda body: root.send("POST", "/api/v1/policy/activate", body)[0], bodies))
    assert statuses == {200: 1, 409: 19}
    assert json.loads(root.send("GET", "/api/v1/policy/versions")[1])["active"] == active + 1


def test_an_approval_and_a_withdrawal_at_once_have_one_end(site: Server, people: dict[str, Person]) -> None:
    for _ in range(5):
        approval, form, _ = waiting(site)
        with ThreadPoolExecutor(2) as threads:
            vote = threads.submit(lambda a=approval, f=form: people["ann"].vote(a, f)[0])
            withdrawal = threads.submit(
                lambda a=approval: site.request("POST", f"/api/v1/approvals/{a}/withdraw", {})[0]
            )
            assert vote.result() in {200, 410, 412} and withdrawal.result() == 200
        answer = site.get(f"/api/v1/approvals/{approval}")
        assert (answer["decision"], answer["permit"]) == ("deny", None)


def test_after_these_too_the_trail_is_whole(site: Server) -> None:
    completed = site.manage("audit", "verify")
    assert completed.returncode == 0, completed.stdout + completed.stderr


def test_names_that_are_not_utf_8_are_no_other_runs_names(server: Server) -> None:
    name = "not-utf-8-%EF%BF%BD"  # the sign that stands in for bytes that cannot be decoded
    status, _, _ = server.request("POST", f"/api/v1/ingest?protocol=native&run={name}", [{"type": "run.started"}])
    assert status == 200
    for broken in ("not-utf-8-%FF", "not-utf-8-%FE", "not-utf-8-%ED%A0%80"):
        for method, path in (("GET", ""), ("GET", "/calls"), ("GET", "/events"), ("POST", "/beat"), ("POST", "/end")):
            assert server.request(method, f"/api/v1/runs/{broken}{path}")[0] == 404
        status, refusal, _ = server.request("POST", f"/api/v1/ingest?protocol=native&run={broken}", [])
        assert (status, refusal["error"]["code"]) == (400, "bad_query")
    assert server.get(f"/api/v1/runs/{name}")["status"] == "truncated"
