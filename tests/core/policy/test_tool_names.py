"""Names that look alike: rules that ask or deny hold for all of them, rules that allow for the one that is spelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.policy_strategies import disable_index
from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.tool_names import make_tool_key

ALIKE = [
    "Bash", "BASH", "bash ", " bash", "bash\t", "bash\n", "b\u0430sh", "\uff42\uff41\uff53\uff48", "ba\u00adsh",
    "bash\u200b",
    "bash\u202e", "bash\ufe0f", "b\u00e0sh", "\U0001d41b\U0001d41a\U0001d42c\U0001d421", "\u24d1ash",
    "B\u0410\u0405\u041d",
    "\u0432\u0430\u0455\u04bb", "bash\U000e0041", "bash\x00", "ba\u200dsh", "bas\u04bb", "b\u0251sh", "\u0184ash",
]  # fmt: skip
BESIDE = ["mcp__x__bash", "mcp__x__y__bash", "mcp_x_bash", "mcp--x--bash", "x__bash", "x.bash", "functions.bash",
"x/bash", "x:bash",
          "mcp__x__b\u0430sh"]  # fmt: skip
OTHERS = [
    "dash",
    "bashful",
    "rebash",
    "bash_history",
    "mcp__bash__run",
    "git_push",
    "b a t",
    "x_bash",
    "\u691c\u7d22",
    "",
    "ba*sh",
]


def says(effect, expected, tool, **more):
    match = {"tool": expected} | {name: more.pop(name) for name in ("match_source",) if name in more}
    match = {("source" if name == "match_source" else name): value for name, value in match.items()}
    other = "allow" if effect != "allow" else "deny"
    policy = parse({"default": other, "rules": [{"effect": effect, "match": match}]})
    return decide(policy, PolicyRequest.for_tool(tool, **more)).effect == effect


@loop_over("tool", ALIKE + BESIDE)
def test_a_rule_that_asks_or_denies_holds_for_what_looks_like_it_and_one_that_allows_does_not(tool):
    assert says("deny", "bash", tool) and says("ask", "bash", tool) and says("deny", "ba*h", tool)
    assert says("ask", "BASH", tool) and says("deny", "b\u0430sh", tool)
    assert not says("allow", "bash", tool)


@pytest.mark.parametrize("tool", OTHERS)
def test_other_names_are_other_names(tool):
    assert not says("deny", "bash", tool) and not says("ask", "bash", tool)


def test_a_rule_that_allows_names_the_server_too():
    assert says("allow", "bash", "bash") and says("allow", "bash", "bash", source="builtin")
    assert not says("allow", "bash", "bash", source="evil") and not says("allow", "ba*", "bash", source="evil")
    assert says("allow", "bash", "bash", source="evil", match_source="evil")
    assert not says("allow", "bash", "bash", source="Evil", match_source="evil")
    assert says("allow", "mcp__files__bash", "mcp__files__bash") and says(
        "allow", "mcp__files__bash", "bash", source="files"
    )
    assert not says("allow", "mcp__files__bash", "mcp__evil__bash") and says("allow", "*", "bash", source="evil")
    assert says("deny", "mcp__files__bash", "bash", source="FILES") and says("deny", "bash", "bash", source="evil")


def test_an_exception_of_a_strict_rule_is_spelled_and_one_of_an_allow_looks_alike():
    strict = parse({"default": "allow", "rules": [{"effect": "deny", "unless": [{"tool": "ls"}]}]})
    mild = parse({"default": "deny", "rules": [{"effect": "allow", "unless": [{"tool": "rm"}]}]})
    for tool, is_spelled in (("ls", True), ("LS", False), ("ls ", False), ("mcp__x__ls", False)):
        assert (decide(strict, PolicyRequest.for_tool(tool)).effect is Effect.ALLOW) == is_spelled
    for tool, passes in (("ls", True), ("rm", False), ("RM", False), ("r\u217f", False), ("mcp__x__rm", False)):
        assert (decide(mild, PolicyRequest.for_tool(tool)).effect is Effect.ALLOW) == passes


def test_a_strict_rule_holds_for_servers_and_agents_that_look_alike():
    for name, expected, call in (
        ("source", "github", {"source": "GitHub"}),
        ("agent", "intern", {"agent_path": ("Int\u0435rn",)}),
    ):
        for effect, holds in (("deny", True), ("ask", True), ("allow", False)):
            other = "allow" if effect != "allow" else "deny"
            policy = parse({"default": other, "rules": [{"effect": effect, "match": {name: expected}}]})
            assert (decide(policy, PolicyRequest.for_tool("t", **call)).effect == effect) is holds, (name, effect)


def test_a_star_in_a_name_from_an_agent_has_no_meaning():
    assert not says("allow", "bash", "*") and not says("deny", "bash", "ba*") and not says("deny", "bash", "\uff0a")
    assert not says("deny", "\uff0abash", "rebash") and says("deny", "*bash", "rebash")


def test_a_name_of_any_length_is_judged_and_remembered_in_bounds():
    for name in ("_" * 400_000, "mcp_" + "_a" * 100_000, "x__" * 100_000 + "bash", "b\u0430sh" * 50_000):
        policy = parse(
            {
                "default": "allow",
                "rules": [{"effect": "deny", "match": {"tool": ["bash", f"t{n}*"]}} for n in range(50)],
            }
        )
        question = PolicyRequest.for_tool(name)
        assert sum(map(len, question.names.skeletons)) <= 3 * len(name) + 100
        assert (decide(policy, question).effect is Effect.DENY) == name.endswith("__bash")


parts = st.text(st.sampled_from("bB\u0430ash_-.* \u200b1lI|0oO\ufdfa\u00e6\u03a3"), max_size=6)


names = st.sampled_from([*ALIKE, *BESIDE, *OTHERS, "bash"]) | parts
patterns = st.builds("{}{}{}".format, parts, st.sampled_from(["*", "", "**"]), parts).filter(bool) | names.filter(
    bool
).filter(lambda name: "\x00" not in name)
labels = st.fixed_dictionaries({"tool": st.lists(patterns, min_size=1, max_size=3)}, optional={
    "kind": st.lists(st.sampled_from(["execute", "other", "read"]), min_size=1, max_size=2), "source": st.just("x"),
})  # fmt: skip
rules = st.fixed_dictionaries(
    {
        "effect": st.sampled_from(["allow", "ask", "deny"]),
        "match": labels | labels.map(lambda m: {k: v for k, v in m.items() if k != "tool"}),
    },
)
documents = st.fixed_dictionaries(
    {"default": st.sampled_from(["allow", "ask", "deny"]), "rules": st.lists(rules, max_size=6)}
)
questions = st.builds(PolicyRequest.for_tool, names, source=st.sampled_from(["", "builtin", "x", "X", "evil"]),
                      claimed_kind=st.sampled_from(["", "execute", "read", "delete"]))  # fmt: skip


@loop_over(("tool", "other", "are_one"), [
    ("send_mail", "Send_Mail", True), ("send_mail", "send-mail ", True), ("send_mail", "send_m\u0430il", True),
    ("send_mail", "s\u200bend_mail\0", True), ("send_mail", "mcp__mail__send_mail", True),
    ("send_mail", "mail.send_mail", True), ("send_mail", "mail/SEND_MAIL", True), ("send_mail", "send_mails", False),
    ("send_mail", "mail", False), ("a__", "b__", False), ("x" * 400, "X" * 400, True),
])  # fmt: skip
def test_all_spellings_of_a_tool_have_one_key(tool: str, other: str, are_one: bool) -> None:
    assert (make_tool_key(tool) == make_tool_key(other)) is are_one and len(make_tool_key(other)) <= 300


@pytest.mark.slow
@draw(500)
@given(documents, questions)
def test_rules_about_names_answer_as_if_each_were_asked(document, question):
    document = document | {"rules": [rule | {"id": f"r{n}"} for n, rule in enumerate(document["rules"])]}
    assert decide(parse(document), question) == decide(disable_index(parse(document)), question)


# source (as the client tells it), tool, and the servers that an allow rule and a deny rule by source match
@loop_over("source, tool, allowed, denied", [
    ("docs__prod", "mcp__docs__prod__get_item", {"docs__prod"}, {"docs__prod"}),
    ("", "mcp__docs__prod__get_item", set(), {"docs", "docs__prod"}),
    ("", "mcp__docs__get_item", {"docs"}, {"docs"}),
    ("", "mcp__docs___get_item", set(), {"docs", "docs_"}),
    ("docs prod", "mcp__docs_prod__get", {"docs prod"}, {"docs prod"}),
    ("shop", "mcp__docs__get", {"shop"}, {"shop", "docs"}),  # the client and the name disagree
    ("", "functions.mcp__shop__x", set(), {"shop"}),
    ("", "functions__mcp__shop__x", set(), {"shop"}),
    ("", "shop_x", set(), {"shop"}),  # opencode, Gemini CLI, prefixes of LangChain and Pydantic AI
    ("", "mcp_shop_x", set(), {"shop"}),
    ("", "shop-x", set(), {"shop"}),  # GitHub Copilot
    ("", "shop__x", set(), {"shop"}),  # Cline, Goose
    ("", "shop__prod__x", set(), {"shop", "shop__prod"}),
    ("", "MCP:shop:x", set(), {"shop"}),  # Cursor
    ("", "shop.x", set(), {"shop"}),
    ("", "Shop_x", set(), {"shop"}),
    ("", "web_fetch", set(), set()),  # a program's own tool
    ("builtin", "Read", {"builtin"}, {"builtin"}),
])  # fmt: skip
def test_to_allow_the_server_must_be_certain_and_to_deny_any_reading_is_enough(
    source: str, tool: str, allowed: set[str], denied: set[str]
) -> None:
    servers = {"docs", "docs_", "docs__prod", "docs prod", "shop", "shop__prod", "web", "builtin"}

    def list_matches(effect: str) -> set[str]:
        return {server for server in servers if says(effect, ["*"], tool, match_source=server, source=source)}

    assert list_matches("allow") == allowed
    assert list_matches("deny") == denied
    assert list_matches("ask") == list_matches("deny")


@loop_over("pattern, source, tool, is_allowed", [
    ("mcp__docs__*", "docs", "mcp__docs__get", True), ("mcp__docs__*", "docs", "get", True),
    ("mcp__docs__*", "", "mcp__docs__get", True), ("mcp__docs__*", "docs__prod", "mcp__docs__prod__get", False),
    ("mcp__docs__*", "", "mcp__docs__prod__get", False),
    ("mcp__docs__prod__*", "docs__prod", "mcp__docs__prod__get", True),
    ("mcp__docs__prod__*", "docs", "mcp__docs__prod__get", False),
    ("mcp__docs*", "docs__prod", "mcp__docs__prod__get", True), ("*", "docs__prod", "mcp__docs__prod__get", True),
    ("mcp__*", "", "mcp__docs__prod__get", True), ("mcp__docs__prod__get", "", "mcp__docs__prod__get", True),
    ("shop_*", "", "shop_get", True),
])  # fmt: skip
def test_a_pattern_about_one_server_allows_no_tool_of_another(
    pattern: str, source: str, tool: str, is_allowed: bool
) -> None:
    assert says("allow", pattern, tool, source=source) is is_allowed


def test_a_rule_that_denies_every_server_denies_no_own_tool() -> None:
    assert not says("deny", "*", "get_weather", match_source="*")
    assert says("deny", "*", "mcp__docs__prod__get", match_source="*")
