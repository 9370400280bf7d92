"""Two requests that two servers take at the same moment have the results, and leave the rows, of some order of them.

A third session of PostgreSQL holds the lock that both need, until both wait for it. That is the moment in which each
has read what the other is about to change. The reference model is the same two requests, one after the other. All
writers lock rows in one order: runs, approvals, the end of the audit trail; so none of this ends in a deadlock.
"""

from __future__ import annotations

import functools
import itertools
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.attacked_site import PASSWORD, Person
from tests.support.server import PATIENCE, until
from tests.support.two_servers import LOCKS, POLICY, REQUESTS, STAGES, Site, Story, serve_twice

pytestmark = [pytest.mark.postgres, pytest.mark.thorough]
_TRAIL = "SELECT 1 FROM toolcards_audithead FOR UPDATE"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serve_twice(tmp_path_factory.mktemp("at-once")) as running:
        yield running


_runs = itertools.count()
stories = st.sampled_from(
    [(stage, first, second) for stage, names in STAGES.items() for first, second in itertools.permutations(names, 2)]
)


def run_at_once(story: Story, names: tuple[str, str], lock: str) -> dict[str, Any]:
    """Let both requests wait for the lock, the first one before the second; return their answers."""
    answers: dict[str, Any] = {}

    def act(server: int) -> None:
        answers[names[server]] = REQUESTS[names[server]](story, server)

    threads = [threading.Thread(target=act, args=(server,)) for server in range(2)]
    with psycopg.connect(story.site.url) as holder:
        holder.execute(LOCKS[lock], (story.run,))
        for number, thread in enumerate(threads, 1):
            thread.start()
            until(functools.partial(_is_waiting, story.site, thread, number, time.monotonic() + 1.0))
    for thread in threads:
        thread.join(PATIENCE)
    return answers


def _is_waiting(site: Site, thread: threading.Thread, number: int, deadline: float) -> bool:
    """Return whether the request waits, or needs no lock. Of two, PostgreSQL may have ended one to try again."""
    return not thread.is_alive() or site.count_waiting() >= number or time.monotonic() > deadline


def wait_for_lock(site: Site, thread: threading.Thread) -> None:
    thread.start()
    until(lambda: not thread.is_alive() or site.count_waiting() > 0)


@pytest.mark.parametrize(("stage", "name"), [(stage, name) for stage, names in STAGES.items() for name in names])
def test_a_request_that_waits_for_its_run_holds_no_other_row(site: Site, stage: str, name: str) -> None:
    story = Story(site, f"r{next(_runs)}", stage)
    thread = threading.Thread(target=REQUESTS[name], args=(story, 0))
    try:
        with psycopg.connect(site.url) as holder:
            holder.execute(LOCKS["its run"], (story.run,))
            wait_for_lock(site, thread)
            for lock in ("its approval", "its call"):
                holder.execute(f"{LOCKS[lock]} NOWAIT", (story.run,))
            holder.execute(f"{_TRAIL} NOWAIT")
    finally:
        thread.join(PATIENCE)
        if name == "stop all":
            site.stop_all(0, on=False)


def test_who_needs_several_runs_waits_for_the_first_without_the_others(site: Site) -> None:
    first, second = f"r{next(_runs)}", f"r{next(_runs)}"
    story, _ = Story(site, first, "allowed"), Story(site, second, "waiting")
    assert story.ask(0, "later", "bash")[0] == 200  # the call of the first run has waited for less long
    site.people[0].send("PUT", "/api/v1/policy/draft", POLICY)
    active = json.loads(site.people[0].send("GET", "/api/v1/policy/versions")[1])["active"]
    answer: list[Any] = []

    def apply_policy() -> None:
        body = {"expected_active": active, "apply_to_waiting": True}
        answer.append(site.people[0].send("POST", "/api/v1/policy/activate", body))

    thread = threading.Thread(target=apply_policy)
    with psycopg.connect(site.url) as holder:
        holder.execute(LOCKS["its run"], (first,))
        wait_for_lock(site, thread)
        assert thread.is_alive()
        holder.execute(f"{LOCKS['its run']} NOWAIT", (second,))
    thread.join(PATIENCE)
    assert answer[0][0] == 200


def run_in_turn(site: Site, stage: str, names: tuple[str, str]) -> tuple[Any, Any]:
    story = Story(site, f"r{next(_runs)}", stage)
    answers = {name: story.describe(REQUESTS[name](story, server)) for server, name in enumerate(names)}
    return answers, story.describe_end()


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@example(("allowed", "claim", "stop all"), "its run")
@example(("allowed", "read d", "stop all"), "its run")
@example(("waiting", "ask d", "stop all"), "its run")
@example(("waiting", "approve", "stop all"), "its approval")
@example(("waiting", "approve", "end"), "its approval")
@example(("waiting", "approve the run", "ask d"), "its call")
@example(("approved", "claim", "stop all"), "its call")
@example(("allowed", "claim", "stop all"), "its call")
@given(story=stories, lock=st.sampled_from(list(LOCKS)))
def test_two_requests_at_once_are_as_one_after_the_other(site: Site, story: tuple[str, str, str], lock: str) -> None:
    stage, first, second = story
    at_once = Story(site, f"r{next(_runs)}", stage)
    answers = run_at_once(at_once, (first, second), lock)
    described = {name: at_once.describe(answer) for name, answer in answers.items()}
    if "stop all" in (first, second):  # two commits: it is on, then all is stopped
        at_once.check_stopped(described.get("claim", [0])[0] == 200)
        return
    orders = [run_in_turn(site, stage, names) for names in ((first, second), (second, first))]
    assert (described, at_once.describe_end()) in orders


@pytest.fixture(scope="module")
def approver(site: Site) -> str:
    """The name of an approver."""
    code = f"from dashboard.accounts import roles; roles.create_person('ann', role='approver', password='{PASSWORD}')"
    completed = site.servers[0].manage("shell", "-v", "0", "-c", code)
    assert completed.returncode == 0, completed.stderr
    return "ann"


@pytest.mark.parametrize("lock", LOCKS)
def test_a_person_who_is_deactivated_while_they_vote_leaves_nothing_allowed(
    site: Site, approver: str, lock: str
) -> None:
    story, ann = Story(site, f"r{next(_runs)}", "waiting"), Person(site.servers[0], approver, PASSWORD)
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(story.vote(0, "approve", ann, grant="run")[0]))
    with psycopg.connect(site.url) as holder:
        holder.execute(LOCKS[lock], (story.run,))
        wait_for_lock(site, thread)
        site.set_active(approver, on=False)  # it waits for no vote
    thread.join(PATIENCE)
    try:
        # The vote came first if it was checked before, and else not at all; its standing approval is over either way.
        assert [row[0] for row in story.load_rows()] == [{200: "approved", 403: "pending"}[answers[0]]]
        assert (answers[0] == 200) is (lock == "its call")
        assert story.ask(1, "d", "bash")[1]["decision"] == "ask"
    finally:
        site.set_active(approver, on=True)
    assert story.ask(1, "e", "bash")[1]["decision"] == "ask"


@pytest.mark.parametrize("lock", ["its run", "its call"])
def test_calls_that_are_asked_about_as_break_glass_ends_are_counted_or_asked_about(site: Site, lock: str) -> None:
    story = Story(site, f"r{next(_runs)}", "waiting")
    site.break_glass(1, on=True)
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(story.ask(0, "d", "bash")[1]))
    with psycopg.connect(site.url) as holder:
        holder.execute(LOCKS[lock], (story.run,))
        wait_for_lock(site, thread)
        site.break_glass(1, on=False)
    thread.join(PATIENCE)
    passed_calls = site.fetch("SELECT passed FROM toolcards_breakglass ORDER BY id DESC LIMIT 1")[0][0]
    assert answers[0]["decision"] == ("allow" if passed_calls else "ask")
    assert story.ask(1, "e", "bash")[1]["decision"] == "ask"


def test_none_of_this_ended_in_a_deadlock(site: Site) -> None:
    assert site.fetch("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [(0,)]


def test_the_trail_and_the_log_are_whole_after_all_of_this(site: Site) -> None:
    for command in (("replay", "--check"), ("audit", "verify")):
        completed = site.servers[0].manage(*command)
        assert completed.returncode == 0, completed.stdout + completed.stderr
