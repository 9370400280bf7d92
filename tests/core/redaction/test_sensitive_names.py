"""Sensitive names: which tell that a value is a secret, and which do not."""

from __future__ import annotations

# ruff: noqa: E501 - tables
import json

from tests.support.tables import loop_over
from toolcards.core.redaction.redactor import Redactor
from toolcards.core.redaction.sensitive_names import classify_name

HIDE = Redactor(b"a key of the tests")
S = "Zx9vK3qLm7"  # the planted secret


SECRET_NAMES = (
    "password PASSWORD dbPassword db_password DB-PASS userPassword passwd pwd secret clientSecret client_secret token authToken "
    "access_token refreshToken id_token api_key apiKey APIKey x-api-key apikey authorization Authorization cookie set-cookie "
    "privateKey private_key credentials connectionString connection_string AWS_SECRET_ACCESS_KEY secret_id sessionToken otp cvv "
    "password1 new_password password_confirmation GITHUB_TOKEN csrf_token accesstoken dbpassword passphrase mnemonic storepass srcstorepass keypass"
)
PLAIN_NAMES = (
    "max_tokens maxTokens token_count tokenizer next_page_token nextPageToken page_token tokens_used total_tokens eos_token "
    "password_policy passwordless secretary secret_name token_type token_url password_file key public_key primary_key cache_key "
    "idempotency_key session_id author compass bypass passed tests_passed cookie_consent path name keyboard monkey token_limit "
    "password_command passwordCommand token_cmd"
)


@loop_over("name", SECRET_NAMES.split())
def test_these_names_tell(name: str) -> None:
    assert classify_name(name)
    assert S not in json.dumps(HIDE.value({name: S, "more": [{name: {"deep": [S]}}]}))


@loop_over("name", PLAIN_NAMES.split())
def test_these_names_do_not_tell(name: str) -> None:
    fields = {name: "north", "n": {name: 12}}
    assert HIDE.value(fields) is fields
