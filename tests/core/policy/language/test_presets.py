"""Tools that really exist, by program and server: starter policies ask about each that changes something.

A row is the name as an agent sends it, with the server where the wire tells it apart, and the kind that policy sees.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from bench.attention import corpus
from tests.support.tables import loop_over
from tests.support.tool_names import CHANGES, LOOKINGS
from toolcards.client.common.canonical_json import digest
from toolcards.client.common.tool_kinds import find_kinds, is_known_tool
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language import presets
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS, find_newer_form

POLICIES = {name: parse(pack.document) for name, pack in PRESETS.items()}


def effect(policy, tool, server="", **more):
    return decide(
        POLICIES[policy],
        PolicyRequest.for_tool(tool, source=server, is_known=is_known_tool(tool, server), input={}, **more),
    ).effect


def test_there_are_enough_of_them():
    assert len({name for name, server, _ in CHANGES if not server}) >= 150
    assert len({name for name, server, _ in LOOKINGS if not server}) >= 80


@loop_over(("tool", "server", "kind"), CHANGES)
def test_policies_that_ask_about_changes_ask_about_what_changes(tool, server, kind):
    assert find_kinds(tool, server) == (kind,)
    for policy in ("ask-on-writes", "locked-down"):
        assert effect(policy, tool, server) is not Effect.ALLOW, policy
    is_left_to_the_agent = kind == "switch_mode" or tool == "attempt_completion"  # which offers to run a command
    assert (effect("follow-the-agent", tool, server) is Effect.ALLOW) is is_left_to_the_agent


@loop_over(("tool", "server", "kind"), LOOKINGS)
def test_tools_that_are_known_to_look_run_unasked(tool, server, kind):
    assert find_kinds(tool, server) == (kind,)
    assert effect("ask-on-writes", tool, server) is Effect.ALLOW
    assert effect("locked-down", tool, server) is (Effect.ASK if kind == "fetch" else Effect.ALLOW)


UNKNOWN = [
    ("mcp__evil__view", ""), ("mcp__evil__cat", ""), ("mcp__evil__read_file", ""), ("mcp__evil__get_issue", ""),
    ("view", "evil"), ("read_file", "evil"), ("Read", "evil"), ("search", "evil"), ("think", "evil"), ("fetch", "evil"),
    ("mcp__github__view_everything", ""), ("mcp__github2__get_issue", ""), ("mcp__g\u0456thub__get_issue", ""),
    ("get_issue", "g\u0456thub"), ("get_issue", "github "),
    ("mcp__evil__get_issue", "github"), ("mcp__github__get_issue", "evil"), ("get_issue", ""), ("list_tables", ""),
    ("READ", ""), ("read_File", ""), ("Read ", ""), ("re\u0430d_file", ""), ("read_file\u200b", ""), ("cat", ""),
    ("get_weather", ""), ("lookup", ""), ("mcp__", ""), ("mcp____read_file", ""), ("", ""), ("x" * 5_000, ""),
    ("github__evil__get_issue", ""), ("evil__read_file", ""), ("evil.read_file", ""), ("functions.read_file", ""),
]  # fmt: skip


@loop_over(("tool", "server"), UNKNOWN)
def test_an_unknown_tool_requires_approval_whatever_its_name(tool, server):
    assert "other" in find_kinds(tool, server) and not is_known_tool(tool, server)
    for policy in ("ask-on-writes", "locked-down"):
        assert effect(policy, tool, server) is not Effect.ALLOW, policy
    is_left_to_the_agent = (tool, server) in READ_BY_NAME
    assert (effect("follow-the-agent", tool, server) is Effect.ALLOW) is is_left_to_the_agent


# Own tools of the agent, and one of a server in the catalog: under *Follow the agent* the agent decides.
READ_BY_NAME = [("get_issue", ""), ("list_tables", ""), ("get_weather", ""), ("mcp__github__view_everything", "")]


def test_a_rule_that_denies_a_kind_holds_for_every_kind_that_a_tool_may_be():
    for effect_, tool, claimed_kind, kind, expected in [
        ("deny", "Read", "execute", "read", "deny"), ("deny", "Read", "execute", "execute", "deny"),
        ("allow", "Read", "execute", ["read"], "ask"), ("allow", "Read", "execute", ["execute"], "ask"),
        ("allow", "Read", "execute", ["read", "execute"], "allow"), ("deny", "run_it", "", "other", "deny"),
        ("deny", "run_it", "", "execute", "deny"), ("allow", "run_it", "", "execute", "ask"),
        ("allow", "run_it", "", ["execute", "other"], "allow"), ("allow", "Bash", "", "execute", "allow"),
    ]:  # fmt: skip
        policy = parse({"default": "ask", "rules": [{"effect": effect_, "match": {"kind": kind}}]})
        request = PolicyRequest.for_tool(tool, claimed_kind=claimed_kind)
        assert decide(policy, request).effect == expected, (effect_, tool, kind)


OTHER_TOOLS = "KillShell python_repl run_sql wget deploy send_mail browser_close codeReview uninstall_helm_chart"


@pytest.mark.parametrize("tool", OTHER_TOOLS.split())
def test_a_harmless_command_in_an_extra_argument_lets_no_other_tool_run(tool):
    assert find_kinds(tool)[0] == "execute"
    for key in ("command", "cmd", "commands", "CommandLine"):
        assert decide(POLICIES["ask-on-writes"], PolicyRequest.for_tool(tool, input={key: "ls"})).effect is Effect.ASK


@pytest.mark.parametrize(
    ("match", "answer"),
    [({}, Effect.ASK), ({"tool": ["*"]}, Effect.ASK), ({"tool": ["my_shell"]}, Effect.ALLOW)],
)
def test_a_rule_allows_commands_of_a_tool_that_is_not_known_only_if_it_names_the_tool(match, answer):
    for rule in (
        {"effect": "allow", "match": match | {"args": [{"path": "/command", "op": "cmd", "value": "ls"}]}},
        {"effect": "ask", "match": match, "unless": [{"args": [{"path": "/command", "op": "cmd", "value": "ls"}]}]},
    ):
        default = "ask" if rule["effect"] == "allow" else "allow"
        policy = parse({"default": default, "rules": [{"id": "r", **rule}]})
        assert decide(policy, PolicyRequest.for_tool("my_shell", input={"command": "ls"})).effect is answer


# ---------------------------------------------------------------- forms

FORMER = json.loads(Path(__file__).with_name("former_starters.json").read_text("utf-8"))


def list_corpus_requests():
    sessions = corpus.load_sessions().values()
    dangerous_calls = [each for call in corpus.load_dangerous() for each in corpus.disguise(call)]
    for call in [*(call for session in sessions for call in session), *dangerous_calls]:
        yield PolicyRequest.for_tool(
            call.tool, source=call.server, input=call.args, agent_path=(call.program,), root=call.project
        )
    for tool, server, _ in [*CHANGES, *LOOKINGS]:
        yield PolicyRequest.for_tool(tool, source=server, input={}, is_known=is_known_tool(tool, server))
    for tool, server in UNKNOWN:
        yield PolicyRequest.for_tool(tool, source=server, input={}, is_known=False)


def decide_briefly(policy, request):
    decision = decide(policy, request)
    return decision.effect, decision.ask.severity if decision.ask else ""


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORMER)
@pytest.mark.parametrize("default", [None, "allow", "ask", "deny"])
def test_the_new_form_of_a_starter_decides_the_calls_of_the_corpus_as_the_former_or_asks_less(name, default):
    former, present = dict(FORMER[name]), PRESETS[name].with_default(default)
    if default:
        former |= {"default": default, "rules": [rule for rule in former["rules"] if rule["effect"] != "allow"]}
    policies = parse(former), parse(present)
    requests = list(list_corpus_requests())[:: 5 if default else 1]
    pairs = [(request.input, *(decide_briefly(policy, request) for policy in policies)) for request in requests]
    changes = [(args, before, now) for args, before, now in pairs if before != now]
    asks_less = name == "follow-the-agent"
    default_effect = Effect(default or "allow")  # what is left to the agent has the default
    strange_changes = [
        each for each in changes if not asks_less or (each[1][0], each[2][0]) != (Effect.ASK, default_effect)
    ]
    assert strange_changes == []


@pytest.mark.parametrize("name", PRESETS)
def test_a_starter_has_at_most_four_rules_none_of_which_repeats_the_default(name):
    document = PRESETS[name].document
    assert len(document["rules"]) <= 4
    bare = [rule for rule in document["rules"] if rule.get("severity", "medium") == "medium"]
    assert [rule["id"] for rule in bare if rule["effect"] == document["default"] != "deny"] == []


@pytest.mark.parametrize("name", PRESETS)
def test_the_forms_of_each_starter_are_listed_with_the_present_one_last(name):
    """A changed starter fails here: append its digest to `starter_forms.toml`."""
    forms = tomllib.loads(Path(presets.__file__).with_name("starter_forms.toml").read_text("utf-8"))
    assert digest(dict(PRESETS[name].document)) == forms[name][-1]
    assert {find_newer_form(each) for each in forms[name][:-1]} == {(name, "")}
    assert find_newer_form(forms[name][-1]) == ("", "")
    assert find_newer_form(digest(FORMER.get(name, {"v": 1, "default": "allow", "rules": []}))) == (name, "")


@pytest.mark.parametrize("default", ["allow", "ask", "deny"])
def test_a_first_policy_with_another_default_has_the_same_forms(default):
    """Append the digest of `with_default` to `starter_forms.toml`, too."""
    present_form = digest(PRESETS["ask-on-writes"].with_default(default))
    forms = tomllib.loads(Path(presets.__file__).with_name("starter_forms.toml").read_text("utf-8"))
    *former_forms, last = forms[f"ask-on-writes {default}"]
    assert last == present_form and find_newer_form(present_form) == ("", "")
    assert {find_newer_form(each) for each in former_forms} == {("ask-on-writes", default)}


def test_a_policy_that_a_person_wrote_is_no_form_of_a_starter():
    own_policy = {**PRESETS["ask-on-writes"].document, "default": "deny"}
    assert find_newer_form(digest(own_policy)) == ("", "")


@pytest.mark.parametrize("program", ["claude-code", "codex"])
def test_a_command_that_looks_is_left_to_the_agent_under_the_name_that_its_hooks_have(program: str) -> None:
    request = PolicyRequest.for_tool(
        "Bash", program=program, input={"command": "git status; ls"}, has_input=True, is_known=True
    )
    assert decide(POLICIES["follow-the-agent"], request).effect is Effect.ALLOW


@pytest.mark.parametrize("name", ["Gemfile", "build.gradle", "settings.gradle.kts", "Makefile", "package.json"])
def test_following_the_agent_a_manifest_that_is_a_program_is_asked_about(name: str) -> None:
    edit = {"file_path": f"/srv/app/{name}", "old_string": "a", "new_string": "Kernel.send(:sys + :tem)"}
    request = PolicyRequest.for_tool("Edit", input=edit, root="/srv/app")
    assert decide(POLICIES["follow-the-agent"], request).effect is Effect.ASK
