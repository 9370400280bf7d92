"""The page of reviewers: who they are, what they answered, and their prompts, which change in the draft."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from dashboard.policy.reviewers.views import compare_with_people, count_reviews, read_answer_of_person
from tests.support.gate_commands import make_ballot
from tests.support.reviewers import NAME, answer_review, build_policy, fail_review
from tests.support.tables import loop_over
from toolcards import gate
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.reviewer import DEFAULT_PROMPT
from toolcards.gate import policy_draft
from toolcards.models import Approval, Review, Source, ToolCall
from toolcards.reviewers import worker

pytestmark = pytest.mark.django_db(transaction=True)
PAGE, FORM = "/policy/reviewers/", f"/policy/reviewers/{NAME}/"


@pytest.fixture
def admin(client: Client, a_person: Any, limits: Any) -> Client:
    """An admin who is signed in, on a server that may reach the reviewer."""
    limits(webhook_private=("127.0.0.1:9",))
    client.force_login(a_person("admin"))
    return client


def read(admin: Client) -> str:
    return admin.get(PAGE).content.decode()


def test_the_page_shows_the_reviewer_its_prompt_and_that_it_works(admin: Client, policy: Any) -> None:
    assert "None. Add" in read(admin)
    policy(build_policy({"prompt": "Read <b>closely</b>."}))
    page = read(admin)
    assert f'data-reviewer="{NAME}"' in page and 'data-circuit="closed"' in page
    assert "Read &lt;b&gt;closely&lt;/b&gt;." in page and "its answers count" in page and "asks" in page
    assert "no key for this host" in page


def test_three_failures_show_the_open_circuit_and_one_press_closes_it(
    admin: Client, policy: Any, source: Source, an_approver: Any
) -> None:
    policy(build_policy())
    for number in range(3):
        gate.decide(source, gate.DecisionRequest("r", f"c{number}", "bash", {"command": "make"}, place=f"{number}"))
        fail_review()
    assert 'data-circuit="open"' in read(admin)
    assert admin.post(f"{FORM}reset/").status_code == 302
    assert 'data-circuit="closed"' in read(admin) and worker.get_end_of_pause(NAME) == 0.0


def test_the_page_compares_with_people(admin: Client, policy: Any, source: Source, an_approver: Any) -> None:
    policy(build_policy({"mode": "shadow"}))
    for number, vote in enumerate(["approve", "deny", "deny"]):
        gate.decide(source, gate.DecisionRequest("r", f"c{number}", "bash", {"command": "make"}, place=f"{number}"))
        answer_review("allow", "It <i>looks</i> fine.")
        gate.vote(an_approver, make_ballot(ToolCall.objects.latest("pk"), vote))
    page = read(admin)
    assert 'data-agreed="1"' in page and 'data-differed="2"' in page and "shadow" in page
    assert "It &lt;i&gt;looks&lt;/i&gt; fine." in page and "allowed 2 that a person denied" in page


@pytest.mark.parametrize("is_in_draft", [True, False])
def test_the_prompt_and_the_mode_change_in_the_draft(admin: Client, policy: Any, is_in_draft: bool) -> None:
    document = build_policy()
    policy(document)
    policy_draft.replace_draft(document if is_in_draft else {"v": 1, "rules": []}, author="a test")
    response = admin.post(FORM, {"mode": "shadow", "prompt": "Be strict.\r\nAlways."})
    assert (response.status_code, response["Location"]) == (302, "/policy/")
    definition = policy_draft.load_draft()["reviewers"][NAME]
    assert (definition["prompt"], definition["mode"]) == ("Be strict.\nAlways.", "shadow")
    assert "reviewers" in admin.get("/policy/").content.decode().casefold()
    admin.post(FORM, {"mode": "enforce", "prompt": DEFAULT_PROMPT.replace("\n", "\r\n")})
    assert "prompt" not in policy_draft.load_draft()["reviewers"][NAME]


@pytest.mark.parametrize("fields", [{}, {"mode": "always"}, {"mode": "shadow", "prompt": "x" * 20_001}])
def test_a_form_that_is_wrong_changes_nothing(admin: Client, policy: Any, fields: dict[str, str]) -> None:
    policy(build_policy())
    policy_draft.replace_draft(build_policy(), author="a test")
    before = policy_draft.load_draft()
    assert admin.post(FORM, fields).status_code == 422
    assert policy_draft.load_draft() == before


def test_an_unknown_reviewer_is_not_found(admin: Client, policy: Any) -> None:
    policy(build_policy())
    assert admin.post("/policy/reviewers/other/", {"mode": "shadow"}).status_code == 404
    assert admin.post("/policy/reviewers/other/reset/").status_code == 404


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_others_may_not_see_or_change_reviewers(client: Client, a_person: Any, policy: Any, role: str) -> None:
    policy(build_policy())
    client.force_login(a_person(role))
    assert client.get(PAGE).status_code == client.post(FORM, {"mode": "shadow"}).status_code == 403


@loop_over(
    ("state", "by_kind", "answer"),
    [
        ("approved", "human", "allow"), ("claimed", "human", "allow"), ("succeeded", "human", "allow"),
        ("expired", "human", "allow"), ("denied", "human", "deny"), ("denied", "kill_switch", ""),
        ("denied", "reviewer", ""), ("approved", "reviewer", ""), ("expired", "timeout", ""), ("pending", "", ""),
        ("superseded", "human", ""),
    ],
)  # fmt: skip
def test_only_people_are_compared(state: str, by_kind: str, answer: str) -> None:
    assert read_answer_of_person(Review(approval=Approval(state=state, by_kind=by_kind))) == answer


@loop_over(
    ("answer", "state", "agreed", "differed", "looser"),
    [
        ("allow", "approved", 1, 0, 0), ("deny", "denied", 1, 0, 0), ("allow", "denied", 0, 1, 1),
        ("deny", "approved", 0, 1, 0), ("ask", "approved", 0, 0, 0), ("", "approved", 0, 0, 0),
    ],
)  # fmt: skip
def test_answers_agree_or_differ(answer: str, state: str, agreed: int, differed: int, looser: int) -> None:
    record = count_reviews([Review(answer=answer, approval=Approval(state=state, by_kind="human"))])
    assert (record.agreed, record.differed, record.looser) == (agreed, differed, looser)
    assert len(record.differences) == differed and record.total == 1


def test_an_allow_that_would_not_count_is_not_compared() -> None:
    approval = Approval(state="approved", by_kind="human")
    record = count_reviews([Review(answer="allow", note="This call is high risk.", approval=approval)])
    assert (record.limited, record.agreed, record.differed) == (1, 0, 0)


@pytest.mark.django_db(transaction=True)
def test_the_record_is_that_of_one_reviewer_and_not_too_old(source: Source, policy: Any, an_approver: Any) -> None:
    policy(build_policy({"mode": "shadow"}))
    for number, (answer, vote) in enumerate([("allow", "deny"), ("allow", "approve"), ("", "approve")]):
        gate.decide(source, gate.DecisionRequest("r", f"c{number}", "bash", {"command": "make"}, place=f"{number}"))
        answer_review(answer) if answer else fail_review()
        gate.vote(an_approver, make_ballot(ToolCall.objects.latest("pk"), vote))
    reviewer = parse(build_policy({"mode": "shadow"})).reviewers[NAME]
    record = compare_with_people(reviewer)
    assert (record.total, record.failures, record.agreed, record.differed, record.looser) == (3, 1, 1, 1, 1)
    assert record.answers == {"allow": 2} and record.differences[0][1] == "deny"
    assert compare_with_people(replace(reviewer, prompt="Another.")).total == 0
    Review.objects.update(answered_at=time.time() - 40 * 86_400)
    assert compare_with_people(reviewer).total == 0
