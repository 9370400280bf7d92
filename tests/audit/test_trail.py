"""The audit trail: written with the act or not at all, and every kind of tampering shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client

from dashboard.policy import dry_run
from tests.support.audit_trail import acts, read_last
from toolcards import gate
from toolcards.audit import anchor
from toolcards.audit import verification as verifying
from toolcards.audit.rows import AuditRow
from toolcards.audit.trail import Act, write_acts
from toolcards.audit.verification import verify
from toolcards.core.policy.decision import decide
from toolcards.core.policy.language import document
from toolcards.gate import policy_draft
from toolcards.gate.agents import run_commands
from toolcards.gate.writer import group_commit
from toolcards.models import AgentKey, Approval, DraftRule, Source
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db
SECRET = "Zx9vK3qLm7pR"


# ---------------------------------------------------------------- what is written
def test_an_approval_its_vote_and_its_claim_are_recorded(a_call: Any) -> None:
    call = a_call("approval-responded")
    assert acts()[-3:] == ["decision", "vote", "approval.approved"]
    vote = read_last("vote")
    assert (vote.actor_kind, vote.actor, vote.call, vote.run) == ("human", "ann", call.public_id, "run-1")
    assert vote.details["args_sha256"] == call.as_card().approval.args_sha256
    assert vote.approval == Approval.objects.get(call=call).pk
    assert read_last("decision").details["effect"] == "ask"


def test_a_denial_is_recorded_with_its_rule(policy: Any, source: Source) -> None:
    policy({"default": "deny"})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={"command": "ls"}))
    row = read_last("decision")
    assert row.details["effect"] == "deny" and row.details["tool"] == "bash" and row.actor_kind == "default"


def test_keys_policies_and_switches_are_recorded(policy: Any, key: AgentKey) -> None:
    policy({"default": "ask"})
    AgentKey.objects.filter(pk=key.pk).update(revoked_at="2026-01-01T00:00:00Z")
    assert {"key.created", "policy.activated", "key.revoked"} <= set(acts())
    assert read_last("policy.activated").actor == "a test"


def test_using_a_key_is_not_recorded(key: AgentKey) -> None:
    before = acts()
    AgentKey.objects.filter(pk=key.pk).update(used_at="2026-01-01T00:00:00Z")
    assert acts() == before


def test_a_key_that_is_revoked_on_its_page_is_recorded(signed_in: Any, key: AgentKey) -> None:
    assert signed_in("admin").post(f"/sources/keys/{key.pk}/revoke/").status_code == 302
    assert (read_last("key.revoked").actor_kind, read_last("key.revoked").actor) == ("human", "a-admin")


def test_every_edit_of_the_draft_is_recorded(policy: Any, signed_in: Any) -> None:
    policy({"default": "ask"})
    admin = signed_in("admin")
    rule = {"id": "r", "effect": "ask", "match": {"tool": ["bash"]}}
    assert admin.post("/policy/rules/new/", {"effect": "ask", "tool": "bash", "reason": "why"}).status_code == 302
    (row,) = DraftRule.objects.all()
    added = read_last("policy.draft.added")
    assert (added.actor_kind, added.actor, added.details["rule"]) == ("human", "a-admin", row.rule_id)
    policy_draft.save_rule(rule | {"effect": "deny"}, author="ann", instead_of=row.rule_id)
    changed = read_last("policy.draft.changed").details
    assert (changed["rule"], changed["before"], changed["was"]) == ("r", row.rule_id, added.details["sha256"])
    for to in ("off", "off", "on"):
        admin.post("/policy/rules/r/switch/", {"to": to})
    assert [row.details["on"] for row in AuditRow.objects.filter(act="policy.draft.switched")] == [False, True]
    for to in ("deny", "deny"):
        admin.post("/policy/draft/default/", {"default": to})
    assert [row.details["default"]["is"] for row in AuditRow.objects.filter(act="policy.draft.head")] == ["deny"]
    admin.post("/policy/rules/r/remove/")
    policy_draft.save_rule(rule, author="ann")
    admin.post(f"/admin/toolcards/draftrule/{DraftRule.objects.get().pk}/delete/", {"post": "yes"})
    policy_draft.save_rule(rule, author="ann")
    chosen = {"action": "delete_selected", "_selected_action": DraftRule.objects.get().pk, "post": "yes"}
    admin.post("/admin/toolcards/draftrule/", chosen)
    removed = AuditRow.objects.filter(act="policy.draft.removed")
    assert [(row.actor, row.details["rule"]) for row in removed] == [("a-admin", "r")] * 3
    assert not DraftRule.objects.exists() and not policy_draft.remove_rule("r") and verify().fault == ""


def test_an_edit_of_the_draft_that_fails_leaves_no_row(policy: Any) -> None:
    before = acts()
    with pytest.raises(document.PolicyError):
        policy_draft.save_rule({"effect": "ask", "match": {"tools": ["bash"]}}, author="ann")
    assert acts() == before and not policy_draft.set_rule_enabled("none", True, author="ann") and acts() == before


def test_an_unused_permit_of_a_rule_is_recorded(policy: Any, source: Source) -> None:
    policy({"default": "allow"})
    for run in ("lapses", "ends"):
        gate.decide(source, gate.DecisionRequest(run=run, call_id="c", tool="bash", args={}))
    with allow_log_writes():
        Approval.objects.filter(run__name="lapses").update(permit_expires_at=1.0)
    gate.sweep()
    gate.sweep()
    group_commit.execute(run_commands.EndRun(source, "ends", "success", ""))
    rows = [(row.act, row.actor_kind, row.run) for row in AuditRow.objects.filter(act__startswith="permit.")]
    assert rows == [("permit.expired", "timeout", "lapses"), ("permit.cancelled", "gate", "ends")]
    states = dict(Approval.objects.values_list("run__name", "state"))
    assert states == {"lapses": "expired", "ends": "cancelled"}


def test_deleted_keys_sources_and_people_are_recorded(client: Client, key: AgentKey, a_person: Any) -> None:
    removed_person, root = a_person("approver", "gone"), a_person("admin", "root")
    root.is_superuser = True
    root.save()
    client.force_login(root)
    assert client.post(f"/admin/auth/user/{removed_person.pk}/delete/", {"post": "yes"}).status_code == 302
    row = read_last("person.deleted")
    assert (row.actor, row.details["person"]) == ("root", "gone")
    key.source.delete()
    assert read_last("key.deleted").details["prefix"] == f"{key.prefix}…"
    assert read_last("source.deleted").details["source"] == "an agent"
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        root.delete()
        raise ZeroDivisionError
    assert AuditRow.objects.filter(act="person.deleted").count() == 1 and verify().fault == ""


def test_an_expired_approval_is_recorded_as_a_timeout(a_call: Any) -> None:
    call = a_call("approval-requested")
    with allow_log_writes():
        Approval.objects.filter(call=call).update(expires_at=1.0)
    gate.sweep()
    assert (read_last("approval.expired").actor_kind, read_last("approval.expired").call) == ("timeout", call.public_id)


def test_a_refused_vote_leaves_no_row_and_no_gap(a_call: Any, an_approver: Any, ballot: Any) -> None:
    call = a_call("approval-requested")
    before = acts()
    wrong = gate.Ballot(**{**_fields(ballot(call, "approve")), "args_sha256": "0" * 64})
    with pytest.raises(gate.CallChanged):
        gate.vote(an_approver, wrong)
    assert acts() == before
    gate.vote(an_approver, ballot(call, "approve"))
    assert verify().fault == ""


def _fields(ballot: gate.Ballot) -> dict[str, Any]:
    return {name: getattr(ballot, name) for name in ballot.__dataclass_fields__}


def test_what_is_rolled_back_is_not_recorded() -> None:
    write_acts(Act("first"))
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        write_acts(Act("never"))
        raise ZeroDivisionError
    write_acts(Act("second"))
    assert [(row.seq, row.act) for row in AuditRow.objects.all()] == [(1, "first"), (2, "second")]
    assert verify().fault == ""


def test_details_are_redacted() -> None:
    write_acts(Act("x", detail={"reason": f"PASSWORD={SECRET}", "token": SECRET}))
    assert SECRET not in read_last("x").detail


# ---------------------------------------------------------------- tampering
def sql(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


HEAD = "UPDATE toolcards_audithead SET seq = 4, hash = (SELECT hash FROM toolcards_auditrow WHERE seq = 4)"
TAMPERING: list[tuple[list[str], str]] = [
    (["UPDATE toolcards_auditrow SET actor = 'eve' WHERE seq = 3"], "row 3 is not valid: it was changed"),
    (["UPDATE toolcards_auditrow SET detail = '{}' WHERE seq = 1"], "row 1 is not valid: it was changed"),
    (["UPDATE toolcards_auditrow SET at = at + 1 WHERE seq = 2"], "row 2 is not valid: it was changed"),
    (["DELETE FROM toolcards_auditrow WHERE seq = 2"], "row 2 is missing"),
    (["DELETE FROM toolcards_auditrow WHERE seq = 1"], "row 1 is missing"),
    (["DELETE FROM toolcards_auditrow WHERE seq = 5"], "rows 5 to 5 are missing at the end"),
    (["DELETE FROM toolcards_auditrow WHERE seq = 5", HEAD], "rows 5 to 5 are missing at the end"),
    (["DELETE FROM toolcards_auditrow"], "rows 1 to 5 are missing at the end"),
    (["DELETE FROM toolcards_auditrow", "DELETE FROM toolcards_audithead"], "rows 1 to 5 are missing at the end"),
    (
        [
            "UPDATE toolcards_auditrow SET seq = 99 WHERE seq = 2",
            "UPDATE toolcards_auditrow SET seq = 2 WHERE seq = 3",
            "UPDATE toolcards_auditrow SET seq = 3 WHERE seq = 99",
        ],
        "row 2 is not valid",
    ),
    (["UPDATE toolcards_auditrow SET key = 'nobodys!' WHERE seq = 4"], "row 4 is not valid: it was signed with a key"),
]


@pytest.mark.parametrize(("statements", "fault"), TAMPERING, ids=[" ; ".join(value)[:50] for value, _ in TAMPERING])
def test_tampering_shows(statements: list[str], fault: str) -> None:
    for number in range(5):
        write_acts(Act(f"act {number}", detail={"n": number}))
    anchor.note_end(5, AuditRow.objects.get(seq=5).hash)
    anchor.write()
    assert verify().fault == "" and verify().rows == 5
    sql(*statements)
    assert fault in verify().fault
    with pytest.raises(CommandError) as error:
        call_command("audit", "verify")
    assert error.value.returncode == 1 and fault in str(error.value)


def test_a_rewritten_trail_does_not_match_the_anchor(settings: Any) -> None:
    for number in range(3):
        write_acts(Act(f"act {number}"))
    anchor.note_end(3, AuditRow.objects.get(seq=3).hash)
    anchor.write()
    sql("DELETE FROM toolcards_auditrow", "DELETE FROM toolcards_audithead")
    for number in range(3):
        write_acts(Act(f"forged {number}"))
    assert "row 3 is not valid" in verify().fault


def test_the_anchor_is_its_owners_alone_and_never_goes_back() -> None:
    write_acts(*(Act(f"act {number}") for number in range(5)))
    ends = list(AuditRow.objects.values_list("seq", "hash"))
    for end in (ends[4], ends[2]):
        anchor.note_end(*end)
        anchor.write()
        assert anchor.read().end == ends[4]  # type: ignore[union-attr]
    assert anchor.get_path().stat().st_mode & 0o777 == 0o600


def test_a_new_key_continues_the_old_chain(settings: Any) -> None:
    write_acts(Act("old"))
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key"
    write_acts(Act("new"))
    assert verify().fault == "" and len({row.key for row in AuditRow.objects.all()}) == 2
    settings.SECRET_KEY_FALLBACKS = []
    assert "row 1 is not valid: it was signed with a key" in verify().fault


# ---------------------------------------------------------------- pages
@pytest.fixture
def signed_in(client: Client, a_person: Any) -> Callable[[str], Client]:
    def as_(role: str) -> Client:
        client.force_login(a_person(role))
        return client

    return as_


@pytest.fixture
def five() -> None:
    """Five rows, and their end noted outside."""
    write_acts(*(Act(f"act {number}", detail={"n": number}) for number in range(5)))
    anchor.write()


@pytest.fixture
def never_verified() -> Iterator[None]:
    verifying.get_path().unlink(missing_ok=True)
    yield
    verifying.get_path().unlink(missing_ok=True)


def test_the_page_shows_when_the_trail_was_verified_and_the_result(
    client: Client, a_person: Any, five: None, never_verified: None
) -> None:
    client.force_login(a_person("admin"))
    assert 'data-verified="never"' in client.get("/settings/audit/").content.decode()
    rows = verifying.verify_and_store().rows
    write_acts(Act("later"))
    page = client.get("/settings/audit/").content.decode()
    assert 'data-verified="yes"' in page and f"{rows} entries, verified" in page and "; 1 new since" in page
    sql("UPDATE toolcards_auditrow SET actor = 'eve' WHERE seq = 3")
    assert 'data-verified="yes"' in client.get("/settings/audit/").content.decode()  # not verified again
    assert 'data-verified="no"' in client.post("/settings/audit/verify/").content.decode()
    page = client.get("/settings/audit/").content.decode()
    assert 'data-verified="no"' in page and "row 3 is not valid: it was changed" in page


@pytest.mark.parametrize("text", ["", "[]", "{", '{"at": "x", "finding": {}}', '{"at": 1, "finding": {"seq": 1}}'])
def test_an_unreadable_result_does_not_count(never_verified: None, text: str) -> None:
    verifying.get_path().write_text(text)
    assert verifying.get_last_result() is None


def test_signing_in_is_recorded_also_before_a_vote(client: Client, a_person: Any) -> None:
    a_person("approver", "bea")
    client.login(username="bea", password="wrong")
    assert read_last("signin.refused").details["typed"] == "bea"
    client.login(username="bea", password="a password for tests")
    assert read_last("signin").actor == "bea"
    client.logout()
    assert read_last("signout").actor == "bea"


# ---------------------------------------------------------------- nothing shows a secret
def _where(call: Any) -> list[str]:
    run = call.run.name
    return [
        "/approvals/", f"/approvals/{Approval.objects.get(call=call).pk}/", "/approvals/history/", "/settings/audit/",
        "/settings/audit/export/", "/admin/toolcards/toolcall/", f"/admin/toolcards/toolcall/{call.pk}/change/",
        "/admin/toolcards/event/", "/admin/toolcards/approval/", f"/policy/try/?call={call.public_id}", "/policy/",
        f"/api/v1/runs/{run}/calls", f"/api/v1/runs/{run}/events", f"/api/v1/runs/{run}",
        "/api/v1/runs", "/api/v1/approvals",
        "/", "/runs/", f"/runs/{run}/", "/calls/", f"/calls/{call.public_id}/",
    ]  # fmt: skip


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("state", ["approval-requested", "output-denied", "approval-responded"])
def test_no_page_and_no_answer_shows_a_secret(signed_in: Any, a_call: Any, state: str) -> None:
    fields = {
        "command": f"curl -H 'Authorization: Bearer {SECRET}' x && PASSWORD={SECRET} ls", "env": {"API_TOKEN": SECRET},
        "argv": ["--password", SECRET], "note": f"postgres://bob:{SECRET}@h/db",
        "headers": [["Authorization", SECRET]], "variables": [{"value": SECRET, "name": "API_TOKEN"}],
        "jwk": {"kty": "oct", "k": SECRET}, "store": f"AccountName=x;AccountKey={SECRET}==",
        "text": json.dumps({"env": [{"name": "API_TOKEN", "value": SECRET}]}), f"https://u:{SECRET}@h/": 1,
    }  # fmt: skip
    call = a_call(state, input=fields, tool="bash")
    admin = signed_in("admin")
    mark_count = 0
    for url in _where(call):
        answer = admin.get(url)
        if answer.status_code == 404:
            continue  # a page that is not there yet
        assert answer.status_code == 200, url
        value = b"".join(answer.streaming_content) if answer.streaming else answer.content
        assert SECRET not in value.decode(), url
        mark_count += "‹secret" in value.decode() or "\\u2039secret" in value.decode()
    assert mark_count >= 3


def test_votes_are_bound_to_the_original(a_call: Any, an_approver: Any, ballot: Any) -> None:
    call = a_call("approval-requested", input={"command": f"PASSWORD={SECRET} ls"})
    shown_card, original = call.as_shown_card(), call.as_card()
    assert SECRET not in repr(shown_card) and shown_card.approval.args_sha256 == original.approval.args_sha256
    assert gate.vote(an_approver, ballot(call, "approve")).input == {"command": f"PASSWORD={SECRET} ls"}


def test_the_test_box_hides_what_it_looked_at() -> None:
    looks = [("/env/API_TOKEN", "eq", "other"), ("/command", "glob", "x*")]
    rules = document.parse(
        {
            "v": 1,
            "rules": [
                {"id": f"r{n}", "effect": "deny", "match": {"args": [{"path": path, "op": op, "value": value}]}}
                for n, (path, op, value) in enumerate(looks)
            ],
        }
    )
    fields = {"env": {"API_TOKEN": SECRET}, "command": f"PASSWORD={SECRET}"}
    question = dry_run.build_request("bash", fields, agent=(), source="")
    trials = [dry_run._build_rule_trial(entry, {}) for entry in decide(rules, question, explain=True).trace]
    assert len(trials) == 2 and "secret value" in repr(trials)
    assert SECRET not in repr(trials) and SECRET not in repr(dry_run.try_call(rules, question).nearest)
