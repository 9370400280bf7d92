"""A person who is not signed in."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User


@pytest.fixture
def bea(a_person: Any) -> User:
    return a_person("approver", "bea")
