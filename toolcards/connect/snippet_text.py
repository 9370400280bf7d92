"""The texts to copy, with the server's address in them, for the connect page and the command.

Snippets are the files in `snippets/`: `{{ name }}` is a value, and `{% if name %}…{% else %}…{% endif %}` a choice, as
in Django's templates. They are rendered here, without Django, because `toolcards-client` prints them too.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).with_name("snippets")
_CHOICE = re.compile(r"\{% if (\w+) %\}(.*?)\{% else %\}(.*?)\{% endif %\}")
_VALUE = re.compile(r"\{\{ (\w+) \}\}")


def render_snippet(name: str, base: str, key: str = "", **extra: str) -> str:
    """Return a snippet.

    Without a key, it reads address and key from the environment.
    """
    values = {"base": base, "socket": "ws" + base.removeprefix("http"), "key": key, **extra}
    text = (FOLDER / f"{name}.txt").read_text("utf-8")
    text = _CHOICE.sub(lambda match: match[2] if values[match[1]] else match[3], text)
    return _VALUE.sub(lambda match: values[match[1]], text).strip() + "\n"


def render_shell_snippet(name: str) -> str:
    """Return a snippet of shell commands that reads the environment."""
    return render_snippet(name, "$TOOLCARDS_URL", "$TOOLCARDS_AGENT_KEY")
