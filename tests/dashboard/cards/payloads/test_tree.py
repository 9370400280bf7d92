"""Values as trees, lists of fields and tables: what folds, what is cut, and where the rest is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.payloads import list_elements, read_text, render_output


def test_a_nested_object_is_a_tree_of_folds_with_its_raw_text() -> None:
    value = {"user": {"name": "Kim", "roles": [{"a": {"b": 1}}, 2]}, "ok": True}
    html = render_output(value)
    assert html.count('<details class="node"') == 4 and read_text(html).count("Kim") > 1
    ids = [attributes["id"] for _, attributes in list_elements(html) if attributes.get("id")]
    assert len(ids) == len(set(ids))
    raw = html.split('class="raw"')[1]
    assert read_text(raw.split("</pre>")[0]).endswith(" ".join(json.dumps(value, indent=2).split()))


def test_a_flat_object_is_a_list_of_fields_without_a_raw_twin() -> None:
    html = render_output({"a": 1, "b": "x", "c": None, "d": ""})
    assert html.count("<dt>") >= 4 and 'class="raw"' not in html and "null" in html


def test_a_list_of_like_objects_is_a_table() -> None:
    html = render_output([{"sku": "a<b", "cents": 12}, {"sku": "c", "stock": None}])
    assert (
        html.count("<th ") == 3 and html.count("<tr>") == 3 and '<td class="num">12</td>' in html and "a&lt;b" in html
    )


def test_text_that_spells_json_is_a_tree() -> None:
    assert '<details class="node"' in render_output('{"a": {"b": [1, 2, {"c": 3}]}}')


@pytest.mark.parametrize("value", ["[" * 10_000 + "]" * 10_000, '{"a":' * 3_000 + "1" + "}" * 3_000])
def test_text_that_is_nested_without_end_stays_text(value: str) -> None:
    html = render_output(value)
    assert html.count("<details") < 40


def test_a_deep_value_stops_at_a_limit_and_says_where_the_rest_is() -> None:
    value: Any = 1
    for _ in range(40):
        value = {"a": value}
    assert "Nested deeper than shown here" in render_output(value)


def test_a_wide_value_stops_at_a_limit_and_says_how_much_is_left() -> None:
    html = render_output([0] * 5_000)
    assert "2000 more: see the raw text" in html and html.count("<dt>") < 3_100
