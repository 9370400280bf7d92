"""Tools that really exist, by program and server: starter policies ask about each that changes something.

A row is the name as an agent sends it, with the server where the wire tells it apart, and the kind that policy sees.
"""

import pytest

from tests.support.tables import loop_over
from toolcards.client.common import tool_kinds
from toolcards.client.common.tool_kinds import DANGER, KINDS, find_kinds, is_known_tool
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS

POLICIES = {name: parse(pack.document) for name, pack in PRESETS.items()}
LOOKS = {kind for kind, rank in DANGER.items() if rank <= DANGER["fetch"]}

# program or server: kind: names. A server's tools come as `mcp__server__tool`, and with the server told apart.
CHANGING = {
    "claude-code": {"edit": "Write Edit MultiEdit NotebookEdit", "execute": "Bash KillShell SlashCommand CronCreate",
                    "other": "Skill", "switch_mode": "ExitPlanMode"},
    "opencode": {"edit": "write edit patch apply_patch", "execute": "bash batch", "switch_mode": "plan_exit"},
    "codex": {"edit": "apply_patch", "execute": "shell local_shell exec_command write_stdin container.exec"},
    "gemini-cli": {"edit": "write_file replace save_memory", "execute": "run_shell_command"},
    "cline": {"edit": "write_to_file replace_in_file new_rule",
              "execute": "execute_command browser_action use_mcp_tool attempt_completion", "other": "new_task"},
    "roo-code": {"edit": "apply_diff insert_content search_and_replace generate_image", "execute": "run_slash_command",
                 "switch_mode": "switch_mode"},
    "cursor": {"edit": "edit_file search_replace reapply edit_notebook update_memory StrReplace",
               "delete": "delete_file Delete", "execute": "run_terminal_cmd run_terminal_command Shell"},
    "windsurf": {"edit": "write_to_file replace_file_content multi_edit propose_code create_memory",
                 "execute": "run_command send_command_input deploy_web_app browser_preview"},
    "goose": {"edit": "developer__text_editor memory__remember_memory", "delete": "memory__remove_memory_category",
              "execute": "developer__shell computercontroller__automation_script platform__manage_schedule"},
    "zed": {"edit": "edit_file create_directory copy_path save_file", "delete": "delete_path", "move": "move_path",
            "execute": "terminal open"},
    "continue": {"edit": "create_new_file edit_existing_file single_find_and_replace create_rule_block",
                 "execute": "run_terminal_command"},
    "amazon-q": {"edit": "fs_write fsWrite fsReplace knowledge", "delete": "deleteFile",
                 "execute": "execute_bash executeBash use_aws report_issue"},
    "github-copilot": {"edit": "create_file insert_edit_into_file replace_string_in_file edit_notebook_file",
                       "execute": "run_in_terminal run_notebook_cell install_extension run_vscode_command runTests"},
    "langchain": {"edit": "write_file copy_file create_gmail_draft", "delete": "file_delete requests_delete",
                  "move": "move_file", "execute": "terminal python_repl sql_db_query requests_post requests_put "
                  "send_gmail_message send_message click_element navigate_browser"},
    "openai": {"execute": "code_interpreter computer_use_preview local_shell shell", "edit": "apply_patch"},
    "anthropic": {"edit": "str_replace_editor str_replace_based_edit_tool memory",
                  "execute": "bash computer code_execution"},
    "mcp filesystem": {"edit": "write_file edit_file create_directory", "move": "move_file"},
    "mcp git": {"edit": "git_add git_commit git_reset git_checkout git_create_branch", "execute": "git_push"},
    "mcp memory": {"edit": "create_entities add_observations", "delete": "delete_entities delete_relations"},
    "mcp github": {"edit": "create_issue update_issue add_issue_comment push_files create_or_update_file create_branch "
                   "create_pull_request fork_repository create_repository issue_write", "delete": "delete_file",
                   "execute": "merge_pull_request run_workflow cancel_workflow_run"},
    "mcp gitlab": {"edit": "create_merge_request create_note push_files",
                   "execute": "merge_merge_request create_pipeline"},
    "mcp slack": {"execute": "slack_post_message slack_reply_to_thread conversations_add_message",
                  "edit": "slack_add_reaction"},
    "mcp stripe": {"edit": "create_customer create_payment_link create_invoice", "delete": "cancel_subscription",
                   "execute": "create_refund finalize_invoice"},
    "mcp playwright": {"execute": "browser_click browser_type browser_evaluate browser_file_upload browser_navigate "
                       "browser_press_key browser_run_code browser_tabs browser_fill_form browser_handle_dialog"},
    "mcp chrome-devtools": {"edit": "take_screenshot take_snapshot",  # they write the file that they are given
                            "execute": "click fill fill_form evaluate_script navigate_page upload_file drag new_page"},
    "mcp puppeteer": {"execute": "puppeteer_navigate puppeteer_click puppeteer_evaluate puppeteer_fill"},
    "mcp postgres": {"execute": "query execute_sql pg_execute_mutation"},
    "mcp sqlite": {"edit": "create_table append_insight", "execute": "write_query"},
    "mcp kubernetes": {"edit": "kubectl_apply kubectl_create kubectl_patch kubectl_scale resources_create_or_update",
                       "delete": "kubectl_delete pods_delete resources_delete",
                       "execute": "kubectl_generic exec_in_pod pods_exec"},
    "mcp terraform": {"edit": "create_workspace create_workspace_variable attach_policy_set_to_workspaces",
                      "delete": "delete_workspace_safely terraform_destroy",
                      "execute": "create_run action_run ExecuteTerraformCommand terraform_apply"},
    "mcp notion": {"edit": "API-post-page API-patch-page notion-update-page", "delete": "API-delete-a-block",
                   "move": "notion-move-pages"},
    "mcp linear": {"edit": "create_issue update_issue create_comment", "delete": "delete_comment"},
    "mcp atlassian": {"edit": "createJiraIssue editJiraIssue updateConfluencePage jira_create_issue",
                      "delete": "jira_delete_issue confluence_delete_page"},
    "mcp sentry": {"edit": "update_issue create_project create_dsn", "execute": "use_sentry"},
    "mcp aws": {"execute": "call_aws", "delete": "delete_resource"},
    "mcp docker": {"execute": "run_container stop_container build_image push_image",
                   "delete": "remove_container remove_volume"},
    "mcp gmail": {"execute": "send_email", "edit": "draft_email modify_email download_attachment",
                  "delete": "delete_email"},
    "mcp google-calendar": {"edit": "create-event update-event", "delete": "delete-event"},
    "mcp google-drive": {"edit": "gsheets_update_cell"},
    "mcp jetbrains": {"edit": "replace_text_in_file create_new_file rename_refactoring",
                      "execute": "execute_terminal_command execute_run_configuration build_project"},
    "mcp supabase": {"execute": "execute_sql apply_migration deploy_edge_function", "delete": "delete_branch"},
}  # fmt: skip
LOOKING = {
    "claude-code": {"read": "Read NotebookRead BashOutput", "search": "Grep Glob WebSearch", "think": "TodoWrite Task",
                    "fetch": "WebFetch"},
    "opencode": {"read": "read list", "search": "grep glob", "fetch": "webfetch"},
    "codex": {"read": "read_file view_image list_dir", "think": "update_plan", "search": "grep_files web_search"},
    "gemini-cli": {"read": "read_many_files list_directory", "search": "search_file_content google_web_search"},
    "cline": {"read": "list_files list_code_definition_names", "search": "search_files",
              "think": "ask_followup_question"},
    "cursor": {"search": "codebase_search grep_search file_search", "read": "read_lints fetch_rules"},
    "windsurf": {"read": "view_file view_code_item command_status", "search": "find_by_name",
                 "fetch": "read_url_content"},
    "zed": {"search": "find_path", "read": "diagnostics", "think": "thinking now"},
    "amazon-q": {"read": "fs_read fsRead", "think": "thinking"},
    "github-copilot": {"search": "semantic_search list_code_usages", "read": "get_errors", "fetch": "fetch_webpage"},
    "langchain": {"read": "sql_db_schema sql_db_list_tables", "search": "wikipedia tavily_search",
                  "fetch": "requests_get"},
    "mcp filesystem": {"read": "read_text_file directory_tree list_allowed_directories", "search": "search_files"},
    "mcp git": {"read": "git_status git_diff git_log git_show"},
    "mcp github": {"read": "get_issue list_issues get_pull_request get_file_contents get_me", "search": "search_code"},
    "mcp gitlab": {"read": "get_merge_request list_pipelines"},
    "mcp slack": {"read": "slack_list_channels slack_get_channel_history conversations_history"},
    "mcp playwright": {"read": "browser_snapshot browser_console_messages browser_network_requests"},
    "mcp chrome-devtools": {"read": "list_pages list_console_messages list_network_requests"},
    "mcp sqlite": {"read": "read_query list_tables describe_table"},
    "mcp kubernetes": {"read": "kubectl_get kubectl_logs pods_list resources_get"},
    "mcp terraform": {"read": "get_provider_details list_workspaces", "search": "search_modules"},
    "mcp memory": {"read": "read_graph open_nodes", "search": "search_nodes"},
    "mcp sequential-thinking": {"think": "sequentialthinking"},
    "mcp fetch": {"fetch": "fetch"},
    "mcp notion": {"search": "API-post-search notion-search", "fetch": "notion-fetch"},
    "mcp linear": {"read": "list_issues get_issue"},
    "mcp atlassian": {"read": "getJiraIssue", "search": "searchJiraIssuesUsingJql jira_search"},
    "mcp sentry": {"read": "get_issue_details whoami", "search": "search_issues"},
    "mcp brave-search": {"search": "brave_web_search"},
    "mcp context7": {"search": "resolve-library-id", "read": "get-library-docs"},
    "mcp gmail": {"search": "search_emails", "read": "read_email"},
    "mcp google-calendar": {"read": "list-events"},
    "mcp stripe": {"read": "list_customers retrieve_balance"},
}  # fmt: skip


def rows(table):
    for place, kinds in table.items():
        for kind, names in kinds.items():
            for name in names.split():
                server = place.partition("mcp ")[2]
                yield (f"mcp__{server}__{name}" if server else name), server and "", kind
                if server:
                    yield name, server, kind
                    yield f"{server}_{name}", "", kind  # as opencode joins them


CHANGES, LOOKINGS = list(rows(CHANGING)), list(rows(LOOKING))


def effect(policy, tool, server="", **more):
    return decide(
        POLICIES[policy],
        PolicyRequest.for_tool(tool, source=server, known=is_known_tool(tool, server), input={}, **more),
    ).effect


def test_there_are_enough_of_them():
    assert len({name for name, server, _ in CHANGES if not server}) >= 150
    assert len({name for name, server, _ in LOOKINGS if not server}) >= 80


@loop_over(("tool", "server", "kind"), CHANGES)
def test_policies_that_ask_about_changes_ask_about_what_changes(tool, server, kind):
    assert find_kinds(tool, server) == (kind,)
    for policy in ("ask-on-writes", "locked-down"):
        assert effect(policy, tool, server) is not Effect.ALLOW, policy


@loop_over(("tool", "server", "kind"), LOOKINGS)
def test_tools_that_are_known_to_look_run_unasked(tool, server, kind):
    assert find_kinds(tool, server) == (kind,)
    assert effect("ask-on-writes", tool, server) is Effect.ALLOW
    assert effect("locked-down", tool, server) is (Effect.ASK if kind == "fetch" else Effect.ALLOW)


# ---------------------------------------------------------------- unknown tools

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


@loop_over("tool", [name for name, server, _ in CHANGES if not server and not name.startswith("mcp__")])
def test_a_look_alike_or_a_strange_server_lowers_no_risk(tool):
    for other in (tool.upper(), f" {tool}", f"{tool}\u200b", tool.replace("e", "\u0435", 1), f"mcp__evil__{tool}"):
        known = tool_kinds.find_kind(tool)
        assert DANGER[tool_kinds.find_kind(other)] >= min(DANGER[known], DANGER["other"])
        assert not set(find_kinds(other)) & LOOKS or is_known_tool(other)


@pytest.mark.parametrize(("claimed", "kinds"), [
    ("read", ("read",)), ("think", ("read",)), ("nonsense", ("read",)), ("", ("read",)), ("execute", ("execute",
    "read")),
    ("delete", ("delete", "read")), ("fetch", ("fetch", "read")),
])  # fmt: skip
def test_what_an_agent_says_of_its_tool_adds_doubt_only(claimed, kinds):
    assert find_kinds("Read", claimed_kind=claimed) == kinds
    for kind in KINDS:
        assert "other" in find_kinds("frob", claimed_kind=kind)
        assert DANGER[find_kinds("frob", claimed_kind=kind)[0]] >= DANGER["other"]


@pytest.mark.parametrize(("tool", "kinds"), [
    ("BASH", ("execute", "other")), ("mcp__evil__bash", ("execute", "other")), ("b\u0430sh", ("execute", "other")),
    ("x.Shell ", ("execute", "other")), ("DeleteFile", ("delete", "other")), ("drop_it", ("delete", "other")),
    ("create_and_run", ("execute", "edit", "other")), ("d\u0435lete_it", ("delete", "other")), ("frob", ("other",)),
    ("running", ("other",)), ("get_weather", ("other",)),
])  # fmt: skip
def test_a_name_that_looks_dangerous_is_of_that_kind_too(tool, kinds):
    assert find_kinds(tool) == kinds


def test_a_program_has_only_its_own_tools():
    assert find_kinds("view", program="claude-code") == ("other",) and find_kinds("view") == ("read",)
    assert find_kinds("create", program="github-copilot") == ("edit",)
    assert find_kinds("mcp__github__get_issue", program="claude-code") == ("read",)
    assert find_kinds("github_get_issue", program="opencode") == ("read",)


def test_a_rule_that_denies_a_kind_holds_for_every_kind_that_a_tool_may_be():
    for effect_, tool, claimed, kind, expected in [
        ("deny", "Read", "execute", "read", "deny"), ("deny", "Read", "execute", "execute", "deny"),
        ("allow", "Read", "execute", ["read"], "ask"), ("allow", "Read", "execute", ["execute"], "ask"),
        ("allow", "Read", "execute", ["read", "execute"], "allow"), ("deny", "run_it", "", "other", "deny"),
        ("deny", "run_it", "", "execute", "deny"), ("allow", "run_it", "", "execute", "ask"),
        ("allow", "run_it", "", ["execute", "other"], "allow"), ("allow", "Bash", "", "execute", "allow"),
    ]:  # fmt: skip
        policy = parse({"default": "ask", "rules": [{"effect": effect_, "match": {"kind": kind}}]})
        request = PolicyRequest.for_tool(tool, claimed_kind=claimed)
        assert decide(policy, request).effect == expected, (effect_, tool, kind)


def test_the_catalogue_is_in_order():
    data = tool_kinds.tomllib.loads(tool_kinds._DATA.read_text())
    for groups in (*data["programs"].values(), *data["servers"].values()):
        assert set(groups) <= {*KINDS, "names", "plain"}
        names = [name for kind in KINDS for name in groups.get(kind, "").split()]
        assert len(names) == len(set(names))


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
