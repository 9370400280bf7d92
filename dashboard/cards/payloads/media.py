"""Pictures in outputs, found in document order and served from their own addresses.

A picture is a `data:` URL, or base64, of a type that its first bytes prove. A member with one of the names that clients
use for base64 (MCP, Anthropic, Claude Code, AI SDK, LangChain, OpenAI, Gemini, Pydantic AI) makes the whole object a
picture. SVG is not shown, because it can run scripts.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

MAX_PICTURES = 24
MAX_BASE64 = 12_000_000  # characters
MAX_DEPTH = 16
_BASE64 = ("data", "base64", "b64_json", "blob", "bytes", "result")
MIN_BASE64 = 60  # characters of base64 without a name or an address; a shorter text can look like it by chance
_DATA_URL = re.compile(r"data:image/[a-z+.-]{1,20}(?:;[a-z]{1,12}=[^;,]{1,20})?;base64,", re.IGNORECASE)
_PLAIN_BASE64 = str.maketrans("-_", "+/")  # Pydantic writes the alphabet for URLs
_SIGNATURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
               (b"GIF89a", "image/gif"))  # fmt: skip


def list_pictures(value: Any) -> list[str]:
    """Return the base64 text of each picture, in document order."""
    return [text for text, _ in zip(_find_pictures(value, 0), range(MAX_PICTURES), strict=False)]


def get_picture_text(value: Any) -> str:
    """Return the base64 text of a picture, else ""."""
    text: Any = ""
    if isinstance(value, str):
        match = _DATA_URL.match(value[:100])
        text = value[match.end() :] if match else value if len(value) >= MIN_BASE64 else ""
    elif isinstance(value, dict):
        text = next((value[name] for name in _BASE64 if isinstance(value.get(name), str) and value[name]), "")
    return text if text and isinstance(text, str) and _find_type(text) and len(text) <= MAX_BASE64 else ""


def decode_picture(text: str) -> tuple[bytes, str]:
    """Return the bytes and the media type.

    Raises ValueError if it is not a picture.
    """
    try:
        content = _decode(text)
    except (binascii.Error, ValueError) as error:
        raise ValueError("not base64") from error
    media_type = _identify(content)
    if not media_type:
        raise ValueError("not a picture of a type that is shown")
    return content, media_type


def _find_pictures(value: Any, depth: int) -> Iterator[str]:
    if text := get_picture_text(value):
        yield text
    elif isinstance(value, (dict, list)) and depth < MAX_DEPTH:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _find_pictures(part, depth + 1)


def _find_type(text: str) -> str:
    try:
        return _identify(_decode(re.sub(r"\s", "", text[:40])[:32]))
    except (binascii.Error, ValueError):
        return ""


def _decode(text: str) -> bytes:
    text = re.sub(r"\s", "", text).rstrip("=").translate(_PLAIN_BASE64)
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def _identify(content: bytes) -> str:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((name for signature, name in _SIGNATURES if content.startswith(signature)), "")
