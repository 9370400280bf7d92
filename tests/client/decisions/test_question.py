"""A question to the gate: the arguments as they are sent, the digests that bind an answer, and one call per id."""

from __future__ import annotations

import dataclasses
import math
import threading
from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.client.common.canonical_json import call_digest, digest
from toolcards.client.decisions import question
from toolcards.client.decisions.question import CallRequest, SubmittedCalls, Tool


@loop_over(("tool", "expected"), [
    ("bash", Tool("bash")), ("", Tool("")), ({"name": "bash"}, Tool("bash")), ({}, Tool("")),
    ({"name": "bash", "source": "files", "schema_sha256": "ab", "kind": "read"}, Tool("bash", "files", "ab")),
    ({"name": "bash", "source": None, "schema_sha256": None}, Tool("bash")), ({"name": 5}, Tool("5")),
])  # fmt: skip
def test_a_tool_is_a_name_or_an_object_with_one(tool: Any, expected: Tool) -> None:
    assert Tool.read(tool) == expected


@loop_over(("args", "as_json"), [
    ({"a": (1, 2)}, {"a": [1, 2]}), ({2: "x", None: "y", True: "z"}, {"2": "x", "null": "y", "true": "z"}),
    ({"a": 1.0}, {"a": 1.0}), ([], []), (None, None), ("text", "text"), ({}, {}),
])  # fmt: skip
def test_the_arguments_are_the_json_that_is_sent(args: Any, as_json: Any) -> None:
    request = CallRequest.about("r1", "c1", "bash", args)
    assert request.args == as_json and request.args_sha256 == digest(as_json)


def test_a_later_change_of_the_callers_object_does_not_change_the_question() -> None:
    args = {"paths": ["/tmp/a"]}
    request = CallRequest.about("r1", "c1", "bash", args)
    args["paths"].append("/etc")
    assert request.args == {"paths": ["/tmp/a"]} and request.args_sha256 == digest({"paths": ["/tmp/a"]})


@loop_over(("tool", "args"), [
    ("bash", {"a": math.nan}), ("bash", {"a": math.inf}), ("bash", {"a": 2**53}), ("bash", {"a": "\ud800"}),
    ("bash", {"\0": 1}),
    ("bash", {"a": object()}), ("bash", {"a": {1, 2}}), ("bash", {1: "shown", "1": "hidden"}), ("bash", {(1, 2): 3}),
    ("bash", {"a": 10**400}),
    ("bash", {"a": list(range(10_000))}), ("bash\0", {}), ("ba\ud800sh", {}), ({"name": "bash", "source": "\0"}, {}),
    ({"name": "bash", "schema_sha256": "\ud800"}, {}),
])  # fmt: skip
def test_what_no_answer_could_be_compared_with_is_refused(tool: Any, args: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        CallRequest.about("r1", "c1", tool, args)


def test_a_value_that_is_nested_without_end_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: Any = 1
    for _ in range(33):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises((ValueError, RecursionError)):
            CallRequest.about("r1", "c1", "bash", value)


def test_the_digest_of_the_call_changes_with_each_of_its_parts() -> None:
    tool = {"name": "read", "source": "files", "schema_sha256": "ab"}
    request = CallRequest.about("r1", "c1", tool, {"a": 1}, attempt=2, offered_names=["read", "write"])
    assert request.call_sha256 == call_digest({"a": 1}, name="read", source="files", schema_sha256="ab")
    others = [
        CallRequest.about("r1", "c1", tool | change, args).call_sha256
        for change, args in [
            ({"name": "write"}, {"a": 1}),
            ({"source": "mail"}, {"a": 1}),
            ({"schema_sha256": ""}, {"a": 1}),
            ({}, {"a": 2}),
        ]
    ]
    assert len({request.call_sha256, *others}) == 5
    assert CallRequest.about("r2", "c2", tool, {"a": 1}).call_sha256 == request.call_sha256
    assert request.digest_of({"a": 2}, request.tool) == others[3]
    assert request.digest_of({"a": 1}, dataclasses.replace(request.tool, name="write")) == others[0]
    assert (request.attempt, request.offered_names) == (2, frozenset({"read", "write"}))


# ---------------------------------------------------------------- one call per id
def make_request(call_id: str = "c1", args: Any = None, *, run: str = "r1", attempt: int = 1) -> CallRequest:
    return CallRequest.about(run, call_id, "bash", {} if args is None else args, attempt=attempt)


def test_the_same_call_may_be_submitted_again_and_another_one_under_its_id_may_not() -> None:
    submitted = SubmittedCalls()
    assert submitted.admit(make_request(args={"a": 1})) and submitted.admit(make_request(args={"a": 1}))
    assert not submitted.admit(make_request(args={"a": 2}))
    assert not submitted.admit(CallRequest.about("r1", "c1", "wipe", {"a": 1}))
    assert submitted.admit(make_request(args={"a": 1}))  # a refused call takes no id
    for other in (make_request(run="r2"), make_request("c2"), make_request(attempt=2)):
        assert submitted.admit(other)


def test_the_latest_attempt_is_the_one_that_was_submitted_last() -> None:
    submitted = SubmittedCalls()
    assert submitted.latest("r1", "c1") == 1
    for attempt in (1, 2, 3):
        submitted.admit(make_request(attempt=attempt))
    assert submitted.latest("r1", "c1") == 3
    assert not submitted.admit(make_request(args={"other": 1}, attempt=2)) and submitted.latest("r1", "c1") == 3
    assert (submitted.latest("r2", "c1"), submitted.latest("r1", "c2")) == (1, 1)


def test_the_memory_is_bounded_and_keeps_the_calls_submitted_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "MAX_CALLS", 3)
    submitted = SubmittedCalls()
    for call_id in ("a", "b", "c"):
        submitted.admit(make_request(call_id, attempt=2))
    submitted.admit(make_request("a", attempt=2))  # asked again: the oldest is b now
    submitted.admit(make_request("d", attempt=2))
    assert [submitted.latest("r1", call_id) for call_id in "abcd"] == [2, 1, 2, 2]
    assert not submitted.admit(make_request("a", {"other": 1}, attempt=2))
    assert submitted.admit(make_request("b", {"other": 1}, attempt=2))  # forgotten


def test_of_many_threads_with_different_calls_under_one_id_one_is_admitted() -> None:
    submitted, start = SubmittedCalls(), threading.Barrier(16)
    admitted: list[int] = []

    def submit(number: int) -> None:
        request = make_request(args={"n": number})
        start.wait()
        if submitted.admit(request):
            admitted.append(number)

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 1
