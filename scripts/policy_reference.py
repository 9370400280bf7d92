"""Writes the reference of the policy language in docs/policy.md from the models and the registry of matchers.

`policy_reference.py` rewrites the section; with `--check` it only says whether the section is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "policy.md"
BEGIN, END = "<!-- generated: scripts/policy_reference.py -->\n", "<!-- end of the generated part -->\n"
# The models in the order in which people meet them, with their headings.
HEADINGS = {
    "Document": "The document",
    "RuleDoc": "A rule",
    "ClauseDoc": "Conditions: `match` and `unless`",
    "ArgumentDoc": "A condition on the input: `args`",
    "WhenDoc": "A window of time: `when`",
    "RateDoc": "A rate: `rate`",
    "AskDoc": "How people answer: `ask` and `default_ask`",
    "EscalateDoc": "Escalation: `escalate`",
    "ReviewerDoc": "A reviewer: `reviewers`",
}


def build_reference() -> str:
    """Return the generated part of the page, without its marks."""
    from toolcards.core.policy.language.document_model import PolicyDocument

    document = PolicyDocument.model_json_schema(by_alias=True)
    models = {"Document": document, **document["$defs"]}
    differences = set(models) ^ set(HEADINGS)
    if differences:
        raise SystemExit(f"No heading, or no model, for {', '.join(sorted(differences))}")
    parts = [_model_section(heading, models[name]) for name, heading in HEADINGS.items()]
    return "\n".join([*parts, _operator_section()])


def _model_section(heading: str, model: dict[str, Any]) -> str:
    required_fields = set(model.get("required", ()))
    rows = [
        f"| `{name}` | {_type_of(field)} | {_default_of(field, name in required_fields)} "
        f"| {field.get('description', '')} |"
        for name, field in model["properties"].items()
    ]
    return "\n".join([f"### {heading}", "", "| Field | Type | Default | Meaning |", "|---|---|---|---|", *rows, ""])


def _type_of(field: dict[str, Any]) -> str:
    types = list(dict.fromkeys(_types_of(field)))
    item_type = next((name for name in types if f"list of {name}" in types), None)
    text = f"{item_type}; or a list" if item_type else " or ".join(types)
    return text.replace("|", "\\|") or "any JSON value"


def _types_of(field: dict[str, Any]) -> Iterator[str]:
    for option in field.get("anyOf", [field]):
        if "anyOf" in option:
            yield from _types_of(option)
        elif "$ref" in option:
            yield f"object: {HEADINGS[option['$ref'].rsplit('/', 1)[1]].split(':')[0].lower()}"
        elif "enum" in option or "const" in option:
            yield ", ".join(f"`{value}`" for value in option.get("enum", [option.get("const")]))
        elif option.get("type") == "array":
            yield f"list of {_type_of(option['items'])}"
        elif option.get("type") == "string":
            yield "text"
        elif option.get("type") not in (None, "null"):
            yield str(option["type"])


def _default_of(field: dict[str, Any], is_required: bool) -> str:
    if is_required:
        return "required"
    value = field.get("default")
    if value is None or value in ([], {}) or isinstance(value, dict):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _operator_section() -> str:
    from toolcards.core.policy.matching.matchers import MATCHERS

    rows = [
        f"| `{matcher.name}` | {matcher.label} | {matcher.help.replace('|', chr(92) + '|')} |"
        for matcher in MATCHERS.values()
    ]
    return "\n".join(["### Operators", "", "| Operator | In the editor | Meaning |", "|---|---|---|", *rows, ""])


def main() -> int:
    """Write the section, or check it."""
    sys.path.insert(0, str(ROOT))
    page = PAGE.read_text()
    before, _, remainder = page.partition(BEGIN)
    _, _, after = remainder.partition(END)
    new_page = f"{before}{BEGIN}\n{build_reference()}\n{END}{after}"
    if "--check" in sys.argv[1:]:
        if page != new_page:
            print("docs/policy.md is out of date: run scripts/policy_reference.py")
        return int(page != new_page)
    PAGE.write_text(new_page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
