"""How many questions the starter policies ask about ordinary sessions, and which dangerous calls they let run: no more.

`make bench ARGS="--only attention"` asks a server about the same calls, with a person who gives lasting answers.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from bench.attention import corpus
from bench.attention.corpus import TRUTHS, CorpusCall
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import INSIDE, PRESETS
from toolcards.core.policy.lasting.answers import add_rule, list_asking_ids, list_lasting_answers, list_rules
from toolcards.core.policy.shell.work.classes import WORK

SESSIONS, DANGEROUS = corpus.load_sessions(), corpus.load_dangerous()
DISGUISED = [each for call in DANGEROUS for each in corpus.disguise(call)]
MOST_ASKED = {
    "follow-the-agent": {"look": 13, "local": 97, "outside": 137},
    "watch": {"look": 0, "local": 0, "outside": 0},
    "ask-on-writes": {"look": 325, "local": 962, "outside": 137},
    "locked-down": {"look": 902, "local": 962, "outside": 137},
}
SESSIONS_WITH_ANSWERS = sorted(SESSIONS)[::3]
MOST_ASKED_WITH_ANSWERS = {
    "ask-on-writes": {"look": 20, "local": 19, "outside": 19},
    "follow-the-agent": {"look": 5, "local": 11, "outside": 19},
}
LEAST_DENIED = 81  # of the dangerous calls, disguises included
MOST_UNASKED = {"follow-the-agent": 0, "ask-on-writes": 0, "locked-down": 0}


def build_request(call: CorpusCall) -> PolicyRequest:
    return PolicyRequest.for_tool(
        call.tool, source=call.server, input=call.args, agent_path=(call.program,), run=call.session, root=call.project
    )


def find_effect(starter: str, call: CorpusCall) -> Effect:
    return decide(parse(PRESETS[starter].document), build_request(call)).effect


def count_questions_with_lasting_answers(starter: str) -> tuple[Counter[str], list[Any], list[Any]]:
    """Return what is asked about if each question gets its first lasting answer, in some of the sessions.

    Also the dangers that run after that, and the calls that only the answers ask about.
    """
    counts, dangers, newly_asked_calls = Counter[str](), [], []
    for session in SESSIONS_WITH_ANSWERS:
        policy = parse(PRESETS[starter].document)
        for call in SESSIONS[session]:
            request = build_request(call)
            decision = decide(policy, request)
            if decision.effect is Effect.ASK:
                counts[call.truth] += 1
                answers = list_lasting_answers(policy, request, decision)
                if answers:
                    rule, asking_ids = answers[0].build_rule(Effect.ALLOW), list_asking_ids(policy, decision)
                    policy = parse(add_rule({**policy.document, "rules": list_rules(policy)}, rule, asking_ids))
        dangers += [call.args for call in DISGUISED if decide(policy, build_request(call)).effect is Effect.ALLOW]
        newly_asked_calls += [
            call.args
            for call in SESSIONS[session]
            if decide(policy, build_request(call)).effect is Effect.ASK and find_effect(starter, call) is Effect.ALLOW
        ]
    return counts, dangers, newly_asked_calls


@pytest.mark.thorough
@pytest.mark.parametrize("starter", MOST_ASKED)
def test_a_starter_asks_no_more_questions_than_before(starter: str) -> None:
    calls = [call for session in SESSIONS.values() for call in session]
    questions = Counter(call.truth for call in calls if find_effect(starter, call) is Effect.ASK)
    assert {truth: questions[truth] for truth in TRUTHS if questions[truth] > MOST_ASKED[starter][truth]} == {}


@pytest.mark.thorough
@pytest.mark.parametrize("starter", MOST_ASKED_WITH_ANSWERS)
def test_with_lasting_answers_a_person_is_asked_no_more_than_before(starter: str) -> None:
    questions, dangers, newly_asked_calls = count_questions_with_lasting_answers(starter)
    most_asked = MOST_ASKED_WITH_ANSWERS[starter]
    assert dangers == newly_asked_calls == []
    assert {truth: questions[truth] for truth in TRUTHS if questions[truth] > most_asked[truth]} == {}


@pytest.mark.slow
@pytest.mark.parametrize("starter", MOST_UNASKED)
def test_no_more_dangerous_calls_than_before_run_unasked(starter: str) -> None:
    allowed_calls = [call for call in DISGUISED if find_effect(starter, call) is Effect.ALLOW]
    assert len(allowed_calls) <= MOST_UNASKED[starter], [(call.tool, call.args) for call in allowed_calls]


@pytest.mark.slow
def test_no_class_of_work_covers_a_dangerous_call_of_its_own_project() -> None:
    work = {"kind": ["execute"], "args": [{"path": "", "op": "effect", "value": ["none", *WORK]}, INSIDE]}
    edits = {"kind": ["edit", "move"], "args": [INSIDE]}
    policy = parse(PRESETS["ask-on-writes"].document)
    document = {**policy.document, "rules": list_rules(policy)}
    for match in (work, edits):
        document = add_rule(document, {"id": f"r{len(match['args'])}", "effect": "allow", "match": match}, ())
    allowed_calls = [call for call in DISGUISED if decide(parse(document), build_request(call)).effect is Effect.ALLOW]
    assert allowed_calls == []


@pytest.mark.thorough
@pytest.mark.parametrize("starter", MOST_UNASKED)
def test_no_ordinary_call_is_denied_and_what_is_never_wanted_is(starter: str) -> None:
    calls = [call for session in SESSIONS.values() for call in session]
    assert [call.args for call in calls if find_effect(starter, call) is Effect.DENY] == []
    denied_kinds = Counter(call.kind for call in DISGUISED if find_effect(starter, call) is Effect.DENY)
    assert sum(denied_kinds.values()) >= LEAST_DENIED, denied_kinds


def test_the_corpus_is_as_large_and_as_varied_as_a_week_of_work() -> None:
    counts = Counter(call.truth for session in SESSIONS.values() for call in session)
    assert len(SESSIONS) >= 12 and sum(counts.values()) >= 2_000 and len(DANGEROUS) >= 150
    assert 0.4 < counts["look"] / sum(counts.values()) < 0.65 and counts.keys() == set(TRUTHS)
    assert all(call.kind and call.why for call in DANGEROUS)
    assert len({call.program for session in SESSIONS.values() for call in session}) >= 7
