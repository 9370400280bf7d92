"""Every refusal has the status and the code that agents read, and its details are part of the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.tables import loop_over
from toolcards.gate import refusals
from toolcards.gate.refusals import InvalidRequest, NotAllowed, RequestRefused, TooLate
from toolcards.transports.api.api_errors import convert_refusal

API = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
KINDS = [
    kind for kind in vars(refusals).values()
    if isinstance(kind, type) and issubclass(kind, RequestRefused) and kind is not RequestRefused
]  # fmt: skip


@loop_over("kind", KINDS)
def test_a_refusal_has_its_own_status_and_a_code_that_the_api_documents(kind: type[RequestRefused]) -> None:
    refusal = kind("Why not.")
    assert (refusal.message, str(refusal), refusal.details) == ("Why not.", "Why not.", {})
    assert 400 < refusal.status < 600
    assert f"`{refusal.code}`" in API or kind is NotAllowed  # people get that one, agents `revoked`
    assert [other for other in KINDS if (other.status, other.code) == (kind.status, kind.code)] == [kind]


@loop_over("more, expected", [
    ({}, (410, "expired", {})),
    ({"code": "used"}, (410, "used", {})),
    ({"code": "", "status": 0}, (410, "expired", {})),
    ({"code": "reauth", "status": 401}, (401, "reauth", {})),
    ({"by": "ann"}, (410, "expired", {"by": "ann"})),
    ({"message_id": 1, "state": "denied"}, (410, "expired", {"message_id": 1, "state": "denied"})),
])  # fmt: skip
def test_one_refusal_may_have_another_code_or_status_and_details(more: dict[str, Any], expected: Any) -> None:
    refusal = TooLate("Too late.", **more)
    assert (refusal.status, refusal.code, refusal.details) == expected
    assert (TooLate.status, TooLate.code) == (410, "expired")


def test_details_that_come_as_an_object_are_not_nested_in_the_answer() -> None:
    refusal = InvalidRequest("No.", code="invalid_edit", detail={"pointers": ["/a"]}, by="ann")
    assert convert_refusal(refusal).body == {
        "error": {"code": "invalid_edit", "message": "No.", "detail": {"by": "ann", "pointers": ["/a"]}}
    }
