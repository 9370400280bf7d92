"""The command line of `toolcards hook`, for tests that call it as a function."""

from __future__ import annotations

from argparse import Namespace

from tests.support.fake_gate import Gate
from tests.support.server import PATIENCE


def make_options(gate: Gate | str, program: str) -> Namespace:
    """Return the options of a hook of this program."""
    url = gate if isinstance(gate, str) else gate.url
    return Namespace(program=program, url=url, key_env="NO_SUCH_KEY", key_file=None, limit=PATIENCE)
