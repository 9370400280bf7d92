"""The buttons of lasting answers: one line for each subject, one button for each scope."""

from __future__ import annotations

from dashboard.cards.lasting_offers import list_lasting_offers

TERMS = {
    "always": [
        ["always:command:agent", "`git push`", "bot"], ["always:command:any", "`git push`", "any agent"],
        ["always:command:run", "`git push`", "this run"],
    ],
    "always_deny": [["always:command:any", "`git push`", "any agent"]],
}  # fmt: skip


def test_offers_that_cover_the_same_are_one_line() -> None:
    (offer,) = list_lasting_offers(TERMS, "always", {"always:command:any": "3 of 9 past calls"})
    assert offer.words == "`git push`"
    assert [choice.scope for choice in offer.choices] == ["for bot", "for any agent", "in this run"]
    assert [choice.covered for choice in offer.choices] == ["", "3 of 9 past calls", ""]


def test_each_field_has_its_own_offers() -> None:
    (denial,) = list_lasting_offers(TERMS, "always_deny")
    assert [choice.value for choice in denial.choices] == ["always:command:any"]


def test_a_question_without_lasting_answers_has_no_buttons() -> None:
    assert list_lasting_offers({"need": 1}, "always") == []
