"""Questions in the input of a call, and the input with their answers."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards.core.calls.questions import Option, Question, add_answers, read_questions

COLOR = {
    "question": "Which color?", "header": "Color", "multiSelect": True,
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue"}],
}  # fmt: skip


def test_questions_are_read_with_their_options() -> None:
    value = {"questions": [COLOR, {"question": "Name?"}]}
    assert read_questions("AskUserQuestion", value) == (
        Question("Which color?", "Color", (Option("Red", "warm"), Option("Blue")), is_multiple=True),
        Question("Name?"),
    )


@pytest.mark.parametrize(
    "value",
    [
        None, [], {}, {"questions": []}, {"questions": "Which?"}, {"questions": [COLOR, COLOR]},
        {"questions": [COLOR], "answers": {"Which color?": "Red"}}, {"questions": [{"question": ""}]},
        {"questions": [{"question": "a", "options": [{"label": ""}]}]},
        {"questions": [{"question": "a", "options": 1}]},
        {"questions": [{"question": str(number)} for number in range(21)]},
    ],
)  # fmt: skip
def test_what_is_no_list_of_open_questions_is_an_ordinary_call(value: Any) -> None:
    assert read_questions("AskUserQuestion", value) == ()


def test_other_tools_ask_nothing() -> None:
    assert read_questions("bash", {"questions": [COLOR]}) == ()


def test_answers_are_added_to_the_questions_and_several_are_one_text() -> None:
    value = {"questions": [COLOR]}
    answered_input = add_answers(value, {"Which color?": ["Red", "Blue"]})
    assert answered_input == {"questions": [COLOR], "answers": {"Which color?": "Red, Blue"}}
    assert read_questions("AskUserQuestion", answered_input) == () and "answers" not in value
