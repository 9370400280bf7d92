"""The risk of a waiting call follows hints, hints follow the catalogs, and all of the input is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dashboard.cards.card_view import CardView
from tests.support.cards import a_card, call_of
from tests.support.tables import loop_over
from toolcards.client.common import tool_kinds
from toolcards.core.calls.card import Card, CardApproval, CardTool, ToolCallState
from toolcards.core.risk.assessment import MAX_REASONS, Risk, assess_risk
from toolcards.core.risk.values import MAX_VALUES

KEYS = "/home/a/.ssh/authorized_keys"


def assess(tool: str, value: Any, severity: str = "medium", **more: Any) -> Risk:
    """Return the risk of a call that waits with this input."""
    approval = CardApproval(terms={"severity": severity}, **more)
    return assess_risk(
        Card(
            "c", tool=CardTool(tool, kind=tool_kinds.display_kind(tool)), input=value, has_input=True, approval=approval
        )
    )


@loop_over(("tool", "value"), [
    ("shell", {"command": ["rm", "-rf", "/"]}), ("shell", {"command": ["bash", "-lc", "rm -rf /"]}),
    ("run_command", {"CommandLine": "rm -rf /"}),
    ("local_shell", {"action": {"type": "exec", "command": ["rm", "-r", "x"]}}),
    ("terminal", {"commands": ["ls", "rm -rf x"]}), ("mcp__box__exec", {"cmd": "rm -rf x"}),
    ("box", {"command": "rm", "args": ["-rf", "/"]}),
    ("steps", {"steps": [{"command": "ls"}] * 50 + [{"command": "rm -rf /"}]}), ("bash", "rm -rf /"),
    ("python", {"code": "import os\nos.system('rm -rf /')"}), ("run_python", {"code": "shutil.rmtree(x)"}),
    ("execute_sql", {"query": "DROP TABLE users"}), ("mcp__db__query", {"sql": "truncate users"}),
    ("Write", {"file_path": KEYS, "content": "k"}), ("Write", {"file_path": "../../.ssh/authorized_keys"}),
    ("Edit", {"path": "/etc/passwd"}), ("Edit", {"path": "/tmp/../etc/passwd"}),
    ("Write", {"file_path": ".git/hooks/pre-commit"}), ("delete_file", {"path": "a"}), ("refund", {"amount": 50_000}),
    ("refund", {"amount": "50,000"}), ("issue_refund", {"amount": "EUR 50.000,00"}),
    ("refund", {"amount_cents": 5_000_000}),
    ("transfer", {"payment": {"amount": {"value": 50_000, "currency": "EUR"}}}),
    ("run_action", {"action": "refund", "amount": 50_000}), ("refund", {"amount": 10**400}),
    ("refund", {"amount": -50_000}), ("anything", {"list": [0] * (MAX_VALUES + 1)}),
])  # fmt: skip
def test_hints_follow_the_catalogs_of_tools(tool: str, value: Any) -> None:
    assert assess(tool, value).level == "high"


@loop_over(("tool", "value"), [
    ("refund", {"amount": 25}), ("refund", {"amount": "25.00"}), ("refund", {"amount_cents": 5_000}),
    ("refund", {"amount": True}), ("refund", {"amount": "nan"}), ("refund", {"order": 50_000}),
    ("count", {"amount": 50_000}), ("Write", {"file_path": "a.sql", "content": "drop table users"}),
    ("search", {"query": "how to drop table"}), ("Read", {"file_path": "/etc/hosts"}),
    ("Edit", {"file_path": "src/a.py"}), ("bash", {"command": 7}), ("bash", [1, 2]), ("bash", None),
    ("shell", {"command": ["git", "commit", "-m", "(x) y"]}), ("Write", {"file_path": "a.sh", "content": "rm -rf /"}),
])  # fmt: skip
def test_what_looks_alike_and_is_harmless_is_not_of_high_risk(tool: str, value: Any) -> None:
    assert assess(tool, value).level == "medium"


@loop_over(("tool", "value", "reasons"), [
    ("execute_sql", {"sql": "UPDATE orders SET paid = 1"}, ("deletes or overwrites data",)),
    ("execute_sql", {"sql": "update only orders as o set paid = 1 -- where"}, ("deletes or overwrites data",)),
    ("execute_sql", {"sql": "UPDATE orders SET paid = 1 WHERE id = 7"}, ("changes rows of a database",)),
    ("execute_sql", {"sql": "delete from orders where id = 7"}, ("changes rows of a database",)),
    ("execute_sql", {"sql": "INSERT INTO orders VALUES (1)"}, ("changes rows of a database",)),
    ("execute_sql", {"sql": "SELECT updated_at FROM orders"}, ()),
    ("ask_docs", {"query": "how to insert into a list"}, ()),
    ("http_request", {"method": "delete", "url": "https://a.example/orders/7"}, ("changes something over HTTP",)),
    ("http_request", {"method": "PUT", "url": "https://a.example/orders/7"}, ("changes something over HTTP",)),
    ("http_request", {"method": "GET", "url": "https://a.example/orders/7"}, ()),
    ("send_email", {"to": "all@customers.example"}, ("reaches many people", "sends data or money")),
    ("send_email", {"to": "@channel"}, ("reaches many people", "sends data or money")),
    ("send_email", {"to": [f"p{n}@a.example" for n in range(5)]}, ("reaches many people", "sends data or money")),
    ("send_email", {"to": "a@a.example, b@a.example", "cc": "c@a.example"}, ("sends data or money",)),
    ("send_email", {"to": "allison@a.example"}, ("sends data or money",)),
    ("Bash", {"command": "chmod -R go-w src"}, ("changes the rights of a whole folder",)),
    ("Bash", {"command": "chown --recursive app src"}, ("changes the rights of a whole folder",)),
    ("Bash", {"command": "chmod +x run.sh"}, ()),
    ("merge_pull_request", {"number": 91}, ("publishes, merges or deploys",)),
    ("deploy_service", {"name": "shop"}, ("sends data or money", "publishes, merges or deploys")),
])  # fmt: skip
def test_tools_of_data_have_their_hints(tool: str, value: Any, reasons: tuple[str, ...]) -> None:
    risk = assess(tool, value)
    assert (risk.reasons, risk.level) == (reasons, "high" if "deletes or overwrites data" in reasons else "medium")


def test_a_grave_hint_outranks_a_rule_that_says_low() -> None:
    assert assess("Bash", {"command": "ls"}, "low").level == "low"
    assert assess("Bash", {"command": "rm -rf /"}, "low").level == "high"


def test_an_edit_that_awaits_more_votes_is_read_too() -> None:
    edited = {"command": "rm -rf /"}
    assert assess("Bash", {"command": "ls"}, edited=edited, has_edited=True).level == "high"


def test_the_gravest_reasons_come_first_and_are_few() -> None:
    value = {"command": "cat .env; curl https://a.example; echo $(date); sudo rm -rf / # " + "x" * 500}
    reasons = assess("Bash", value).reasons
    assert len(reasons) == MAX_REASONS and reasons[0] == "deletes or overwrites data"


# A secret that a mask hides, and a place where a command hides with it.
HIDING_PLACES = [
    "cookie=1; §", "echo Cookie: a; §", "AUTHORIZATION=x; §", "PASSWORD=$(§) ls", "x --token=`§`", "secret=`§`",
    "curl -H 'Authorization: Bearer '$(§) https://a.example", "x --password $(§)", "curl https://u:$(§)@a.example/",
    "-----BEGIN RSA PRIVATE KEY-----\n§\n-----END RSA PRIVATE KEY-----",
]  # fmt: skip
COMMANDS_WITH_SECRETS = [
    "PGPASSWORD=abc psql -c 'select 1'", "curl -H 'Cookie: a=1; b=2' https://a.example",
    "mysql -psecret1 -e 'select 1'",
    "export GITHUB_TOKEN=ghp_abcdefghijklmnopqrstuvwxyz0123456789 && gh pr list",
    "curl -u user:hunter2 https://a.example | jq .", "echo 'hunter2' | docker login --password-stdin",
    "docker login -u x -p hunter2secret a.example && docker push x",
    'curl -H "Authorization: Bearer abcdefghijkl" https://a.example | jq .',
]  # fmt: skip


def assess_waiting(value: Any, **more: Any) -> Risk:
    """Return the risk of a stored call, as pages assess it."""
    call = call_of(a_card(ToolCallState.APPROVAL_REQUESTED, input=value, **more))
    return CardView(call.as_shown_card(), call=call).risk


@loop_over("place", HIDING_PLACES)
@loop_over("command", ["reboot", "git${IFS}push", "rm -rf ~", "kubectl delete ns prod"])
def test_a_command_is_shown_or_its_mask_is_of_high_risk(place: str, command: str) -> None:
    value = place.replace("§", command)
    for arguments in ({"command": value}, {"command": ["bash", "-c", value]}):
        visible_text = json.dumps(
            call_of(a_card(ToolCallState.APPROVAL_REQUESTED, input=arguments)).as_shown_card().input
        )
        assert command in visible_text or assess_waiting(arguments).level == "high"


def test_a_masked_command_is_named_if_the_catalog_lists_it() -> None:
    assert assess_waiting({"command": "cookie=1; rm -rf ~"}).reasons[0] == "runs rm in a masked part"
    result = assess_waiting({"command": "cookie=hunter2; hunter3"})
    assert result.level == "high" and result.reasons[0] == "runs a command in a masked part"


def test_a_proposed_edit_hides_no_command_in_a_mask() -> None:
    proposal = CardApproval(id="apr_1", votable=True, edited={"command": "cookie=1; rm -rf ~"}, has_edited=True)
    assert assess_waiting({"command": "ls"}, approval=proposal).reasons[0] == "runs rm in a masked part"


@pytest.mark.parametrize("command", COMMANDS_WITH_SECRETS)
def test_an_everyday_command_with_a_secret_is_not_of_high_risk(command: str) -> None:
    result = assess_waiting({"command": command})
    assert result.level == "medium", result.reasons


@pytest.mark.parametrize(
    ("tool", "value", "reason"),
    [
        ("bash", {"command": "rm -rf build"}, "deletes or overwrites data"),
        ("bash", {"command": "git push --force origin main"}, "deletes or overwrites data"),
        ("bash", {"command": "curl https://example.com"}, "reaches the network"),
        ("bash", {"command": "cat ~/.ssh/id_rsa"}, "touches secrets"),
        ("bash", {"command": "echo $(whoami)"}, "can’t be analyzed"),
        ("bash", {"command": "echo " + "x" * 500}, "a long command"),
        ("Edit", {"file_path": "../other/a.py"}, "leaves the project"),
        ("Edit", {"file_path": "config/.env"}, "touches secrets"),
        ("send_money", {"to": "ann"}, "sends data or money"),
    ],
)
def test_a_card_says_why_to_look_closely(a_call: Any, tool: str, value: Any, reason: str) -> None:
    result = assess_risk(a_call("approval-requested", tool=tool, input=value).as_shown_card())
    assert any(reason in one for one in result.reasons) and len(result.reasons) <= MAX_REASONS


@pytest.mark.parametrize(
    ("tool", "value"),
    [
        ("bash", {"command": "git add -f a.py"}), ("bash", {"command": "ls"}), ("Edit", {"file_path": "src/a.py"}),
        ("bash", {"command": 7}), ("bash", [1, 2]),
    ],
)  # fmt: skip
def test_a_plain_call_has_no_reasons(a_call: Any, tool: str, value: Any) -> None:
    result = assess_risk(a_call("approval-requested", tool=tool, input=value).as_shown_card())
    assert result.level == "medium" and not result.reasons
