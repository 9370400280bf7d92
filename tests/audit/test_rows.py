"""The rows of the trail: appended, and never changed."""

from __future__ import annotations

import pytest

from tests.support.audit_trail import read_last
from toolcards.audit.rows import AuditRow, TrailIsFinal
from toolcards.audit.trail import Act, write_acts

pytestmark = pytest.mark.django_db


def test_rows_are_appended_and_nothing_else() -> None:
    write_acts(Act("x"))
    row = read_last("x")
    for tampering in (
        lambda: AuditRow.objects.update(act="y"), lambda: AuditRow.objects.all().delete(), row.save, row.delete,
    ):  # fmt: skip
        with pytest.raises(TrailIsFinal):
            tampering()
