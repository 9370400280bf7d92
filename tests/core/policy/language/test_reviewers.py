"""Reviewers of a document: fields that fit their kind, and names that exist; each fault has its place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.reviewers import MODEL, NAME, build_policy
from tests.support.tables import loop_over
from toolcards.core.policy.language.document import PolicyError, parse
from toolcards.core.policy.language.lint import lint
from toolcards.core.policy.reviewer import DEFAULT_PROMPT

FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"rules": [{"effect": "ask", "review": "other"}]}, "/rules/0/review", "unknown_reviewer"),
    ({"default_review": "other"}, "/default_review", "unknown_reviewer"),
    ({"reviewers": {"g": {"kind": "command"}}}, "/reviewers/g/command", "missing"),
    ({"reviewers": {"g": {"kind": "webhook"}}}, "/reviewers/g/url", "missing"),
    ({"reviewers": {"g": {"kind": "webhook", "url": "https://a.example", "prompt": "x"}}}, "/reviewers/g/prompt",
     "unknown_field"),
    ({"reviewers": {"g": {"kind": "model", "api": "openai", "url": "https://a.example"}}}, "/reviewers/g/model",
     "missing"),
    ({"reviewers": {"g": MODEL | {"url": "file:///etc/passwd"}}}, "/reviewers/g/url", "type"),
    ({"reviewers": {"g": MODEL | {"timeout": 121}}}, "/reviewers/g/timeout", "type"),
    ({"reviewers": {"g": MODEL | {"key": "sk-1"}}}, "/reviewers/g/key", "unknown_field"),
    ({"reviewers": {"g": {"kind": "oracle"}}}, "/reviewers/g/kind", "unknown_value"),
]  # fmt: skip


@loop_over(("document", "pointer", "code"), FAULTS)
def test_a_fault_is_refused_with_its_place(document: dict[str, Any], pointer: str, code: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse({"v": 1, **document})
    assert [(finding.pointer, finding.code) for finding in error.value.findings] == [(pointer, code)]


def test_a_rule_asks_its_reviewer_and_a_shadow_one_decides_nothing() -> None:
    terms = parse(build_policy()).rules[0].ask
    assert (terms.review, terms.shadow_review) == (NAME, "")
    terms = parse(build_policy({"mode": "shadow"})).rules[0].ask
    assert (terms.review, terms.shadow_review) == ("", NAME)
    policy = parse(build_policy({"prompt": None}) | {"default_review": NAME})
    assert policy.ask.review == NAME and policy.reviewers[NAME].prompt == DEFAULT_PROMPT


@loop_over(
    ("rule", "code"),
    [
        ({"effect": "deny"}, ["unused"]), ({"severity": "high"}, ["review_only_denies"]),
        ({"ask": {"quorum": 2}}, ["review_only_denies"]), ({"ask": {"reauth": True}}, ["review_only_denies"]), ({}, []),
    ],
)  # fmt: skip
def test_a_review_that_cannot_approve_is_a_warning(rule: dict[str, Any], code: list[str]) -> None:
    assert [finding.code for finding in lint(parse(build_policy(**rule))) if "review" in finding.pointer] == code
