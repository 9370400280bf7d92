"""Tools of real programs and servers: those that change something, those that look, and made-up ones."""

from __future__ import annotations

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
READING_TOOLS = {
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


CHANGES, LOOKINGS = list(rows(CHANGING)), list(rows(READING_TOOLS))
