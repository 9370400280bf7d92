"""Pictures in outputs: each has an address of its own, and bytes of other types stay text."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from dashboard.cards.payloads import media
from tests.support.payloads import PNG, render_output


@pytest.mark.parametrize(
    "output",
    [
        f"data:image/png;base64,{PNG}",
        {"content": [{"type": "text", "text": "Here:"}, {"type": "image", "data": PNG, "mimeType": "image/png"}]},
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}],
        {"shot": f"data:image/png;base64,{PNG}", "width": 1},
    ],
)
@pytest.mark.parametrize("full", [True, False])
def test_a_picture_is_shown_from_its_own_address(output: Any, full: bool) -> None:
    html = render_output(output, full=full)
    assert 'src="/calls/7-1/pictures/out/0/"' in html
    assert media.decode_picture(media.list_pictures(output)[0])[1] == "image/png"


@pytest.mark.parametrize(
    "content",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        b"<!doctype html><script>1</script>",
        b"",
        b"\x89PN",
    ],
)
def test_what_is_no_picture_is_text(content: bytes) -> None:
    text = base64.b64encode(content).decode()
    output = {"content": [{"type": "image", "data": text, "mimeType": "image/png"}]}
    assert "<img" not in render_output(output)
    with pytest.raises(ValueError):
        media.decode_picture(text)
