"""Likely mistakes in one rule."""

from __future__ import annotations

from tests.support.tables import loop_over
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.lint import lint


def cmd(value, op="cmd"):
    return {"tool": "Bash", "args": [{"path": "/command", "op": op, "value": value}]}


def find_codes(*rules, **more):
    return [(finding.pointer, finding.code) for finding in lint(parse({"rules": list(rules)}), **more)]


@loop_over(
    ("rule", "findings"),
    [
        ({"effect": "allow"}, [("/match", "allows_everything")]),
        ({"effect": "allow", "match": {"tool": "*"}}, [("/match", "allows_everything")]),
        ({"effect": "deny", "ask": {"quorum": 2}}, [("/ask", "unused")]),
        ({"effect": "ask", "match": cmd("git add && git push")}, [("/match/args/0", "cmd_operators")]),
        ({"effect": "ask", "match": cmd("git push *")}, [("/match/args/0", "cmd_star")]),
        ({"effect": "allow", "match": cmd(["ls", "sudo"])}, [("/match/args/0", "cmd_forms")]),
        ({"effect": "allow", "match": cmd(["ls", "awk"])}, [("/match/args/0", "cmd_forms")]),
        ({"effect": "allow", "match": cmd("mytool")}, [("/match/args/0", "cmd_forms")]),
        ({"effect": "allow", "match": cmd(["ls", "cat", "grep"])}, []), ({"effect": "ask", "match": cmd("awk")}, []),
        ({"effect": "deny", "match": cmd("rm -rf")}, [("/match/args/0", "cmd_flags")]),
        ({"effect": "allow", "match": cmd("git ", "prefix")}, [("/match/args/0", "prefix_of_command")]),
        ({"effect": "ask", "match": cmd("git push"), "unless": [cmd("git push --dry-run*", "glob")]},
        [("/unless/0/args/0", "loose_exception")]),
        ({"effect": "allow", "match": {"rate": {"over": 1, "per": "1m"}}}, [("/match/rate", "rate_of_allow")]),
        ({"effect": "allow", "match": {"args": [{"path": "/p", "op": "path_under", "value": ["/a", "~/b"]}]}},
         [("/match/args/0", "never_matches")]),
        ({"effect": "deny", "match": {"args": [{"path": "/p", "op": "path_under", "value": "~/.ssh"}]}}, []),
        ({"effect": "deny", "match": cmd("rm")}, []), ({"effect": "ask", "match": {"tool": "x"}}, []),
    ],
)  # fmt: skip
def test_one_rule(rule, findings):
    assert find_codes(rule) == [("/rules/0" + where, code) for where, code in findings]


def test_a_deny_of_several_commands_at_once_is_grave():
    doc = {"rules": [{"effect": "deny", "match": {"args": [{"path": "/command", "op": "cmd", "value": "a; rm"}]}}]}
    assert [(one.code, one.grave) for one in lint(parse(doc))] == [("cmd_operators", True)]
