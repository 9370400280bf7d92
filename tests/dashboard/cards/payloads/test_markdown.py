"""Markdown of agents: what is shown as Markdown, and that hostile text gets no markup."""

from __future__ import annotations

import pytest

from dashboard.cards.payloads import markdown
from tests.support.payloads import MARKUP, list_elements, render_output


def test_prose_of_a_tool_that_fetches_is_markdown_and_code_of_one_that_reads_is_not() -> None:
    text = "# Title\n\nSome **bold** words and [a link](https://example.com/).\n\n- one\n- two\n"
    html = render_output(text, "fetch")
    assert "<h4>Title</h4>" in html and "<strong>bold</strong>" in html and "<li>one</li>" in html
    assert "https://example.com/" in html and 'href="https://example.com/' not in html
    assert 'class="prose"' not in render_output(text, "read")


@pytest.mark.parametrize(
    "text",
    [
        "# a\n\n**b** " + MARKUP,
        "# a\n\n```" + '"onclick="x" \u202e' + "\ncode\n```\n",
        "# a\n\n|a|b|\n|:-|-:|\n|" + MARKUP + "|d|\n",
        "# a\n\n**b** ![x](https://example.com/a.png) <https://example.com> [a]: https://example.com",
        "# a\n\n**b** [x](javascript:alert(1))",
    ],
)
def test_hostile_markdown_has_no_attributes_links_or_pictures(text: str) -> None:
    html = markdown.render_markdown(text)
    allowed = {"h4", "p", "strong", "em", "code", "pre", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td",
               "span", "br", "hr", "blockquote"}  # fmt: skip
    for tag, attributes in list_elements(html):
        assert tag in allowed and not attributes, (tag, attributes)
