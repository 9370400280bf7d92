"""Texts to copy: the address and the key are in them, and nothing of the template is left."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.tables import loop_over
from toolcards.connect import snippet_text

NAMES = sorted(path.stem for path in snippet_text.FOLDER.glob("*.txt"))
TEMPLATE_MARKS = re.compile(r"\{%.*?%\}|\{\{ \w+ \}\}")


def render(name: str, base: str, key: str = "") -> str:
    """Render a snippet with whatever other values it names."""
    template = (snippet_text.FOLDER / f"{name}.txt").read_text("utf-8")
    names = {*re.findall(r"\{\{ (\w+) \}\}|\{% if (\w+)", template)}
    extra = {name: f"<{name}>" for pair in names for name in pair if name not in ("", "base", "socket", "key")}
    return snippet_text.render_snippet(name, base, key, **extra)


@loop_over("name", NAMES)
def test_nothing_of_a_template_is_left(name: str) -> None:
    for key in ("", "tck_a_key"):
        text = render(name, "http://127.0.0.1:8123", key)
        assert not TEMPLATE_MARKS.search(text) and text.endswith("\n") and text == text.strip() + "\n"


@loop_over("name", NAMES)
def test_a_key_is_in_a_text_only_where_one_is_given(name: str) -> None:
    template = (snippet_text.FOLDER / f"{name}.txt").read_text("utf-8")
    assert ("tck_a_key" in render(name, "http://127.0.0.1:8123", "tck_a_key")) is ("{{ key }}" in template)
    assert "tck_" not in render(name, "http://127.0.0.1:8123")


@pytest.mark.parametrize(
    ("base", "socket"), [("http://127.0.0.1:8123", "ws://127.0.0.1:8123"), ("https://a.b", "wss://a.b")]
)
def test_a_socket_has_the_address_of_the_server(base: str, socket: str) -> None:
    text = render("websocket_py", base, "tck_a_key")
    assert socket in text and "wss" not in text.replace(socket, "")


def test_a_value_is_taken_as_it_is() -> None:
    for key in (r"\1\g<0>", "{{ base }}", "$HOME"):
        assert key in render("websocket_py", "http://127.0.0.1:8123", key)


def test_shell_commands_read_the_environment() -> None:
    text = snippet_text.render_shell_snippet("curl_decide")
    assert "$TOOLCARDS_URL/api/v1/calls/decide" in text and "$TOOLCARDS_AGENT_KEY" in text


def test_the_editors_settings_are_json() -> None:
    assert json.loads(snippet_text.render_snippet("acp", "http://127.0.0.1:8123", "tck_a_key"))


def test_a_snippet_that_is_missing_or_lacks_a_value_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        snippet_text.render_snippet("nothing", "http://127.0.0.1:8123")
