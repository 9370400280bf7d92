"""Comments of policy documents: updates the YAML that a person wrote last without losing its comments."""

from __future__ import annotations

from io import StringIO
from itertools import pairwise
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from dashboard.policy.text.yaml_io import NotYaml, read_yaml, write_yaml
from toolcards.client.common.canonical_json import digest


def write_with_comments(document: dict[str, Any], earlier: str) -> str:
    """Write the document as YAML, with the earlier comments where possible."""
    if not earlier:
        return write_yaml(document)
    try:
        if digest(read_yaml(earlier).value) == digest(document):
            return earlier
        text = _rewrite(document, earlier)
        if digest(read_yaml(text).value) == digest(document):
            return text
    except (NotYaml, YAMLError, ValueError, TypeError, AttributeError, IndexError, KeyError, AssertionError):
        pass  # the library cannot read all valid YAML; then the comments are lost, not the policy
    return write_yaml(document)


def _rewrite(document: dict[str, Any], earlier: str) -> str:
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 100
    yaml.indent(mapping=2, sequence=_sequence_indent(earlier), offset=_sequence_indent(earlier) - 2)
    tree = yaml.load(earlier)
    # `yaml_io` writes new parts, so that all values are spelled in one way.
    target = yaml.load(write_yaml(document))
    result = StringIO()
    yaml.dump(_update(tree, target), result)
    return result.getvalue()


def _sequence_indent(text: str) -> int:
    """Return 4 if lists are indented below their name, else 2."""
    lines = text.splitlines()
    following = next((line for before, line in pairwise(lines) if before == "rules:"), "")
    return 4 if following.startswith("  -") else 2


def _update(node: Any, target: Any) -> Any:
    """Return the node with the target content; unchanged parts keep their spelling."""
    if isinstance(node, CommentedMap) and isinstance(target, CommentedMap):
        for name in [name for name in node if name not in target]:
            del node[name]
        for name, value in target.items():
            node[name] = _update(node[name], value) if name in node else value
        return node
    if isinstance(node, CommentedSeq) and isinstance(target, CommentedSeq):
        return _update_list(node, target)
    return node if type(node) is type(target) and node == target else target


def _update_list(node: CommentedSeq, target: CommentedSeq) -> CommentedSeq:
    """Update a list item by item.

    Rules keep their comments when others are added, removed or moved.
    """
    names = [_name_of(item) for item in target]
    for position in reversed(range(len(node))):
        if _name_of(node[position]) not in names:
            del node[position]
    for position, value in enumerate(target):
        present = [_name_of(item) for item in node]
        if names[position] in present[position:]:
            index = present.index(names[position], position)
            if index != position:
                node.insert(position, node.pop(index))
            node[position] = _update(node[position], value)
        else:
            node.insert(position, value)
    del node[len(target) :]
    return node


def _name_of(item: Any) -> Any:
    """Return what identifies an item of a list.

    The id of a rule, else its content.
    """
    if isinstance(item, CommentedMap):
        return ("id", item["id"]) if "id" in item else ("content", digest(_plain(item)))
    return ("value", repr(item))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value
