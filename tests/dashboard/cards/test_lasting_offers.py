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
    offers = list_lasting_offers(TERMS)
    assert [(offer.field, offer.verb, offer.words) for offer in offers] == [
        ("always", "Always allow", "`git push`"), ("always_deny", "Always deny", "`git push`"),
    ]  # fmt: skip
    assert [scope for _, scope in offers[0].choices] == ["for bot", "for any agent", "in this run"]


def test_a_question_without_lasting_answers_has_no_buttons() -> None:
    assert list_lasting_offers({"need": 1}) == []
