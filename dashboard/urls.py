"""Every address for people and programs."""

from django.contrib import admin
from django.urls import include, path, register_converter
from django.views.decorators.http import require_GET
from django.views.generic import RedirectView

from dashboard import web_app
from dashboard.accounts import sign_in_views, token_views
from dashboard.accounts import views as accounts
from dashboard.accounts.access import allow_anyone, needs
from dashboard.audit import views as audit
from dashboard.help import views as help_pages
from dashboard.inbox import batch, history, vote_api
from dashboard.inbox import views as inbox
from dashboard.notifications import push_views
from dashboard.notifications import views as notifications
from dashboard.policy import api as policy_api
from dashboard.policy import draft_views, dry_run, emergency, explanation, grants
from dashboard.policy import views as policy
from dashboard.policy.record import views as record
from dashboard.policy.reviewers import views as reviewers
from dashboard.policy.rules import views as rules
from dashboard.policy.simulation import api as simulation
from dashboard.policy.simulation import api as simulation_api
from dashboard.policy.text import editor as text_editor
from dashboard.runs import call_statistics, call_text, call_views, export, now_page, saved_filters
from dashboard.runs import views as runs
from dashboard.sources import connect
from dashboard.sources import views as sources
from dashboard.url_helpers import NumberConverter

register_converter(NumberConverter, "number")

RUN_PAGES = [
    path("", now_page.show_now, name="now"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<path:name>/", runs.run, name="run"),
    path("export/runs/<number:run>/calls.jsonl", export.export_json_lines, name="export-jsonl"),
    path("export/runs/<number:run>/calls.csv", export.export_csv, name="export-csv"),
    path("export/runs/<number:run>/run.html", export.export_html, name="export-html"),
    path("calls/", call_views.calls, name="calls"),
    path("filters/", saved_filters.save_filter, name="filter-save"),
    path("filters/<number:pk>/rename", saved_filters.rename_filter, name="filter-rename"),
    path("filters/<number:pk>/delete", saved_filters.delete_filter, name="filter-delete"),
    path("calls/tools/", call_statistics.tools, name="tools"),
    path("calls/agents/", call_statistics.agents, name="agents"),
    path("calls/<number:run>-<number:ordinal>/", call_views.call, name="call"),
    path("calls/<number:run>-<number:ordinal>/card/", call_views.show_card, name="call-card"),
    path(
        "calls/<number:run>-<number:ordinal>/pictures/<str:part>/<int:number>/", call_views.picture, name="call-picture"
    ),
    path("calls/<number:run>-<number:ordinal>/call.md", call_text.show_markdown, name="call-markdown"),
    path("calls/<number:run>-<number:ordinal>/call.json", call_text.show_json, name="call-json"),
    path("calls/<number:run>-<number:ordinal>/call.sh", call_text.show_curl, name="call-curl"),
    path("calls/<number:run>-<number:ordinal>/why/", explanation.explain_call, name="why"),
    path("calls/<number:run>-<number:ordinal>/rule/", explanation.suggest_rule, name="rule-from-call"),
    path("calls/<number:run>-<number:ordinal>/covered/", record.covered, name="covered"),
]

SIGNING = [
    path("login/", allow_anyone(sign_in_views.SignInView.as_view()), name="login"),
    path("login/link/<str:token>/", sign_in_views.use_link, name="login-link"),
    path("logout/", allow_anyone(sign_in_views.SignOutView.as_view()), name="logout"),
]

ANSWERING = [
    path("approvals/", inbox.inbox, name="approvals"),
    path("approvals/history/", history.history, name="approvals-history"),
    path("approvals/votes", batch.votes, name="votes"),
    path("approvals/<str:pk>/vote", inbox.vote, name="vote"),
    path("approvals/<str:pk>/undo", inbox.undo, name="undo"),
    path("api/v1/approvals/votes", batch.vote_by_json),
    path("api/v1/approvals/<str:pk>/vote", vote_api.vote),
    path("api/v1/approvals/<str:pk>/undo", vote_api.undo),
    path("approvals/<str:pk>/", inbox.approval, name="approval"),
    path("calls/<number:run>-<number:ordinal>/settle", call_views.settle, name="settle"),
    path("calls/<number:run>-<number:ordinal>/refusal", call_views.answer_refusal, name="refusal"),
]

POLICY = [
    path("policy/", policy.policy, name="policy"),
    path("policy/suggestions/", record.suggestions, name="policy-suggestions"),
    path("policy/suggestions/accept/", record.accept_suggestion, name="policy-suggestion-accept"),
    path("policy/suggestions/undo/", record.undo_suggestion, name="policy-suggestion-undo"),
    path("policy/reviewers/", reviewers.reviewers, name="policy-reviewers"),
    path("policy/reviewers/<str:name>/", reviewers.change_reviewer, name="policy-reviewer"),
    path("policy/reviewers/<str:name>/reset/", reviewers.end_pause, name="policy-reviewer-reset"),
    path("policy/try/", dry_run.show_dry_run, name="policy-try"),
    path("policy/export/", policy.export, name="policy-export"),
    path("policy/import/", draft_views.import_document, name="policy-import"),
    path("policy/draft/", require_GET(needs()(RedirectView.as_view(pattern_name="policy")))),
    path("policy/draft/default/", draft_views.set_default, name="policy-default"),
    path("policy/draft/activate/", draft_views.activate, name="policy-activate"),
    path("policy/draft/text/", text_editor.edit_text, name="policy-text"),
    path("policy/draft/simulate/", simulation.begin_simulation, name="policy-simulate"),
    path("policy/simulations/<str:pk>/", simulation.simulation, name="policy-simulation"),
    path("policy/simulations/<str:pk>/cancel/", simulation.cancel_simulation, name="policy-simulation-cancel"),
    path("policy/packs/<slug:name>/", draft_views.take_pack, name="policy-pack"),
    path("policy/rules/new/", rules.new_rule, name="rule-new"),
    path("policy/rules/<str:rule_id>/", rules.edit_rule, name="rule"),
    path("policy/rules/<str:rule_id>/switch/", rules.switch_rule, name="rule-switch"),
    path("policy/rules/<str:rule_id>/effect/", rules.set_effect, name="rule-effect"),
    path("policy/rules/<str:rule_id>/restore/", rules.restore_rule, name="rule-restore"),
    path("policy/rules/<str:rule_id>/remove/", rules.remove_rule, name="rule-remove"),
    path("policy/versions/", policy.versions, name="policy-versions"),
    path("policy/versions/<number:number>/", policy.version, name="policy-version"),
    path("policy/versions/<number:number>/copy/", draft_views.copy_version, name="policy-copy"),
    path("api/v1/policy/draft", policy_api.draft),
    path("api/v1/policy/validate", policy_api.validate),
    path("api/v1/policy/simulate", simulation_api.simulate),
    path("api/v1/policy/activate", policy_api.activate),
    path("api/v1/policy/versions", policy_api.versions),
]

GRANTING = [
    path("policy/grants/", grants.grants, name="grants"),
    path("policy/grants/<str:pk>/revoke/", grants.revoke, name="grant-revoke"),
    path("api/v1/grants", grants.grants_api),
    path("api/v1/grants/<str:pk>", grants.grants_api),
]

EMERGENCY = [
    path("settings/killswitch/", emergency.killswitch, name="killswitch"),
    path("settings/breakglass/", emergency.breakglass, name="breakglass"),
    path("api/v1/killswitch", emergency.killswitch_api),
    path("api/v1/breakglass", emergency.breakglass_api),
]

CONNECTING = [
    path("sources/", sources.sources, name="sources"),
    path("sources/unknown-frames/", sources.unknown_frames, name="unknown-frames"),
    path("sources/keys/", sources.make_key, name="key-new"),
    path("sources/keys/<number:pk>/revoke/", sources.revoke_key, name="key-revoke"),
    path("sources/keys/<number:pk>/rotate/", sources.rotate_key, name="key-rotate"),
    path("sources/<number:pk>/", sources.source, name="source"),
    path("sources/<number:pk>/owner/", sources.set_owner, name="source-owner"),
    path("sources/tools/<number:pk>/accept/", sources.accept_tool, name="tool-accept"),
    path("connect/", connect.connect, name="connect"),
    path("connect/<slug:slug>/", connect.connect, name="connect-way"),
]

AUDIT = [
    path("settings/audit/", audit.audit, name="audit"),
    path("settings/audit/verify/", audit.verify_trail, name="audit-verify"),
    path("api/v1/audit", audit.list_rows),
    path("settings/audit/export/", audit.export_trail, name="audit-export"),
    path("calls/<str:public_id>/reveal", audit.reveal_call, name="reveal"),
]

NOTIFYING = [
    path("settings/notify/", notifications.notify, name="notify"),
    path("settings/notify/<number:pk>/", notifications.webhook, name="notify-one"),
    path("settings/notify/<number:pk>/<str:action>/", notifications.change_webhook, name="notify-act"),
    path("settings/notify/deliveries/<number:pk>/", notifications.delivery, name="notify-delivery"),
    path("settings/notify/deliveries/<number:pk>/again/", notifications.resend_delivery, name="notify-again"),
    path("settings/push/", push_views.browsers, name="push"),
    path("settings/push/<number:pk>/<str:action>/", push_views.change_browser, name="push-act"),
]

PEOPLE = [
    path("settings/", accounts.settings_page, name="settings"),
    path("settings/people/", accounts.people, name="people"),
    path("settings/people/<number:pk>/", accounts.person, name="person"),
    path("settings/people/<number:pk>/<str:action>/", accounts.change_access, name="person-act"),
    path("settings/people/<number:pk>/tokens/revoke/", token_views.revoke_all_tokens, name="person-tokens"),
    path("settings/password/", accounts.password, name="password"),
    path("settings/tokens/", token_views.tokens, name="tokens"),
    path("settings/tokens/<number:pk>/revoke/", token_views.revoke_token, name="token-revoke"),
]

HELP = [
    path("help/", help_pages.index, name="help"),
    path("help/<slug:name>/", help_pages.document, name="help-document"),
    path("api/v1/openapi.json", help_pages.openapi, name="openapi"),
    path("api/v1/policy/schema.json", help_pages.policy_schema, name="policy-schema"),
]

INSTALLING = [
    path("manifest.webmanifest", web_app.manifest, name="manifest"),
    path("service-worker.js", web_app.service_worker, name="service-worker"),
    path("offline/", web_app.offline, name="offline"),
]

urlpatterns = [
    *INSTALLING,
    *HELP,
    *PEOPLE,
    *NOTIFYING,
    *EMERGENCY,
    *GRANTING,
    *RUN_PAGES,
    *SIGNING,
    *AUDIT,
    *ANSWERING,
    *POLICY,
    *CONNECTING,
    path("", include("toolcards.transports.urls")),  # machines: the API, health, metrics
    path("admin/login/", sign_in_views.redirect_to_sign_in),  # one place checks passwords
    path("admin/password_change/", allow_anyone(RedirectView.as_view(pattern_name="password"))),
    path("admin/", admin.site.urls),
]

handler400 = "dashboard.middleware.answer_bad_request"
handler500 = "dashboard.middleware.broken"
