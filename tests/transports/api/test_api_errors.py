"""Errors of the API: their JSON, and what becomes of a refusal, a bad frame and an outage."""

from __future__ import annotations

import pytest
from django.db import OperationalError

from tests.support.tables import loop_over
from toolcards import outages
from toolcards.adapters import BadFrame
from toolcards.database import RETRY_AFTER
from toolcards.gate import CommitUnknown, NotFound, RequestRefused
from toolcards.transports.api.api_errors import (
    CLOSE_TRY_AGAIN,
    Problem,
    build_not_found,
    build_restarting,
    convert_bad_frame,
    convert_outage,
    convert_refusal,
)


def test_an_error_without_details_has_no_key_for_them() -> None:
    problem = Problem(400, "bad_limit", "Not a number.")
    assert problem.body == {"error": {"code": "bad_limit", "message": "Not a number."}}
    assert (problem.status, problem.close, problem.headers, str(problem)) == (400, 4400, {}, "Not a number.")


def test_details_of_an_error_are_in_its_answer() -> None:
    problem = Problem(409, "gone", "Gone.", close=4409, headers={"Allow": "GET"}, seq=3, name="run")
    assert problem.body["error"]["detail"] == {"seq": 3, "name": "run"}
    assert (problem.close, problem.headers) == (4409, {"Allow": "GET"})


def test_a_refusal_keeps_its_status_code_and_details() -> None:
    problem = convert_refusal(RequestRefused("No.", code="stale_rev", status=412, rev=7))
    assert (problem.status, problem.headers) == (412, {})
    assert problem.body == {"error": {"code": "stale_rev", "message": "No.", "detail": {"rev": 7}}}
    assert convert_refusal(NotFound("Gone.")).status == 404


def test_details_in_a_refusals_details_are_lifted_out_and_no_other_shape_of_them_is() -> None:
    nested = convert_refusal(RequestRefused("No.", detail={"rev": 8, "by": "ann"}, rev=7))
    assert nested.details == {"rev": 8, "by": "ann"}
    assert nested.body["error"]["detail"] == {"rev": 8, "by": "ann"}
    assert convert_refusal(RequestRefused("No.", detail="text")).details == {}


def test_only_a_refusal_for_the_rate_says_when_to_ask_again() -> None:
    statuses = {status: convert_refusal(RequestRefused("No.", status=status)).headers for status in (400, 409, 429)}
    assert statuses == {400: {}, 409: {}, 429: {"Retry-After": str(RETRY_AFTER)}}


@loop_over("code, status", [("too_large", 413), ("too_deep", 413), ("not_json", 400), ("missing_field", 400)])
def test_a_bad_frame_is_413_above_a_limit_and_400_otherwise(code: str, status: int) -> None:
    problem = convert_bad_frame(BadFrame("It is wrong.", code))
    assert (problem.status, problem.code, problem.message) == (status, code, "It is wrong.")


def test_an_error_of_our_own_is_no_outage() -> None:
    assert convert_outage(ValueError("a fault")) is None
    assert not outages.list_outages()


def test_an_outage_is_503_with_a_time_to_try_again_and_is_recorded() -> None:
    problem = convert_outage(OperationalError("unable to open database file"))
    assert problem is not None and problem.body["error"]["code"] == "unavailable"
    assert (problem.status, problem.close) == (503, CLOSE_TRY_AGAIN)
    assert problem.headers == {"Retry-After": str(RETRY_AFTER)} and "file" not in problem.message
    assert [outage.part for outage in outages.list_outages()] == [outages.READING]


def test_a_write_that_may_have_been_made_asks_for_the_same_request_again() -> None:
    problem = convert_outage(CommitUnknown("disk i/o error"))
    assert problem is not None and "Send the same request again" in problem.message


@pytest.mark.parametrize(
    ("problem", "status", "retry"), [(build_not_found(), 404, None), (build_restarting(), 503, "1")]
)
def test_the_answer_names_the_time_to_try_again_if_there_is_one(
    problem: Problem, status: int, retry: str | None
) -> None:
    assert (problem.status, problem.headers.get("Retry-After")) == (status, retry)
