"""Signs of secrets: masks are recognized, placeholders are no values, and random texts look random."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.redaction.redactor import Redactor
from toolcards.core.redaction.spans import MASK, NO_VALUE, SecretSpan, looks_random


def to_bytes_text(text: str) -> str:
    """Return the text as detectors read it: each byte is one character."""
    return text.encode().decode("latin-1")


@loop_over(
    "text",
    ["‹secret value 7 · f6c2›", "‹secret private-key 123456789 · 0000›", "‹secret aa 1 · abcd›"],
)
def test_a_mask_is_recognized(text: str) -> None:
    assert MASK.fullmatch(to_bytes_text(text))


@loop_over(
    "text",
    [
        "‹secret value 7 · f6c›", "‹secret value 7 · F6C2›", "‹secret value · f6c2›", "‹secret Value 7 · f6c2›",
        "‹secret v 7 · f6c2›", "‹secret value 1234567890 · f6c2›", "<secret value 7 · f6c2>", "‹secret value 7 · f6c2",
        f"‹secret {'a' * 25} 7 · f6c2›",
    ],
)  # fmt: skip
def test_what_an_agent_writes_like_a_mask_is_not_one(text: str) -> None:
    assert not MASK.search(to_bytes_text(text))


@loop_over(
    "text",
    [
        "$PASS", "${PASS}", "%PASS%", "%(pass)s", "{pass}", "{{ pass }}", "<your password>", "[REDACTED]", "***",
        "*" * 40, "...", "xxx", "XXXX", "str", "String", "None", "null", "TRUE", "optional", "is", "the",
        "process.env.PASS",
        "os.environ['PASS']", "os.getenv('P')", "getenv(P)", "input('Password: ')", "next(tokens)", ")", "]},",
        "$PASS,", "none.", "<your password>)",
    ],
)  # fmt: skip
def test_a_placeholder_is_no_value(text: str) -> None:
    assert NO_VALUE.fullmatch(text)


@loop_over(
    "text",
    [
        "", "$", "$PASS1!", "$A$B", "*", "**", "..", "xx", "xxy", "Is", "THE", "thesis", "nonexistent", "[a b]", "<>",
        f"<{'a' * 41}>", "[abc]", "hunter2", "process.env", "1str", "Next(tokens)",
    ],
)  # fmt: skip
def test_a_value_that_begins_like_a_placeholder_is_one(text: str) -> None:
    assert not NO_VALUE.fullmatch(text)


@loop_over(
    "text",
    ["Zx9vK3qLm7", "aB3dE5gH7jK9", "q2hkRk9uS1", "abcdEFGHij", "0a1b2c3d", "123456789012", "a-b_c.d1e2f3"],
)
def test_letters_with_digits_or_mixed_case_look_random(text: str) -> None:
    assert looks_random(text)


@loop_over(
    "text",
    [
        "",
        "abcdefgh",
        "ABCDEFGH",
        "Abcdefgh",
        "the-quick-brown-fox",
        "1234567",
        "12345678901",
        "aaaa1111",
        "a1a1a1a1",
        "A",
    ],
)
def test_words_short_numbers_and_repetitions_do_not(text: str) -> None:
    assert not looks_random(text)


@draw(50)
@given(st.text(st.sampled_from("aB3xY9-_"), min_size=80, max_size=90), st.text(max_size=200))
def test_only_the_beginning_of_a_long_text_counts(text: str, more: str) -> None:
    assert looks_random(text) == looks_random(text[:80]) == looks_random(text[:80] + more)


def test_a_span_is_its_place_and_its_kind() -> None:
    assert SecretSpan(1, 3, "value") == (1, 3, "value")


def test_what_the_redactor_writes_is_a_mask() -> None:
    assert MASK.fullmatch(to_bytes_text(Redactor(b"k").text("ghp_" + "aB3dE5gH7jK9" * 3)))
