"""Forms of an agent's program: built from a tool's arguments, read from the gate's answer."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import serve

from tests.support.server import PATIENCE
from toolcards.client import Toolcards
from toolcards.client.calls import FORM
from toolcards.client.common.canonical_json import call_digest, digest
from toolcards.client.framework_support.question_form import NOT_ANSWERED, ONLY_WATCHED, ask_form, build_form
from toolcards.core.calls import elicitation

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["question", "message", "text", "options", "choices", "other"])
OFFER = {"name": "ask_user", "description": "Ask.", "input_schema": {"type": "object"}}


class Gate:
    """A gate that answers each form with what the test says."""

    def __init__(self, **answer):
        self.answer, self.frames = answer, []

    async def __call__(self, socket):
        count = 0
        async for message in socket:
            received = json.loads(message)
            for frame in received if isinstance(received, list) else [received]:
                count += 1
                self.frames.append(frame)
                await socket.send(json.dumps({"type": "ack", "seq": count, "frames": count}))
                if frame["type"] == "tool.input.available":
                    await self._decide(socket, frame)

    async def _decide(self, socket, frame):
        args = self.answer.get("args", frame["input"])
        binding = {
            "run": "r1", "call_id": frame["call_id"], "attempt": 1, "tool": {"name": frame["tool"], "source": ""},
            "args_sha256": digest(args), "call_sha256": call_digest(args, name=frame["tool"]),
        }  # fmt: skip
        await socket.send(json.dumps({"type": "decision", "decision": "allow", **binding, **self.answer}))


async def ask(answering, form, **options):
    async with serve(answering, "127.0.0.1", 0) as server:
        cards = Toolcards(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "key")
        async with asyncio.timeout(PATIENCE), cards.run("r1", **options) as run:
            return await ask_form(run, form)


def test_the_client_and_the_server_mean_the_same_tool():
    assert FORM == elicitation.TOOL


def test_a_question_with_options_lets_people_write_another_answer():
    form = build_form("ask_user", {"question": "Which?", "options": ["a", {"label": "b"}]}, "From the planner")
    assert form["message"] == "From the planner\n\nWhich?"
    fields = elicitation.read_fields(form)
    assert [(each.name, each.is_required, len(each.choices)) for each in fields] == [
        ("choice", False, 2),
        ("answer", False, 0),
    ]


@pytest.mark.parametrize("options", [[], ["a", "a"], ["a", ""], ["x" * 500], "ab", [1, 2], ["a"] * 200, None])
def test_options_that_cannot_be_shown_leave_a_text(options):
    fields = elicitation.read_fields(build_form("ask_user", {"question": "Which?", "options": options}))
    assert [(each.name, each.is_required) for each in fields] == [("answer", True)]


@given(st.dictionaries(NAMES, JSON, max_size=4) | JSON, st.text(max_size=8))
def test_every_question_has_a_form_that_can_be_shown(args, description):
    form = build_form("ask_user", args, description)
    assert elicitation.read_fields(form) and form["message"]


@pytest.mark.parametrize(
    ("answers", "text"),
    [({"answer": "Ada"}, "Ada"), ({"choice": "a"}, "a"), ({"choice": "a", "answer": "other"}, "other")],
)
async def test_the_answer_is_read_and_is_the_forms_result(answers, text):
    form = build_form("ask_user", {"question": "Which?", "options": ["a"]})
    gate = Gate(args=form | {"answers": answers})
    answer = await ask(gate, form, tools=[OFFER])
    assert (answer.text, answer.is_given) == (text, True)
    results = [frame for frame in gate.frames if frame["type"] == "tool.output.available"]
    assert [result["output"] for result in results] == [{"action": "accept", "content": answers}]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({}, NOT_ANSWERED),
        ({"args": {"answers": {}}}, NOT_ANSWERED),
        ({"args": {"answers": ["Ada"]}}, NOT_ANSWERED),
        ({"args": {"answers": {"answer": 7}}}, NOT_ANSWERED),
        ({"decision": "deny", "reason": {"code": "approval_denied", "text": "not now"}}, "not now"),
        ({"decision": "allow", "args": {"answers": {"answer": "x"}}, "args_sha256": "0" * 64}, "is not valid"),
    ],
)
async def test_anything_but_a_text_is_no_answer(answer, text):
    result = await ask(Gate(**answer), build_form("ask_user", {"question": "Name?"}))
    assert not result.is_given and text in result.text


async def test_a_run_that_is_only_shown_asks_no_person():
    gate = Gate()
    result = await ask(gate, build_form("ask_user", {"question": "Name?"}), gate=False)
    assert (result.text, result.is_given) == (ONLY_WATCHED, False)
    assert not [frame for frame in gate.frames if frame["type"].startswith("tool.")]
