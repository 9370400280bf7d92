"""Attacks and bad inputs, each through a real server's own doors: none gets through, and none is a 500."""

# ruff: noqa: E501 - tables read better in long lines
from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.support.attacked_site import (
    DECIDE,
    Person,
    ask,
    permit,
    question,
    waiting,
)
from tests.support.server import PATIENCE, Server
from toolcards.client.common.canonical_json import digest

FORM = "application/x-www-form-urlencoded"


# ---------------------------------------------------------------- calls that no allow rule may let through

SHELL = [
    "ls && rm -rf /", "ls; rm x", "ls | rm x", "ls || rm x", "ls\nrm x", "ls & rm x", "ls $(rm x)", "ls `rm x`",
    "git status\nrm -rf .", "git status\r\nrm x", "sudo rm x", "/bin/rm x", "env A=1 rm x", "sh -c 'rm x'",
    "find . -exec rm {} +", "echo x | xargs rm", "timeout 5 rm x", "busybox rm x", "'rm' x", "r''m x",
    "eval 'rm x'", "nice nohup rm x",
]  # fmt: skip
OPAQUE = [
    "ls $CMD", "cat $'\\x72m'", "ls > /etc/passwd", "ls {a,b}", "cat <(id)", "FOO=1 ls",
    "ls 'unbalanced", "ls\u2028id", "l\u0455", "ls \u202e", "echo !!", "~/ls", "if true; then ls; fi",
    "git -c core.pager=id status", "lsof", "ls" + " a" * 5000, "", "   ", "git  push", "git push --dry-run && git push",
]  # fmt: skip
OTHERS = [
    ("read_file", {"path": "/data/../etc/passwd"}), ("read_file", {"path": "/data/./../../etc"}),
    ("read_file", {"path": "/workshop/x"}), ("read_file", {"path": "/etc/shadow"}), ("read_file", {"path": "work/x"}),
    ("read_file", {"path": ["/data/x"]}), ("read_file", {"path": "/data/%2e%2e/../etc/x"}), ("read_file", {"path": None}),
    ("read_file", ["/data/x"]), ("read_file", "/data/x"), ("read_file", {}), ("Read_File", {"path": "/data/x"}),
    ("read_file ", {"path": "/data/x"}), ("re\u0430d_file", {"path": "/data/x"}), ("r[e]ad_file", {"path": "/data/x"}),
    ("fetch", {"url": "https://ex\u0430mple.com/"}), ("fetch", {"url": "https://example.com@evil.org/"}),
    ("fetch", {"url": "https://example.com.evil.org/"}), ("fetch", {"url": "https://evil.org/?example.com"}),
    ("fetch", {"url": "https://evil.org\\@example.com/"}), ("fetch", {"url": "//example.com/"}),
    ("fetch", {"url": "https://evil.org#@example.com/"}), ("fetch", {"url": " https://evil.org"}), ("fetch", {"url": 7}),
    ("fetch", {"url": "https://example\u3002com.evil.org"}), ("fetch", {"url": "javascript:fetch('https://example.com')"}),
    ("pay", {"amount": "5"}), ("pay", {"amount": 10}), ("pay", {"amount": 1e300}), ("pay", {"amount": True}),
    ("pay", {"amount": [5]}), ("pay", {"amount": None}), ("pay", {"Amount": 5}), ("pay", {"amount": {"value": 5}}),
    ("mail", {"to": "a@example.com\nevil@evil.org"}), ("mail", {"to": "a@example.com "}), ("mail", {"to": "a@exampleXcom"}),
    ("mail", {"to": "x" * 100_000 + "@evil.org"}), ("mail", {"to": ["a@example.com", "evil@evil.org"]}),
    ("nobody_knows_this", {"x": 1}), ("wire_money", {"to": "x"}), ("mcp__evil__read_file", {"path": "/data/x"}),
]  # fmt: skip
NOT_ALLOWED = [("bash", {"command": text}) for text in (*SHELL, *OPAQUE)] + OTHERS
LISTS: list[Any] = [
    ["rm", "x"],
    ["ls;rm x"],
    ["sh", "-c", "ls && rm x"],
    ["ls", 1],
    ["ls", ["rm"]],
    [],
    [["ls"]],
    {"0": "ls"},
    5,
    True,
]
NOT_ALLOWED += [("bash", {"command": value}) for value in LISTS] + [("bash", {"cmd": "ls"}), ("bash", "ls")]


@pytest.mark.parametrize(("tool", "args"), NOT_ALLOWED, ids=[str(n) for n in range(len(NOT_ALLOWED))])
def test_no_rule_lets_this_pass(site: Server, tool: str, args: Any) -> None:
    decision = ask(site, tool, args)
    assert decision["decision"] in {"ask", "deny"} and decision["permit"] is None, decision


@pytest.mark.parametrize("text", SHELL)
def test_what_spells_rm_is_denied_or_asked(site: Server, text: str) -> None:
    decision = ask(site, "bash", {"command": text})
    assert decision["by"]["ids"] in (["no_rm"], []) or decision["decision"] == "ask"
    assert decision["decision"] == "deny" or "''" in text or "$" in text or "`" in text or "{" in text, decision


def test_what_is_meant_to_pass_passes(site: Server) -> None:
    for tool, args in [("bash", {"command": "ls -la && git status"}), ("read_file", {"path": "/data/a.txt"}),
                       ("fetch", {"url": "https://example.com/x"}), ("pay", {"amount": 9}), ("mail", {"to": "a@example.com"})]:  # fmt: skip
        assert ask(site, tool, args)["decision"] == "allow", (tool, args)


# ---------------------------------------------------------------- what agents say of themselves

CLAIMS = [
    ({"labels": {"env": "dev"}}, "deploy", "prod"), ({"labels": {"env": "prod"}}, "deploy", ""),
    ({"agent_path": ["lead", "intern"]}, "merge", ""), ({"agent_path": ["intern", "lead"]}, "merge", ""),
    ({"agent_path": ["l*"]}, "merge", ""), ({"agent_path": ["lead\n"]}, "merge", ""), ({"agent_path": ["LEAD"]}, "merge", ""),
]  # fmt: skip


@pytest.mark.parametrize(("more", "tool", "who"), CLAIMS, ids=[str(n) for n in range(len(CLAIMS))])
def test_what_agents_claim_opens_nothing(site: Server, more: dict[str, Any], tool: str, who: str) -> None:
    decision = ask(site, tool, {}, key=getattr(site, who) if who else None, **more)
    assert decision["decision"] in {"ask", "deny"}, decision


# ---------------------------------------------------------------- bodies that are no questions

GOOD = {"run": "bad", "call_id": "c", "tool": "bash", "args": {"command": "ls"}}
BODIES: list[tuple[Any, set[int]]] = [
    (b"", {400}), (b"null", {400}), (b"[]", {400}), (b'"x"', {400}), (b"{", {400}), (b"\xff\xfe", {400}), (b"{}", {422}),
    (b'{"run":"a","run":"b","call_id":"c","tool":"bash","args":{}}', {400}),
    (b'{"run":"a","call_id":"c","tool":"bash","args":{"command":"ls","command":"rm"}}', {400}),
    (b'{"run":"a","call_id":"c","tool":"bash","args":{"x":NaN}}', {400}),
    (b'{"run":"a","call_id":"c","tool":"bash","args":{"x":Infinity}}', {400}),
    (b'{"run":"a","call_id":"c","tool":"bash","args":' + b"[" * 2000 + b"]" * 2000 + b"}", {413}),
    (b'{"run":"a","call_id":"c","tool":"bash","args":{"x":' + b"9" * 5000 + b"}}", {400, 422}),
    (json.dumps(GOOD | {"args": {"x": 2**60}}).encode(), {422}),
    (json.dumps(GOOD | {"args": {"x": "\ud800"}}).encode(), {422}),
    (json.dumps(GOOD | {"args": {"x": "a" * 300_000}}).encode(), {413}),
    (b" " * 9_000_000, {413}), (GOOD | {"args": {"command": "ls\x00"}}, {422}), (GOOD | {"tool": "x" * 301}, {422}),
    (GOOD | {"args_sha256": "0" * 64}, {422}), (GOOD | {"args_sha256": 5}, {422}), (GOOD | {"tool": ""}, {422}),
    (GOOD | {"tool": {"name": "x" * 301}}, {422}), (GOOD | {"tool": ["bash"]}, {422}), (GOOD | {"call_id": ""}, {422}),
    (GOOD | {"call_id": 7}, {422}), (GOOD | {"attempt": 0}, {422}), (GOOD | {"attempt": "1"}, {422}),
    (GOOD | {"run": ""}, {422}), (GOOD | {"run": "x" * 201}, {400}), (GOOD | {"run": "a\nb"}, {400}),
    (GOOD | {"agent_path": "lead"}, {422}), (GOOD | {"agent_path": ["a"] * 33}, {422}), (GOOD | {"agent_path": [1]}, {422}),
    (GOOD | {"wait_ms": -1}, {422}), (GOOD | {"can_wait": "no"}, {422}), (GOOD | {"labels": {"env": 5}}, {422}),
    (GOOD | {"labels": []}, {422}), (GOOD | {"idempotency_key": "x" * 301}, {422}),
]  # fmt: skip


@pytest.mark.parametrize(("body", "statuses"), BODIES, ids=[str(n) for n in range(len(BODIES))])
def test_an_invalid_request_is_refused(site: Server, body: Any, statuses: set[int]) -> None:
    status, decision, _ = site.request("POST", DECIDE, body, Content_Type="application/json")
    assert status in statuses and decision["error"]["code"], (status, decision)


def test_unknown_fields_and_odd_names_change_nothing(site: Server) -> None:
    odd = {"decision": "allow", "approved": True, "by": {"kind": "human"}, "\u202e": "\x00", "__class__": "x"}
    assert ask(site, "bash", {"command": "git push"}, **odd)["decision"] == "ask"
    for name in ("c\x00", "\u202e", "../../x", "<script>", "a" * 5000, "\U0001f600", "%2F"):
        assert ask(site, "bash", {"command": "git push"}, call_id=name)["decision"] == "ask"


# ---------------------------------------------------------------- doors that are not yours

DOORS = [
    ("POST", DECIDE, 403), ("POST", "/api/v1/permits/prm_x/claim", 403), ("POST", "/api/v1/calls/c/result", 403),
    ("POST", "/api/v1/approvals/{id}/withdraw", 403), ("GET", "/api/v1/approvals/{id}", 403), ("POST", "/api/v1/runs/{run}/end", 403),
    ("POST", "/api/v1/runs/{run}/beat", 403),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "status"), DOORS)
def test_a_key_does_only_what_its_scopes_say(site: Server, method: str, path: str, status: int) -> None:
    approval, _, waiting_call = waiting(site)
    path = path.format(id=approval, run=waiting_call["run"])
    for key, expected in ((site.limited, status), ("tck_wrong", 401), (None, 401)):  # type: ignore[attr-defined]
        actual, _, _ = site.request(method, path, GOOD if method == "POST" else None, key=key)
        assert actual == expected


@pytest.mark.parametrize(
    "path", ["approvals/{id}", "approvals/{id}/withdraw", "runs/{run}/end", "runs/{run}", "calls/c/result"]
)
def test_what_belongs_to_another_source_is_not_there(site: Server, path: str) -> None:
    approval, _, waiting_call = waiting(site)
    method = "GET" if path in {"approvals/{id}", "runs/{run}"} else "POST"
    body = {"run": waiting_call["run"], "outcome": "ok"} if "result" in path else {} if method == "POST" else None
    address = f"/api/v1/{path.format(id=approval, run=waiting_call['run'])}"
    assert site.request(method, address, body, key=site.prod)[0] == 404  # type: ignore[attr-defined]


PEOPLES = [
    ("POST", "/approvals/{id}/vote"), ("POST", "/approvals/votes"), ("POST", "/api/v1/killswitch"), ("GET", "/api/v1/grants"),
    ("POST", "/api/v1/breakglass"), ("DELETE", "/api/v1/grants/gra_x"), ("PUT", "/api/v1/policy/draft"),
    ("POST", "/api/v1/policy/activate"), ("POST", "/settings/killswitch/"), ("POST", "/policy/draft/activate/"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), PEOPLES)
def test_agents_do_not_do_what_people_do(site: Server, method: str, path: str) -> None:
    approval, form, _ = waiting(site)
    status, _, _ = site.request(method, path.format(id=approval), form | {"on": False, "votes": [form]})
    assert status in {302, 401, 403}
    assert site.get(f"/api/v1/approvals/{approval}")["decision"] == "ask"


@pytest.mark.slow
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1.evil.example"]
)
def test_foreign_pages_open_no_browser_socket(site: Server, people: dict[str, Person], origin: str) -> None:
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in people["ann"].jar)
    url = site.base.replace("http", "ws", 1) + "/ws/me/"
    with pytest.raises((InvalidStatus, ConnectionClosed)):  # noqa: SIM117 - the inner one must not hide
        with connect(url, additional_headers={"Cookie": cookies}, origin=origin) as socket:  # type: ignore[arg-type]
            socket.recv(timeout=PATIENCE)


# ---------------------------------------------------------------- votes

VOTES: list[tuple[dict[str, Any], set[int]]] = [
    ({"decision": "maybe"}, {422}), ({"decision": ""}, {422}), ({"decision": "APPROVE"}, {422}), ({"rev": "x"}, {422}),
    ({"rev": -1}, {422}), ({"rev": 0}, {412}), ({"rev": 10**30}, {412, 422}), ({"args_sha256": "0" * 64}, {412}),
    ({"args_sha256": ""}, {412}), ({"args_sha256": "x" * 65}, {422}), ({"reason": "x" * 2001}, {422}),
    ({"grant": "rule"}, {422}), ({"grant": '{"kind":"until","minutes":1e9}'}, {422}), ({"grant": '{"kind":["run"]}'}, {422}),
    ({"grant": '{"kind":"until","minutes":-1}'}, {422}), ({"grant": '{"kind":"until","minutes":NaN}'}, {422}),
    ({"decision": "edit", "edited_args": "{"}, {422}), ({"decision": "edit", "edited_args": '{"command":"git push"}'}, {422}),
    ({"decision": "edit", "edited_args": '{"command":"rm -rf /"}'}, {422}), ({"decision": "edit"}, {422}),
    ({"decision": "edit", "edited_args": '{"command":"ls","command":"rm"}'}, {422}), ({"grant": "{"}, {422}),
    ({"client_decision_id": "x" * 101}, {422}),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "statuses"), VOTES, ids=[str(n) for n in range(len(VOTES))])
def test_an_invalid_vote_decides_nothing(
    site: Server, people: dict[str, Person], wrong: dict[str, Any], statuses: set[int]
) -> None:
    approval, form, _ = waiting(site)
    status, page = people["ann"].vote(approval, form | wrong)
    assert status in statuses, (status, page[:300])
    assert site.get(f"/api/v1/approvals/{approval}")["decision"] == "ask"


def test_no_vote_without_the_form_token_a_session_or_the_right(site: Server, people: dict[str, Person]) -> None:
    approval, form, _ = waiting(site)
    ann = people["ann"]
    assert ann.vote(approval, form, csrf=False)[0] == 403
    assert ann.vote(approval, form | {"csrfmiddlewaretoken": "x" * 64}, csrf=False)[0] == 403
    assert ann.vote(approval, form, Origin="https://evil.example")[0] == 403
    assert people["vic"].vote(approval, form)[0] == 403
    assert ann.send("GET", f"/approvals/{approval}/vote?{urllib.parse.urlencode(form)}")[0] == 405
    assert ann.vote("apr_nothing", form)[0] == 404
    former_person = Person(site, "ben")
    former_person.send("POST", "/logout/", {}, form=True)
    assert site.get(f"/api/v1/approvals/{approval}")["decision"] == "ask"
    assert (
        former_person.vote(approval, form)[0] != 200 or site.get(f"/api/v1/approvals/{approval}")["decision"] == "ask"
    )
    assert site.get(f"/api/v1/approvals/{approval}")["decision"] == "ask"


def test_terms_hold_for_plain_votes(site: Server, people: dict[str, Person]) -> None:
    ann, ben, admin = people["ann"], people["ben"], people["admin"]
    approval, form, _ = waiting(site, "release", {})
    assert ann.vote(approval, form)[0] == 403 and admin.vote(approval, form)[0] == 200
    approval, form, waiting_call = waiting(site, "launch", {"note": "a", "when": 1})
    barred = {"decision": "edit", "edited_args": '{"note":"a","when":2}'}
    assert ann.vote(approval, form | barred)[0] == 422
    assert ann.vote(approval, form | {"decision": "edit", "edited_args": '{"note":"b","when":1}'})[0] == 200
    assert ann.vote(approval, form)[0] in {200, 409, 412}  # one person is one vote
    assert site.get(f"/api/v1/approvals/{approval}")["decision"] == "ask"
    rev = site.get(f"/api/v1/runs/{waiting_call['run']}/calls")["calls"][0]["rev"]
    assert ben.vote(approval, form)[0] == 412  # ben saw it before the edit
    assert ben.vote(approval, form | {"rev": rev})[0] == 412  # the digest of what ann has replaced
    assert ben.vote(approval, form | {"rev": rev, "args_sha256": digest({"note": "b", "when": 1})})[0] == 200
    answer = site.get(f"/api/v1/approvals/{approval}")
    assert (answer["decision"], answer["args"]) == ("allow", {"note": "b", "when": 1})
    assert "do not send the original again" in answer["reason"]["text"]
    approval, form, _ = waiting(site, "wire_money", {})
    assert ann.vote(approval, form | {"grant": "until"})[0] == 422


def test_late_clicks_and_second_clicks_change_nothing(site: Server, people: dict[str, Person]) -> None:
    ann, ben = people["ann"], people["ben"]
    approval, form, waiting_call = waiting(site)
    assert ann.vote(approval, form | {"decision": "deny"})[0] == 200
    assert ann.vote(approval, form | {"decision": "deny"})[0] == 200
    assert ben.vote(approval, form)[0] == 409 and ann.vote(approval, form)[0] == 409
    approval, form, waiting_call = waiting(site)
    assert site.request("POST", f"/api/v1/runs/{waiting_call['run']}/end", {})[0] == 200
    assert ann.vote(approval, form)[0] == 410
    assert site.get(f"/api/v1/approvals/{approval}")["decision"] == "deny"
    approval, form, waiting_call = waiting(site)
    assert site.request("POST", f"/api/v1/approvals/{approval}/withdraw", {})[0] == 200
    assert ann.vote(approval, form)[0] == 410


# ---------------------------------------------------------------- permits


def test_a_permit_is_for_one_call_one_input_one_schema_one_source_and_once(
    site: Server, people: dict[str, Person]
) -> None:
    path, proof, headers = permit(site, people)
    for wrong, status in [
        ({"call_id": "d"}, 412), ({"args_sha256": "0" * 64}, 412), ({"schema_sha256": "b" * 64}, 412), ({"schema_sha256": ""}, 412),
        ({"call_id": None}, 422), ({"args_sha256": ["x"]}, 422),
    ]:  # fmt: skip
        assert site.request("POST", path, proof | wrong)[0] == status, wrong
    assert site.request("POST", path, proof, key=site.prod)[0] == 404  # type: ignore[attr-defined]
    assert site.request("GET", path)[0] == 405
    assert site.request("POST", path.replace("prm_", "prm_x"), proof)[0] == 404
    assert site.request("POST", path, proof)[0] == 200
    status, body, _ = site.request("POST", path, proof)
    assert (status, body["error"]["code"]) == (410, "used")
    again = question("bash", {"command": "git push --force"}) | {"run": headers["run"]}
    status, body, _ = site.request("POST", DECIDE, again)
    assert (status, body["error"]["code"]) == (409, "key_reuse")


def test_of_fifty_claims_at_once_one_succeeds(site: Server, people: dict[str, Person]) -> None:
    path, proof, _ = permit(site, people)
    with ThreadPoolExecutor(50) as threads:
        statuses = Counter(threads.map(lambda _: site.request("POST", path, proof)[0], range(50)))
    assert statuses == {200: 1, 410: 49}


def test_of_fifty_votes_at_once_one_person_wins(site: Server, people: dict[str, Person]) -> None:
    approval, form, _ = waiting(site)
    cast = [("ann", "approve"), ("ben", "deny")] * 25

    def click(vote: tuple[str, str]) -> tuple[str, int]:
        return vote[0], people[vote[0]].vote(approval, form | {"decision": vote[1]})[0]

    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(click, cast))
    winners = {name for name, status in answers if status == 200}
    assert len(winners) == 1 and {status for _, status in answers} == {200, 409}, Counter(answers)
    answer = site.get(f"/api/v1/approvals/{approval}")
    assert answer["by"]["name"] in winners and answer["decision"] == {"ann": "allow", "ben": "deny"}[winners.pop()]


# ---------------------------------------------------------------- policies and switches

BAD_RULES = [
    {"effect": "maybe"}, {"effect": "allow", "match": {"args": [{"path": "/x", "op": "jsonpath", "value": "$"}]}},
    {"effect": "allow", "match": {"args": [{"path": "/x", "op": "re2", "value": "(?=x)"}]}},
    {"effect": "allow", "match": {"args": [{"path": "/x", "op": "re2", "value": "(a)\\1"}]}},
    {"effect": "allow", "match": {"args": [{"path": "/x", "op": "re2", "value": "("}]}},
    {"effect": "allow", "match": {"args": [{"path": "x", "op": "eq", "value": 1}]}}, {"effect": "allow", "match": {"tool": 7}},
    {"effect": "allow", "match": {"tools": ["bash"]}}, {"effect": "ask", "ask": {"approvers": ["group:nobody"]}},
    {"effect": "ask", "ask": {"quorum": 0}}, {"effect": "ask", "ask": {"quorum": 99}}, {"effect": "ask", "ask": {"grants": ["rule"]}},
    {"effect": "allow", "match": {"args": [{"path": "/x", "op": "cidr", "value": "not an address"}]}}, "rule", None,
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_RULES, ids=[str(n) for n in range(len(BAD_RULES))])
def test_an_invalid_policy_is_refused(site: Server, people: dict[str, Person], bad: Any) -> None:
    rules = [bad | {"id": "bad"} if isinstance(bad, dict) else bad]
    document = {"v": 1, "default": "ask", "rules": rules}
    status, value = people["admin"].send("POST", "/api/v1/policy/validate", document)
    assert status == 422 and json.loads(value)["error"]["code"] == "invalid_policy", value
    assert people["admin"].send("PUT", "/api/v1/policy/draft", document)[0] == 422
    assert people["ann"].send("PUT", "/api/v1/policy/draft", document)[0] == 403


@pytest.mark.parametrize(
    "body", [b'{"v":1,"default":"deny","default":"allow"}', b'{"v":NaN}', b"{", b"\xff", b"[" * 5000]
)
def test_a_policy_that_is_no_json_is_refused(people: dict[str, Person], body: bytes) -> None:
    assert people["admin"].send("PUT", "/api/v1/policy/draft", body, Content_Type="application/json")[0] == 400


@pytest.mark.parametrize(
    "body", [{}, {"on": "yes"}, {"on": 1}, {"on": True, "x": 1}, {"on": True, "reason": 5}, [], None]
)
def test_a_switch_is_thrown_on_purpose(site: Server, people: dict[str, Person], body: Any) -> None:
    assert people["admin"].send("POST", "/api/v1/killswitch", body)[0] == 422
    assert people["ann"].send("POST", "/api/v1/killswitch", {"on": True})[0] == 403
    assert people["admin"].send("POST", "/api/v1/killswitch", {"on": True}, csrf=False)[0] == 403
    assert json.loads(people["vic"].send("GET", "/api/v1/killswitch")[1]) == {"on": False}


def test_the_kill_switch_stops_what_waits_and_what_was_allowed_and_nothing_lifts_it(
    site: Server, people: dict[str, Person]
) -> None:
    admin = Person(site, "admin", site.password)  # breaking the glass takes a fresh sign-in
    path, proof, _ = permit(site, people)
    approval, form, _ = waiting(site)
    rules_yes = ask(site, "bash", {"command": "ls"})
    assert admin.send("POST", "/api/v1/breakglass", {"on": True, "reason": "fire", "minutes": 5})[0] == 200
    assert ask(site, "bash", {"command": "git push"})["by"]["kind"] == "break_glass"
    assert ask(site, "bash", {"command": "rm x"})["decision"] == "deny"
    assert admin.send("POST", "/api/v1/killswitch", {"on": True, "reason": "drill"})[0] == 200
    try:
        assert "data-killswitch" in people["vic"].send("GET", "/runs/")[1]
        assert "data-breakglass" in people["vic"].send("GET", "/runs/")[1]
        for key in (None, site.prod):  # type: ignore[attr-defined]
            decision = ask(site, "bash", {"command": "ls"}, key=key)
            assert (decision["decision"], decision["by"]["kind"]) == ("deny", "kill_switch")
        answer = site.get(f"/api/v1/approvals/{approval}")
        assert (answer["decision"], answer["by"]["kind"], answer["reason"]["code"]) == (
            "deny",
            "kill_switch",
            "kill_switch",
        )
        assert people["ann"].vote(approval, form)[0] == 409
        assert site.request("POST", path, proof)[0] == 410
        late = {"call_id": "c", "args_sha256": rules_yes["args_sha256"]}
        assert site.request("POST", f"/api/v1/permits/{rules_yes['permit']['id']}/claim", late)[0] == 410
    finally:
        assert admin.send("POST", "/settings/killswitch/", {"to": "off"}, form=True)[0] == 200
        assert admin.send("POST", "/api/v1/breakglass", {"on": False})[0] == 200
    assert ask(site, "bash", {"command": "ls"})["decision"] == "allow"
    assert ask(site, "bash", {"command": "git push"})["decision"] == "ask"
    assert "fire" in admin.send("GET", "/settings/breakglass/")[1]


def test_after_all_of_this_the_trail_is_whole(site: Server) -> None:
    completed = site.manage("audit", "verify")
    assert completed.returncode == 0, completed.stdout + completed.stderr
