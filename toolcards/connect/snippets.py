"""The texts to copy, with the server's address in them, for the connect page and the command."""

from __future__ import annotations

from typing import Any

from django.template.loader import render_to_string


def render_snippet(name: str, base: str, key: str = "", **extra: Any) -> str:
    """Return a snippet; without a key it reads address and key from the environment where it can."""
    socket = "ws" + base.removeprefix("http")
    context = {"base": base, "socket": socket, "key": key, **extra}
    return render_to_string(f"connect/snippets/{name}.txt", context).strip() + "\n"


def render_shell_snippet(name: str) -> str:
    """Return a snippet of shell commands that takes address and key from the environment."""
    return render_snippet(name, "$TOOLCARDS_URL", "$TOOLCARDS_AGENT_KEY")
