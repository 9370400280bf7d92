"""The texts to copy, with a server's address in them: the same for the connect page and for the command."""

from __future__ import annotations

from typing import Any

from django.template.loader import render_to_string


def text(name: str, base: str, key: str = "", **more: Any) -> str:
    """Return a snippet; without a key it reads address and key from the environment, where it can."""
    socket = "ws" + base.removeprefix("http")
    said = {"base": base, "socket": socket, "key": key, **more}
    return render_to_string(f"connect/snippets/{name}.txt", said).strip() + "\n"


def shell(name: str) -> str:
    """Return a snippet of shell commands that takes address and key from the environment."""
    return text(name, "$TOOLCARDS_URL", "$TOOLCARDS_AGENT_KEY")
