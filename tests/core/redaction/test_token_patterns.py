"""Tokens with a known form: each is hidden as its own kind, wherever it stands."""

# ruff: noqa: E501 - tables

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.core.redaction.redactor import Redactor
from toolcards.core.redaction.token_patterns import SHAPES

HIDE = Redactor(b"a key of the tests")


LONG = "aB3dE5gH7jK9" * 4


# Written out by hand, as the makers document them: what the code knows of them is not asked.
TOKENS = {
    "github": f"ghp_{LONG[:36]}", "github, fine-grained": f"github_pat_11A{LONG}_x", "github app": f"ghs_{LONG[:36]}",
    "gitlab": f"glpat-{LONG[:20]}", "gitlab, routable": f"glpat-{LONG[:27]}.01.0w0x1y2z3", "gitlab runner": f"glrt-{LONG[:20]}",
    "slack": f"xoxb-123456789012-{LONG[:24]}", "slack, rotated": f"xoxe.xoxp-1-{LONG}", "slack app": f"xapp-1-A0-{LONG}",
    "discord": f"MTIzNDU2Nzg5MDEyMzQ1Njc4.GaBcDe.{LONG[:38]}", "discord hook": f"discord.com/api/v10/webhooks/1/{LONG}",
    "telegram": f"123456789:AA{LONG[:33]}", "stripe": f"sk_live_{LONG[:24]}", "stripe, restricted": f"rk_test_{LONG[:24]}",
    "anthropic": f"sk-ant-api03-{LONG}", "openai": f"sk-proj-{LONG}", "openai, older": f"sk-{LONG}", "openrouter": f"sk-or-v1-{LONG}",
    "groq": f"gsk_{LONG}", "xai": f"xai-{LONG}", "perplexity": f"pplx-{LONG}", "huggingface": f"hf_{LONG[:34]}",
    "replicate": f"r8_{LONG[:37]}", "langsmith": f"lsv2_pt_{'0a1b2c3d' * 4}_0a1b2c3d4e", "pinecone": f"pcsk_3aBcD_{LONG}",
    "nvidia": f"nvapi-{LONG}", "tavily": f"tvly-dev-{LONG[:32]}", "elevenlabs": f"sk_{'0a1b2c3d' * 6}", "google": f"AIza{LONG[:35]}",
    "google oauth": f"ya29.a0{LONG}", "google refresh": f"1//0g{LONG}", "google client": f"GOCSPX-{LONG[:28]}",
    "aws": "AKIAIOSFODNN7EXAMPLE", "aws, temporary": "ASIAIOSFODNN7EXAMPLE", "bedrock": f"ABSKQmVk{LONG}",
    "azure ad": f"abc8Q~{LONG[:34]}", "npm": f"npm_{LONG[:36]}", "pypi": f"pypi-AgEIcHlwaS5vcmc{LONG}", "docker": f"dckr_pat_{LONG[:27]}",
    "rubygems": f"rubygems_{'0a1b2c3d' * 6}", "nuget": f"oy2{'a1b2c3d4' * 5}xyz", "digitalocean": f"dop_v1_{'0a1b2c3d' * 8}",
    "heroku": f"HRKU-{LONG}", "fly": f"fo1_{LONG}", "netlify": f"nfp_{LONG[:36]}", "supabase": f"sbp_{'0a1b2c3d' * 5}",
    "supabase secret": f"sb_secret_{LONG[:31]}", "planetscale": f"pscale_tkn_{LONG}", "neon": f"napi_{'a1b2c3d4' * 8}",
    "mongodb": f"mdb_sa_sk_{LONG}", "databricks": f"dapi{'0a1b2c3d' * 4}", "doppler": f"dp.pt.{LONG}", "vault": f"hvs.{LONG}",
    "terraform": f"{LONG[:14]}.atlasv1.{LONG}", "pulumi": f"pul-{'0a1b2c3d' * 5}", "onepassword": f"ops_eyJ{LONG}",
    "twilio": f"SK{'0a1b2c3d' * 4}", "sendgrid": f"SG.{LONG[:22]}.{LONG[:43]}", "mailgun": f"key-{'0a1b2c3d' * 4}",
    "mailchimp": f"{'0a1b2c3d' * 4}-us12", "resend": f"re_aB3dE5gH_{LONG[:24]}", "brevo": f"xkeysib-{'0a1b2c3d' * 8}-{LONG[:16]}",
    "shopify": f"shpat_{'0a1b2c3d' * 4}", "square": f"sq0atp-{LONG[:22]}", "plaid": "access-sandbox-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
    "atlassian": f"ATATT3x{LONG}", "linear": f"lin_api_{LONG[:40]}", "notion": f"ntn_{LONG[:46]}", "airtable": f"pat{LONG[:14]}.{'0a1b2c3d' * 8}",
    "figma": f"figd_{LONG[:40]}", "postman": f"PMAK-{'0a1b2c3d' * 3}-{'0a1b2c3d' * 4}ab", "contentful": f"CFPAT-{LONG[:43]}",
    "hubspot": "pat-na1-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f", "sentry": f"sntryu_{'0a1b2c3d' * 8}", "new relic": "NRAK-ABCD1234ABCD1234ABCD1234ABC",
    "grafana": f"glsa_{LONG[:32]}_0a1b2c3d", "dynatrace": f"dt0c01.{LONG[:24]}.{LONG}", "circleci": f"CCIPAT_{LONG}", "sonar": f"squ_{'0a1b2c3d' * 5}",
    "artifactory": f"AKCp{LONG}{LONG}", "facebook": f"EAAGm0PX4ZCpsBA{LONG}{LONG}", "mapbox": f"sk.eyJ1{LONG}.{LONG[:22]}",
    "tailscale": f"tskey-auth-{LONG}", "openshift": f"sha256~{LONG[:43]}", "buildkite": f"bkua_{'0a1b2c3d' * 5}", "readme": f"rdme_{'a1b2c3d4' * 8}",
    "age": "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33",
    "a web token": f"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.{LONG}", "one that begins otherwise": f"eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.e30.{LONG}",
}  # fmt: skip


@loop_over("token", TOKENS.values(), ids=TOKENS)
def test_a_token_of_a_large_provider_is_known_wherever_it_stands(token: str) -> None:
    for variant in (
        token,
        f"use {token}, please",
        f'"{token}"',
        f"x={token}&y=1",
        f"(see {token})",
        f"a\\n{token}\\nb",
    ):
        masked_text = HIDE.text(variant)
        assert token[12:] not in masked_text and token[-6:] not in masked_text, masked_text
        assert "‹secret " in masked_text


@given(st.data())
def test_every_shape_is_hidden_as_its_own_kind(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    size = max(shape.enough, 24)
    token = data.draw(st.from_regex(re.compile(rf"{shape.prefix}{shape.body}{{{size}}}", re.ASCII), fullmatch=True))
    masked_text = HIDE.text(f"use {token} now")
    body = token[re.match(shape.prefix, token, re.ASCII).end() :]
    if not shape.plain or not re.fullmatch(r"[a-z_.\-]+|[a-z]+(?:[A-Z][a-z]+){1,4}", body):
        assert token not in masked_text and "‹secret " in masked_text


@pytest.mark.parametrize("end", ["--", "-abc", "_", ".x.y"])
def test_a_token_is_hidden_whatever_follows_a_separator_in_it(end: str) -> None:
    token = f"ABSKAb12{'x9' * 12}{end}"
    assert "x9x9" not in HIDE.text(f"use {token} now")


def test_a_shape_whose_beginning_may_be_any_word_is_searched_for_by_its_anchor() -> None:
    for shape in SHAPES:
        assert shape.anchor or not re.match(r"\[[^\]]*\]\{", shape.prefix), shape
        assert shape.prefix.endswith(shape.anchor)


@given(st.text(alphabet="aM0Q~:A.-_9 \\n", max_size=40), st.data())
def test_a_token_with_an_anchor_is_found_after_any_text_that_ends_a_word(before: str, data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([shape for shape in SHAPES if shape.anchor]))
    pattern = re.compile(rf"{shape.prefix}{shape.body}{{{shape.enough}}}", re.ASCII)
    token = data.draw(st.from_regex(pattern, fullmatch=True))
    body = token[re.match(shape.prefix, token, re.ASCII).end() :]
    if not shape.plain or not re.fullmatch(r"[a-z_.\-]+|[a-z]+(?:[A-Z][a-z]+){1,4}", body):
        assert token not in HIDE.text(f"{before} {token}")
