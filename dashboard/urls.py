"""Every address that people and programs use."""

from django.contrib import admin
from django.urls import include, path, register_converter
from django.views.generic import RedirectView

from dashboard.addresses import Number
from dashboard.views import (
    audit,
    batch,
    calling,
    calls,
    connect,
    emergency,
    grants,
    history,
    inbox,
    notify,
    now,
    people,
    policies,
    policy_api,
    policy_text,
    runs,
    settling,
    signing,
    simulate_api,
    simulating,
    sources,
    trying,
)

register_converter(Number, "number")

LOOKING = [
    path("", now.now, name="now"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<path:name>/", runs.run, name="run"),
    path("calls/", calls.calls, name="calls"),
    path("calls/<number:run>-<number:ordinal>/", calls.call, name="call"),
    path("calls/<number:run>-<number:ordinal>/why/", calling.why, name="why"),
    path("calls/<number:run>-<number:ordinal>/rule/", calling.rule, name="rule-from-call"),
]

SIGNING = [
    path("login/", signing.SignIn.as_view(), name="login"),
    path("login/link/<str:token>/", signing.use_link, name="login-link"),
    path("logout/", signing.SignOut.as_view(), name="logout"),
]

ANSWERING = [
    path("approvals/", inbox.inbox, name="approvals"),
    path("approvals/history/", history.history, name="approvals-history"),
    path("approvals/votes", batch.votes, name="votes"),
    path("approvals/<str:pk>/vote", inbox.vote, name="vote"),
    path("approvals/<str:pk>/undo", inbox.undo, name="undo"),
    path("approvals/<str:pk>/", inbox.one, name="approval"),
    path("calls/<number:run>-<number:ordinal>/settle", settling.settle, name="settle"),
]

POLICY = [
    path("policy/", policies.policy, name="policy"),
    path("policy/try/", trying.try_call, name="policy-try"),
    path("policy/export/", policies.export, name="policy-export"),
    path("policy/import/", policies.import_document, name="policy-import"),
    path("policy/draft/", policies.draft, name="policy-draft"),
    path("policy/draft/default/", policies.set_default, name="policy-default"),
    path("policy/draft/activate/", policies.activate, name="policy-activate"),
    path("policy/draft/text/", policy_text.text, name="policy-text"),
    path("policy/draft/simulate/", simulating.begin, name="policy-simulate"),
    path("policy/simulations/<str:pk>/", simulating.simulation, name="policy-simulation"),
    path("policy/simulations/<str:pk>/cancel/", simulating.cancel, name="policy-simulation-cancel"),
    path("policy/packs/<slug:name>/", policies.take_pack, name="policy-pack"),
    path("policy/rules/new/", policies.new_rule, name="rule-new"),
    path("policy/rules/<str:rule_id>/", policies.edit_rule, name="rule"),
    path("policy/rules/<str:rule_id>/switch/", policies.switch_rule, name="rule-switch"),
    path("policy/rules/<str:rule_id>/remove/", policies.remove_rule, name="rule-remove"),
    path("policy/versions/", policies.versions, name="policy-versions"),
    path("policy/versions/<number:number>/", policies.version, name="policy-version"),
    path("policy/versions/<number:number>/copy/", policies.copy_version, name="policy-copy"),
    path("api/v1/policy/draft", policy_api.draft),
    path("api/v1/policy/validate", policy_api.validate),
    path("api/v1/policy/simulate", simulate_api.simulate),
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
    path("sources/<number:pk>/", sources.source, name="source"),
    path("sources/<number:pk>/owner/", sources.set_owner, name="source-owner"),
    path("sources/tools/<number:pk>/accept/", sources.accept_tool, name="tool-accept"),
    path("connect/", connect.connect, name="connect"),
    path("connect/<slug:slug>/", connect.connect, name="connect-way"),
]

AUDIT = [
    path("settings/audit/", audit.audit, name="audit"),
    path("settings/audit/verify/", audit.check, name="audit-verify"),
    path("settings/audit/export/", audit.export, name="audit-export"),
    path("calls/<str:public_id>/reveal", audit.reveal, name="reveal"),
]

NOTIFYING = [
    path("settings/notify/", notify.notify, name="notify"),
    path("settings/notify/<number:pk>/", notify.webhook, name="notify-one"),
    path("settings/notify/<number:pk>/<str:what>/", notify.act, name="notify-act"),
    path("settings/notify/deliveries/<number:pk>/", notify.delivery, name="notify-delivery"),
    path("settings/notify/deliveries/<number:pk>/again/", notify.again, name="notify-again"),
]

PEOPLE = [
    path("settings/people/", people.people, name="people"),
    path("settings/people/<number:pk>/", people.person, name="person"),
    path("settings/people/<number:pk>/<str:what>/", people.act, name="person-act"),
    path("settings/password/", people.password, name="password"),
]

urlpatterns = [
    *PEOPLE,
    *NOTIFYING,
    *EMERGENCY,
    *GRANTING,
    *LOOKING,
    *SIGNING,
    *AUDIT,
    *ANSWERING,
    *POLICY,
    *CONNECTING,
    path("", include("toolcards.transports.urls")),  # machines: the API, health, metrics
    path("admin/login/", signing.to_sign_in),  # one place checks passwords
    path("admin/password_change/", RedirectView.as_view(pattern_name="password")),
    path("admin/", admin.site.urls),
]

handler500 = "dashboard.middleware.broken"
