"""Plain ballots: the ones that BallotForm reads, or none."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st

from dashboard.inbox.ballots import read_plain_ballot
from dashboard.inbox.forms import BallotForm

WORDS = st.one_of(
    st.sampled_from(["", " ", "approve", "deny", "edit", "answer", "0", "7", " 7 ", "-1", "1e3", "\uff17", "ab" * 32,
                     "AB", "x" * 101, "x" * 2_001, "null", "run", "{}", "\0", "until", "15"]),
    st.text(max_size=5),
)  # fmt: skip
PLAIN = st.fixed_dictionaries({"decision": st.sampled_from(["approve", "deny"]), "rev": st.just("3")})
FIELDS = st.lists(
    st.tuples(st.sampled_from([*BallotForm.base_fields, "next", "csrfmiddlewaretoken"]), WORDS), max_size=8
)


@given(PLAIN, FIELDS)
def test_a_ballot_that_is_read_is_the_one_of_the_form(plain: dict[str, str], fields: list[tuple[str, str]]) -> None:
    query = QueryDict(urlencode([*plain.items(), *fields], errors="surrogatepass"))
    ballot = read_plain_ballot("apr_1", query)
    if ballot is not None:
        form = BallotForm(query)
        assert form.is_valid(), form.errors
        assert ballot == form.ballot("apr_1", signed_in_at=None)  # type: ignore[arg-type]


def test_what_the_form_of_a_card_sends_is_plain() -> None:
    sent = {
        "decision": "approve", "rev": "3", "args_sha256": "ab" * 32, "view_sha256": "cd" * 32, "reason": "Fine ",
        "grant": "", "edited_args": "{}",
    }  # fmt: skip
    ballot = read_plain_ballot("apr_1", QueryDict(urlencode(sent)))
    assert ballot is not None and (ballot.rev, ballot.reason, ballot.edited_args) == (3, "Fine", None)
