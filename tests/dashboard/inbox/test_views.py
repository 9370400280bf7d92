"""The inbox and the votes: one answer per approval, for exactly what was seen, by form with or without scripts."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client

from tests.support.votes_by_form import address, form
from toolcards import gate
from toolcards.models import Approval, Vote
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


def test_every_waiting_call_is_an_article_with_its_form(ann: Client, a_call: Any) -> None:
    for number in range(3):
        a_call("approval-requested", call_id=f"call-{number}")
    page = " ".join(ann.get("/approvals/").content.decode().split())
    assert page.count("<article") == 3 and page.count('name="decision" value="approve"') == 3
    assert page.index("call-0") < page.index("call-1") < page.index("call-2")
    assert "3 waiting" in page and "1 run blocked" in page and "(3) Approvals" in page
    assert "/ws/me/?board=approvals" in page


def test_an_empty_inbox_says_what_was_decided_last(ann: Client, a_call: Any) -> None:
    assert "Nothing is waiting for you" in ann.get("/approvals/").content.decode()
    a_call("output-denied")
    page = ann.get("/approvals/").content.decode()
    assert "Last decision" in page and "by ann" in page and "<article" not in page


@pytest.mark.parametrize(("decision", "state"), [("approve", "approval-responded"), ("deny", "output-denied")])
def test_htmx_gets_the_fresh_card(ann: Client, a_call: Any, decision: str, state: str) -> None:
    call = a_call("approval-requested")
    answer = ann.post(address(call), form(call, decision), headers=HTMX)
    card = answer.content.decode()
    assert answer.status_code == 200 and f'data-state="{state}"' in card and 'name="decision"' not in card
    assert card.lstrip().startswith("<article") and "data-told" not in card


def test_a_plain_form_goes_back(ann: Client, a_call: Any) -> None:
    call = a_call("approval-requested")
    answer = ann.post(address(call), form(call, "deny", reason="not today", next="/runs/run-1/"))
    assert (answer.status_code, answer["Location"]) == (303, "/runs/run-1/")
    row = Approval.objects.get()
    assert (row.state, row.by_name, row.reason) == ("denied", "ann", "not today")


@pytest.mark.parametrize(
    "expected", ["https://evil.example/", "//evil.example/", "javascript:1", "/\\evil.example", ""]
)
def test_only_own_paths_are_gone_back_to(ann: Client, a_call: Any, expected: str) -> None:
    call = a_call("approval-requested")
    answer = ann.post(address(call), form(call, next=expected), headers={"Referer": "https://evil.example/x"})
    assert answer["Location"] == "/approvals/"


def test_without_next_it_goes_back_to_the_page_it_stood_on(ann: Client, a_call: Any) -> None:
    call = a_call("approval-requested")
    answer = ann.post(address(call), form(call), headers={"Referer": "http://testserver/runs/run-1/?older=1"})
    assert answer["Location"] == "/runs/run-1/?older=1"


def test_the_same_answer_again_is_fine_and_another_answer_shows_who_was_first(
    ann: Client, a_call: Any, a_person: Any
) -> None:
    call = a_call("approval-requested")
    form_data = form(call)
    assert ann.post(address(call), form_data, headers=HTMX).status_code == 200
    assert ann.post(address(call), form_data, headers=HTMX).status_code == 200
    ben = Client()
    ben.force_login(a_person("approver", "ben"))
    late = ben.post(address(call), form_data | {"decision": "deny"}, headers=HTMX)
    assert late.status_code == 409
    card = late.content.decode()
    assert "data-told" in card and "Already approved by ann" in card and 'data-state="approval-responded"' in card
    plain = ben.post(address(call), form_data | {"decision": "deny"})
    assert plain.status_code == 409 and "Already approved by ann" in plain.content.decode()
    assert "<article" in plain.content.decode() and Vote.objects.count() == 1


@pytest.mark.parametrize("stale", [{"rev": 0}, {"args_sha256": "0" * 64}])
def test_what_changed_since_it_was_seen_is_refused_with_the_fresh_card(
    ann: Client, a_call: Any, stale: dict[str, Any]
) -> None:
    call = a_call("approval-requested")
    answer = ann.post(address(call), form(call) | stale, headers=HTMX)
    card = answer.content.decode()
    assert answer.status_code == 412 and "data-told" in card and 'value="approve"' in card
    assert f'data-rev="{call.rev}"' in card and Approval.objects.get().state == "pending"


def test_too_late_is_410(ann: Client, a_call: Any) -> None:
    call = a_call("approval-requested")
    with allow_log_writes():
        Approval.objects.update(expires_at=1.0)
    for headers in (HTMX, {}):
        answer = ann.post(address(call), form(call), headers=headers)
        assert answer.status_code == 410 and "Too late" in answer.content.decode()


@pytest.mark.parametrize("wrong", [{"decision": "maybe"}, {"rev": "x"}, {"reason": "x" * 2001}, {"decision": ""}])
def test_a_form_that_makes_no_sense_is_422(ann: Client, a_call: Any, wrong: dict[str, Any]) -> None:
    call = a_call("approval-requested")
    answer = ann.post(address(call), form(call) | wrong, headers=HTMX)
    assert answer.status_code == 422 and "data-told" in answer.content.decode()
    assert Approval.objects.get().state == "pending"


def test_unknown_approvals_are_404(ann: Client, db: None) -> None:
    form_data = {"decision": "approve", "rev": 1, "args_sha256": "0" * 64}
    for headers in (HTMX, {}):
        assert ann.post("/approvals/apr_nothing/vote", form_data, headers=headers).status_code == 404
    assert ann.get("/approvals/apr_nothing/").status_code == 404


def test_looking_never_decides(ann: Client, a_call: Any) -> None:
    call = a_call("approval-requested")
    answer = ann.get(address(call), form(call))
    assert answer.status_code == 405 and Approval.objects.get().state == "pending"


def test_a_vote_without_the_form_token_is_refused(an_approver: Any, a_call: Any) -> None:
    call = a_call("approval-requested")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(an_approver)
    assert strict.post(address(call), form(call)).status_code == 403
    page = strict.get("/approvals/").content.decode()
    token = page.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
    assert strict.post(address(call), form(call) | {"csrfmiddlewaretoken": token}).status_code == 303


def test_a_viewer_looks_and_does_not_answer(client: Client, a_person: Any, a_call: Any) -> None:
    call = a_call("approval-requested")
    client.force_login(a_person("viewer"))
    page = client.get("/approvals/").content.decode()
    assert "<article" in page and "View only" in page and 'data-can=""' in page
    assert client.post(address(call), form(call)).status_code == 403
    assert Approval.objects.get().state == "pending"


def test_hostile_words_of_agents_and_people_are_escaped(ann: Client, a_call: Any) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    call = a_call("approval-requested", tool=hostile, input={"command": hostile})
    for page in (ann.get("/approvals/"), ann.get(f"/approvals/{Approval.objects.get().pk}/")):
        assert "<script>alert" not in page.content.decode() and "U+202E" in page.content.decode()
    ann.post(address(call), form(call, "deny", reason=hostile))
    page = ann.get("/approvals/history/").content.decode()
    assert "<script>alert" not in page and "U+202E" in page and "Denied" in page


@pytest.mark.django_db(transaction=True)
def test_of_two_people_at_the_same_moment_one_wins(a_call: Any, a_person: Any) -> None:
    call = a_call("approval-requested")
    url, form_data, statuses = address(call), form(call), []
    gun = threading.Barrier(2)

    def answer(client: Client, decision: str) -> None:
        gun.wait()
        statuses.append(client.post(url, form_data | {"decision": decision}, headers=HTMX).status_code)
        connection.close()

    people = []
    for name, decision in (("ben", "approve"), ("cem", "deny")):
        client = Client()
        client.force_login(a_person("approver", name))
        people.append(threading.Thread(target=answer, args=(client, decision)))
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert sorted(statuses) == [200, 409] and Vote.objects.count() == 1


# ---------------------------------------------------------------- who may open what
ROLES = ("viewer", "approver", "admin")
EVERYBODY, APPROVERS, ADMINS = frozenset(ROLES), frozenset({"approver", "admin"}), frozenset({"admin"})
OPEN_TO = {
    EVERYBODY: (
        "GET /approvals/",
        "GET /approvals/history/",
        "GET /approvals/{approval}/",
        "GET /policy/",
        "GET /policy/try/",
        "POST /policy/try/",
        "GET /policy/export/",
        "GET /policy/versions/",
        "GET /policy/versions/1/",
        "GET /sources/",
        "GET /sources/1/",
        "GET /policy/grants/",
        "GET /settings/breakglass/",
        "GET /connect/",
        "GET /connect/ai-sdk/",
    ),
    APPROVERS: ("POST /approvals/{approval}/vote", "POST /policy/grants/gra_none/revoke/"),
    ADMINS: (
        "POST /policy/versions/1/copy/",
        "POST /policy/draft/default/",
        "POST /policy/draft/activate/",
        "POST /policy/import/",
        "POST /policy/packs/watch/",
        "GET /policy/rules/new/",
        "POST /policy/rules/new/",
        "GET /policy/rules/x/",
        "POST /policy/rules/x/switch/",
        "POST /policy/rules/x/effect/",
        "POST /policy/rules/x/restore/",
        "POST /policy/rules/x/remove/",
        "POST /sources/1/owner/",
        "POST /sources/tools/1/accept/",
        "GET /settings/killswitch/",
        "POST /settings/killswitch/",
        "POST /settings/breakglass/",
        "POST /sources/keys/",
        "POST /sources/keys/1/revoke/",
    ),
}
PAGES = [(*page.split(), allowed) for allowed, pages in OPEN_TO.items() for page in pages]


@pytest.mark.parametrize(("method", "url", "allowed"), PAGES)
def test_who_may_open_what(method: str, url: str, allowed: frozenset[str], a_person: Any, a_call: Any) -> None:
    a_call("approval-requested")
    url = url.format(approval=Approval.objects.get().pk)
    answer = Client().generic(method, url)
    assert answer.status_code == 302 and answer["Location"].startswith("/login/")
    for role in ROLES:
        client = Client()
        client.force_login(a_person(role))
        status = client.generic(method, url).status_code
        assert (status == 403) == (role not in allowed), (role, status)
        assert status < 500
    somebody = Client()
    somebody.force_login(get_user_model().objects.create_user("no-role"))
    assert somebody.generic(method, url).status_code == 403


@pytest.mark.parametrize("url", sorted({url for method, url, _ in PAGES if method == "POST"} - {"/policy/try/"}))
def test_what_changes_something_is_never_a_get(url: str, a_person: Any, a_call: Any) -> None:
    a_call("approval-requested")
    client = Client()
    client.force_login(a_person("admin"))
    before = (gate.get_active_version_number(), gate.load_draft(), Approval.objects.get().state)
    status = client.get(url.format(approval=Approval.objects.get().pk)).status_code
    assert status == 405 or url in ("/policy/rules/new/", "/settings/killswitch/", "/settings/breakglass/")
    assert before == (gate.get_active_version_number(), gate.load_draft(), Approval.objects.get().state)


# ---------------------------------------------------------------- undo
@pytest.mark.parametrize("handover", [0, 600])
def test_an_approval_that_no_agent_has_offers_undo_and_takes_it(
    ann: Client, a_call: Any, limits: Any, handover: float
) -> None:
    limits(handover_seconds=handover)
    call = a_call("approval-requested")
    card = ann.post(address(call), form(call), headers=HTMX).content.decode()
    undo = address(call).replace("/vote", "/undo")
    assert f'action="{undo}"' in card and "csrfmiddlewaretoken" in card
    answer = ann.post(undo, headers=HTMX)
    assert answer.status_code == 200 and 'data-state="output-denied"' in answer.content.decode()
    assert "Denied by <b>ann</b>" in answer.content.decode() and "/undo" not in answer.content.decode()
    assert Approval.objects.get().state == "revoked"


def test_undo_works_as_a_plain_form(ann: Client, a_call: Any, limits: Any) -> None:
    limits(handover_seconds=600)
    call = a_call("approval-responded")
    undo = address(call).replace("/vote", "/undo")
    answer = ann.post(undo, {"next": "/runs/run-1/"})
    assert (answer.status_code, answer["Location"]) == (303, "/runs/run-1/")
    assert ann.get(undo).status_code == 405


def test_what_the_agent_has_is_neither_offered_nor_undone(ann: Client, a_call: Any, source: Any) -> None:
    call = a_call("approval-responded")
    page = ann.get("/runs/run-1/").content.decode()
    assert "/undo" in page and "Waiting for the agent to pick it up." in page
    gate.decide(source, gate.DecisionRequest(run="run-1", call_id="call-1", tool="bash", args={"command": "ls"}))
    page = ann.get("/runs/run-1/").content.decode()
    assert "/undo" not in page and "Fetched by the agent, which has not started the call." in page
    answer = ann.post(address(call).replace("/vote", "/undo"), headers=HTMX)
    assert answer.status_code == 410 and "Too late to undo: the agent has the answer." in answer.content.decode()


def test_a_viewer_cannot_undo(a_call: Any, a_person: Any, limits: Any) -> None:
    limits(handover_seconds=600)
    call = a_call("approval-responded")
    viewer = Client()
    viewer.force_login(a_person("viewer"))
    assert viewer.post(address(call).replace("/vote", "/undo")).status_code == 403
    assert Approval.objects.get().state == "approved"


# ---------------------------------------------------------------- without JavaScript
@pytest.mark.parametrize(("decision", "word"), [("approve", "Approved: bash."), ("deny", "Denied: bash.")])
def test_a_plain_form_says_that_the_vote_counted(ann: Client, a_call: Any, decision: str, word: str) -> None:
    call = a_call("approval-requested")
    assert word in ann.post(address(call), form(call, decision), follow=True).content.decode()


def test_a_plain_form_says_that_more_votes_are_needed(ann: Client, policy: Any, a_call: Any, a_person: Any) -> None:
    a_person("approver", "ben")
    rule = {"id": "two", "effect": "ask", "match": {"tool": ["bash"]}, "ask": {"quorum": 2}}
    policy({"default": "ask", "rules": [rule]})
    call = a_call("approval-requested")
    answer = ann.post(address(call), form(call), follow=True)
    assert "Vote counted, 1 of 2 approvals so far: bash." in answer.content.decode()


def test_times_can_be_read_without_javascript(ann: Client, a_call: Any) -> None:
    a_call("approval-requested")
    page = ann.get("/approvals/").content.decode()
    times = re.findall(r"data-until=\"\d+\">\s*([^<]+?)\s*</time>", page)
    assert times and all(re.fullmatch(r"\d\d \w{3} \d\d:\d\d:\d\d UTC", text) for text in times)
    assert "times are in UTC" in page.split("<noscript>")[1].split("</noscript>")[0]
