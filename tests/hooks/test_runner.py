"""Plugins: a veto is not a crash, a crash changes nothing that it should not, every before is settled once."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.server import PATIENCE
from tests.support.trace_player import MANIFEST, Player, bodies, texts_of
from toolcards import gate, hooks
from toolcards.audit.rows import AuditRow
from toolcards.client.common import error_codes
from toolcards.core.calls import facts as f
from toolcards.core.calls import tool_events as h
from toolcards.core.calls.call_json import build_call_json
from toolcards.core.calls.tool_events import END_EVENTS, TAIL_LENGTH, LoggedFact, ToolEventSequencer
from toolcards.core.runs.run_state import RunState
from toolcards.gate.writer import outbox_writer
from toolcards.hooks import registry
from toolcards.models import Delivery, Event, Source, ToolCall, Webhook
from toolcards.notifications import formats, subscriptions
from toolcards.transports.api.event_replay import EventReplay


@pytest.fixture(autouse=True)
def _unplugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    subscriptions.clear_cache()
    monkeypatch.setattr(registry, "LIMIT", PATIENCE)
    yield
    hooks.clear()
    subscriptions.clear_cache()


def ask(source: Source, call_id: str = "c1", tool: str = "bash", run: str = "r", **more: Any) -> dict[str, Any]:
    return gate.decide(
        source,
        gate.DecisionRequest(run=run, call_id=call_id, tool=tool, args=more.pop("args", {"command": "ls"}), **more),
    )


class Before:
    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self.before = answer


def raising(error: BaseException) -> Callable[[Any], Any]:
    def answer(call: Any) -> None:
        raise error

    return answer


# ---------------------------------------------------------------- before


@pytest.mark.django_db
def test_a_veto_denies_the_call_for_its_reason(policy: Any, source: Source) -> None:
    policy({"default": "allow"})
    hooks.register(Before(raising(hooks.Veto("Not on a Friday.", "Wait for Monday."))), "calendar")
    decision = ask(source)
    assert (decision["decision"], decision["reason"]["code"], decision["by"]["kind"]) == (
        "deny",
        "plugin_veto",
        "plugin",
    )
    assert (decision["reason"]["text"], decision["reason"]["suggest"]) == ("Not on a Friday.", "Wait for Monday.")
    assert ToolCall.objects.get().state == "output-denied"
    assert ask(source)["reason"]["code"] == "plugin_veto"


@pytest.mark.django_db
@pytest.mark.parametrize("answer", [raising(KeyError("x")), raising(KeyboardInterrupt()), raising(SystemExit(0)),
    lambda call: "yes", lambda call: {"input": object()}, lambda call: {"args": {}}])  # fmt: skip
def test_a_crash_is_an_error_of_the_plugin_and_not_a_denial(policy: Any, source: Source, answer: Any) -> None:
    policy({"default": "allow"})
    hooks.register(Before(answer), "broken")
    decision = ask(source)
    card = ToolCall.objects.get().as_card()
    assert (
        decision["decision"] == "deny" and decision["reason"]["code"] == "plugin_crash" and decision["permit"] is None
    )
    assert decision["by"]["kind"] == "plugin"
    (row,) = AuditRow.objects.filter(act="decision")
    assert (row.actor_kind, row.actor) == ("plugin", "broken")
    assert (card.state, card.error.authority, card.error.retryable, card.error.phase) == (
        "output-error",
        "plugin",
        False,
        "before",
    )


@pytest.mark.django_db
def test_a_plugin_that_takes_too_long_is_an_error_that_may_be_tried_again(
    policy: Any, source: Source, monkeypatch: Any
) -> None:
    policy({"default": "allow"})
    monkeypatch.setattr(registry, "LIMIT", 0.05)
    release = threading.Event()
    hooks.register(Before(lambda call: release.wait(PATIENCE) and None), "slow")
    code = ask(source)["reason"]["code"]
    release.set()
    assert code == "plugin_timeout"
    assert ToolCall.objects.get().as_card().error.retryable is True


@pytest.mark.django_db
def test_a_replaced_input_is_judged_afresh(policy: Any, source: Source) -> None:
    policy({"default": "allow", "rules": [
        {"id": "no_rm", "effect": "deny", "match": {"args": [{"path": "/command", "op": "prefix", "value": "rm"}]}},
    ]})  # fmt: skip
    unplug = hooks.register(Before(lambda call: {"input": {"command": "rm -rf /"}}), "evil")
    assert ask(source)["decision"] == "deny"
    unplug()
    hooks.register(Before(lambda call: {"input": {"command": "ls -l"}}), "kind")
    decision = ask(source, "c2")
    card = ToolCall.objects.get(call_id="c2").as_card()
    assert (decision["decision"], decision["args"]) == ("allow", {"command": "ls -l"})
    assert (card.original_input, card.repair) == ({"command": "ls"}, "plugin kind")


@pytest.mark.django_db
def test_what_a_plugin_does_to_its_copy_does_not_count(policy: Any, source: Source) -> None:
    policy({"default": "allow"})
    hooks.register(Before(lambda call: call["input"].clear()), "careless")
    assert ask(source)["decision"] == "allow"
    assert ToolCall.objects.get().as_card().input == {"command": "ls"}


@pytest.mark.django_db
def test_plugins_are_asked_before_policy_and_deny_beats_a_quiet_plugin(policy: Any, source: Source) -> None:
    policy({"default": "deny"})
    messages: list[str] = []
    hooks.register(Before(lambda call: messages.append(call["call_id"])), "quiet")
    assert ask(source)["reason"]["code"] != "plugin_veto"
    assert ask(source)["decision"] == "deny"
    assert messages == ["c1"]


# ---------------------------------------------------------------- observers


def list_deliveries() -> list[tuple[str, str]]:
    return list(Delivery.objects.order_by("id").values_list("event", "event_id"))


@pytest.mark.django_db
def test_a_success_is_reported_as_before_after_settled(a_run: Any, source: Source) -> None:
    Webhook.objects.create(name="w", url="https://example.com/")
    a_run("r", f.InputReady("c", "bash", {"command": "ls"}, True), f.OutputReady("c", 1))
    events = [delivery.decoded_payload for delivery in Delivery.objects.order_by("id")]
    assert [event["event"] for event in events] == [h.EXECUTE_BEFORE, h.EXECUTE_AFTER, h.EXECUTE_SETTLED]
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
    assert {(event["run_id"], event["call_id"], event["attempt"]) for event in events} == {("r", "c", 1)}
    assert events[-1]["outcome"] == "ok" and len({event["id"] for event in events}) == 3


@pytest.mark.django_db
def test_a_failure_says_whose_it_is_and_whether_again_makes_sense(a_run: Any, source: Source) -> None:
    Webhook.objects.create(name="w", url="https://example.com/")
    secret = "ghp_" + "a1B2" * 9
    a_run("r", f.InputReady("c", "bash", {"a": 1}, True), f.OutputFailed("c", f"no {secret}", "rate_limited"))
    delivery = Delivery.objects.get(event=h.EXECUTE_ERROR).decoded_payload
    assert (delivery["authority"], delivery["retryable"], delivery["error"]["code"]) == ("tool", True, "rate_limited")
    assert delivery["phase"] == "execute" and delivery["side_effects"] == "none" and delivery["retry"]["safe"] == "yes"
    assert delivery["error"]["fingerprint"] == error_codes.make_fingerprint("bash", "rate_limited", "execute")
    assert delivery["error"]["fingerprint"] != error_codes.make_fingerprint("sh", "rate_limited", "execute")
    assert secret not in Delivery.objects.get(event=h.EXECUTE_ERROR).payload
    assert Delivery.objects.get(event=h.EXECUTE_SETTLED).decoded_payload["outcome"] == "error"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "value",
    [
        {"name": "API_TOKEN", "value": "Zx9vK3qLm7"}, {"key": "db-password", "val": "Zx9vK3qLm7"},
        {"headers": [["Authorization", "Zx9vK3qLm7"]]}, {"url": "https://u:Zx9vK3qLm7@h/?sig=Zx9vK3qLm7Zx9vK3"},
        {"command": ["curl", "-H", "X-Api-Key: Zx9vK3qLm7"]}, {"path": "/x?token=Zx9vK3qLm7"},
    ],
)  # fmt: skip
def test_no_line_about_a_call_tells_a_secret_that_its_structure_shows(a_run: Any, value: Any) -> None:
    Webhook.objects.create(name="w", url="https://example.com/")
    subscriptions.clear_cache()
    for tool in ("send", "bash", "read", "fetch"):
        a_run(f"r-{tool}", f.InputReady("c", tool, value, True), f.OutputFailed("c", "no", "rate_limited"))
    rows = [delivery.decoded_payload for delivery in Delivery.objects.all()]
    texts = [json.dumps(each) + repr(formats.build_message(each, "high")) for each in rows]
    assert texts and not [text for text in texts if "Zx9vK3qLm7" in text]


@pytest.mark.django_db
@pytest.mark.parametrize(("number", "delay"), [(2000, 2000), (0, 0), (86_400_000, 60_000), (None, None)])
def test_a_failure_reports_when_to_retry_if_that_is_known(
    a_run: Any, source: Source, number: int | None, delay: int | None
) -> None:
    Webhook.objects.create(name="w", url="https://example.com/")
    a_run("r", f.InputReady("c", "bash", {}, True), f.OutputFailed("c", "slowly", "rate_limited", after_ms=number))
    assert Delivery.objects.get(event=h.EXECUTE_ERROR).decoded_payload["retry"] == {"safe": "yes", "after_ms": delay}
    card = ToolCall.objects.get().as_card()
    assert card.error.after_ms == delay and build_call_json(card, run="r", id="x")["error"]["after_ms"] == delay


@pytest.mark.django_db
def test_a_later_snapshot_corrects_an_outcome_and_settles_nothing_twice(a_run: Any, source: Source) -> None:
    Webhook.objects.create(name="w", url="https://example.com/")
    a_run(
        "r", f.InputReady("c", "t", {}, True), f.OutputReady("c", "fine"), f.SnapshotReceived("c", "oops", error="failed"),
        f.SnapshotReceived("c", "oops", error="failed"),
    )  # fmt: skip
    assert [event for event, _ in list_deliveries()] == [
        h.EXECUTE_BEFORE,
        h.EXECUTE_AFTER,
        h.EXECUTE_SETTLED,
        h.EXECUTE_CORRECTED,
    ]
    delivery = Delivery.objects.get(event=h.EXECUTE_CORRECTED).decoded_payload
    assert (delivery["outcome"], delivery["error"]["message"], delivery["retryable"]) == ("error", "oops", False)
    assert (
        delivery["attempt"] == 1
        and delivery["seq"] > Delivery.objects.get(event=h.EXECUTE_SETTLED).decoded_payload["seq"]
    )


@pytest.mark.django_db
def test_a_result_after_all_corrects_what_was_given_up(a_run: Any, source: Source) -> None:
    messages: list[Any] = []

    class Hears:
        def corrected(self, call: Any) -> None:
            messages.append((call["outcome"], "error" in call))

    hooks.register(Hears(), "hears")
    a_run("r", f.InputReady("c", "t", {}, True), f.RunEnded(outcome="truncated"), f.OutputReady("c", "fine"))
    from toolcards.notifications import dispatcher

    dispatcher.send_due()
    assert messages == [("ok", False)]


@pytest.mark.django_db
def test_an_interruption_is_settled_and_no_error(a_run: Any, source: Source) -> None:
    Webhook.objects.create(name="w", url="https://example.com/")
    a_run("r", f.InputReady("c", "bash", {"a": 1}, True), f.RunEnded(outcome="aborted"))
    assert [event for event, _ in list_deliveries()] == [h.EXECUTE_BEFORE, h.EXECUTE_SETTLED]
    assert Delivery.objects.get(event=h.EXECUTE_SETTLED).decoded_payload["outcome"] == "aborted"


@pytest.mark.django_db
def test_a_worker_that_died_leaves_an_unknown_outcome(a_run: Any, source: Source) -> None:
    Webhook.objects.create(name="w", url="https://example.com/")
    a_run("r", f.InputReady("c", "bash", {"a": 1}, True), f.RunEnded(outcome="truncated"))
    assert Delivery.objects.get(event=h.EXECUTE_ERROR).decoded_payload["error"]["code"] == "lost"
    assert Delivery.objects.get(event=h.EXECUTE_SETTLED).decoded_payload["outcome"] == "unknown"


@pytest.mark.django_db
def test_a_failure_that_was_sent_as_a_result_is_reported_as_a_failure(a_run: Any, source: Source) -> None:
    Webhook.objects.create(
        name="w",
        url="https://example.com/",
        events='["tool.execute.after", "tool.execute.error", "tool.execute.settled"]',
    )
    a_run("r", f.InputReady("c", "t", {}, True), f.OutputReady("c", "oops", "m"), f.OutcomeReported("", "failed", "m"))
    assert [event for event, _ in list_deliveries()] == [h.EXECUTE_ERROR, h.EXECUTE_SETTLED]


@pytest.mark.django_db
def test_a_denial_is_reported_with_its_code(policy: Any, source: Source) -> None:
    Webhook.objects.create(name="w", url="https://example.com/")
    policy({"default": "deny"})
    ask(source)
    error, delivery = (
        Delivery.objects.get(event=h.EXECUTE_ERROR).decoded_payload,
        Delivery.objects.get(event=h.EXECUTE_SETTLED).decoded_payload,
    )
    assert (error["error"]["code"], error["authority"], error["phase"]) == ("policy_denied", "runtime", "gate")
    assert delivery["outcome"] == "denied"


@pytest.mark.django_db
def test_without_listeners_nothing_is_written(a_run: Any) -> None:
    a_run("r", f.InputReady("c", "bash", {}, True), f.OutputReady("c", 1))
    assert not Delivery.objects.exists()


@pytest.mark.django_db
def test_a_plugins_crash_afterwards_changes_nothing(a_run: Any, source: Source) -> None:
    class Bad:
        def after(self, call: Any) -> None:
            raise KeyError("afterwards")

        error = settled = after

    hooks.register(Bad(), "bad")
    a_run("r", f.InputReady("c", "bash", {}, True), f.OutputReady("c", 1))
    from toolcards.notifications import dispatcher

    dispatcher.send_due()
    assert ToolCall.objects.get().state == "output-available"
    assert not Delivery.objects.filter(state="pending").exists()
    assert [row.error for row in Delivery.objects.order_by("id")] == ["after_hook_crash", "plugin_crash"]
    assert Event.objects.count() == 3  # the run's start, the input, the result: no error came of the error


# ---------------------------------------------------------------- always

ENDS = ["ok", "aborted", "error", "truncated", "interrupt", "not-executed"]


def any_fact(dice: random.Random, call: str) -> f.AnyFact:
    return dice.choice([
        lambda: f.InputStarted(call, "t", per_step=dice.random() < 0.3), lambda: f.InputDelta(call, dice.choice(['{"a"', ":1}"])),
        lambda: f.InputReady(call, "t", {"n": dice.randrange(3)}, True, attempt=dice.choice([1, 1, 1, 2]), per_step=dice.random() < 0.3),
        lambda: f.InputInvalid(call, "t", {}, "no"), lambda: f.InputRepaired(call, "t", {"n": 9}, {"n": 1}, "m"),
        lambda: f.ApprovalRequested(call, id="apr_1", opener=dice.choice(["agent", "gate"])),
        lambda: f.ApprovalAnswered(call, dice.random() < 0.5, by=f.Actor("human", "ann")),
        lambda: f.OutputPartial(call, 1), lambda: f.OutputReady(call, 2, dice.choice(["", "m", "n"])), lambda: f.OutcomeReported("", dice.choice(["failed", "denied", "interrupted", "success"]), dice.choice(["m", "n"])),
        lambda: f.AnomalyRecorded(call, "ungoverned"), lambda: f.OutputFailed(call, "x", dice.choice(["", "timeout"])),
        lambda: f.OutputDenied(call, "no"), lambda: f.CallClosed(call, "expired"), lambda: f.CallClosed(call, "cancelled"),
        lambda: f.RunEnded(outcome=dice.choice(ENDS)), lambda: f.StepStarted(), lambda: f.StepReset(), lambda: f.RunStarted(),
        lambda: f.SnapshotReceived(call, "text", dice.choice([None, "error"])),
    ])()  # fmt: skip


HeardEvent = tuple[str, tuple[int, int], Any]


class Listener:
    """Hears what a run's facts make hooks hear: the event, the call and attempt, its outcome or error."""

    def __init__(self) -> None:
        self.board, self.sequencer, self.events, self.seq = RunState(), ToolEventSequencer(), list[HeardEvent](), 0
        self.tail: list[LoggedFact] = []
        self.outcomes: dict[Any, str] = {}  # of each attempt, as reported last

    def take(self, fact: f.AnyFact) -> None:
        for ordinal, routed in self.board.route(fact):
            self.receive(ordinal, routed)

    def receive(self, ordinal: int, fact: f.AnyFact) -> None:
        release = self.sequencer.release(ordinal, fact)
        if release is not None:
            for event in END_EVENTS:
                self.hear(event, None, release.card)
        self.seq += 1
        object.__setattr__(fact, "at", float(self.seq))
        before = self.board.cards.get(ordinal)
        after, applied = self.board.record(ordinal, fact, self.seq)
        self.tail = [*self.tail, LoggedFact(ordinal, self.seq, fact, applied)][-TAIL_LENGTH:]
        if after is not None and after is not before and h.may_have_events(before, after):
            for event in self.sequencer.list_events(ordinal, before, after, fact, self.seq):
                self.hear(event, before, after)
        # the log alone tells what is held back
        again = ToolEventSequencer.from_log(self.board.cards, reversed(self.tail)).pending
        assert (again and again.ordinal) == (self.sequencer.pending and self.sequencer.pending.ordinal)

    def hear(self, event: str, before: Any, after: Any) -> None:
        if event == h.EXECUTE_CORRECTED:
            key = (after.ordinal, h.get_attempt(after))
            assert self.outcomes[key] != h.get_outcome(after, before), (key, self.outcomes)
            self.outcomes[key] = h.get_outcome(after, before)
            return
        if event == h.EXECUTE_SETTLED:
            self.outcomes[after.ordinal, h.get_attempt(after)] = h.get_outcome(after, before)
        detail = h.get_outcome(after, before) if event == h.EXECUTE_SETTLED else h.build_error(after, before)
        self.events.append((event, (after.ordinal, h.get_attempt(after)), detail))

    def attempts(self) -> list[list[tuple[str, Any]]]:
        """Return the events of each attempt of each call, in order."""
        fields: dict[Any, list[tuple[str, Any]]] = {}
        for event, key, detail in self.events:
            if event in h.TOOL_EVENTS:
                fields.setdefault(key, []).append((event, detail))
        return list(fields.values())


def played(seed: int) -> Listener:
    dice, listener = random.Random(seed), Listener()
    facts = [any_fact(dice, dice.choice(["a", "b", "c"])) for _ in range(dice.randrange(3, 40))]
    for fact in [
        *facts,
        f.RunEnded(outcome="aborted"),
        *(f.CallClosed(call, "cancelled") for call in "abc"),
        f.TextDelta("."),
    ]:
        listener.take(fact)
    return listener


def proper(events: list[tuple[str, Any]]) -> bool:
    """One before; then an after, an error or neither, as it came out; then settled, once and last."""
    names = [name for name, _ in events]
    if names[0] != h.EXECUTE_BEFORE or len(names) > 3 or len(set(names)) != len(names):
        return False
    if names[-1] != h.EXECUTE_SETTLED:
        return names == [h.EXECUTE_BEFORE]
    expected = {"ok": [h.EXECUTE_AFTER], "aborted": []}.get(events[-1][1], [h.EXECUTE_ERROR])
    return names[1:-1] == expected and all(detail is not None for name, detail in events if name == h.EXECUTE_ERROR)


@pytest.mark.parametrize("seed", range(0, 1000, 50))
def test_every_before_is_settled_once_and_last(seed: int) -> None:
    for each in range(seed, seed + 50):
        listener = played(each)
        for events in listener.attempts():
            assert proper(events), (each, events)
        for card in listener.board.cards.values():
            last = listener.outcomes.get((card.ordinal, h.get_attempt(card)))
            assert card.removed or card.soft or last in {None, h.get_outcome(card)}, (each, card)


@pytest.mark.parametrize(
    ("name", "scenario", "paths"), [(name, scenario, paths) for name, scenario, _, paths, _ in bodies()]
)
def test_in_every_recorded_run_a_before_is_settled_once_and_last(name: str, scenario: str, paths: list[Any]) -> None:
    """As the libraries really sent it, also if a failure arrives one frame after the result."""
    player = Player(MANIFEST["sets"][name]["protocol"])
    for path in paths:
        player.body(texts_of(path))
    listener = Listener()
    for ordinal, fact in player.log:
        listener.receive(ordinal, fact)
    assert listener.sequencer.pending is None or not player.board.context.ended
    assert all(proper(events) for events in listener.attempts()), listener.events
    cards = listener.board.cards.values()
    ended_ordinals = {card.ordinal for card in cards if card.begun and (card.finished or card.removed)}
    assert ended_ordinals == {ordinal for event, (ordinal, _), _ in listener.events if event == h.EXECUTE_SETTLED}
    assert all(
        listener.outcomes[card.ordinal, h.get_attempt(card)] == h.get_outcome(card)
        for card in cards
        if card.ordinal in ended_ordinals
    )


@pytest.mark.django_db
@pytest.mark.parametrize("forgotten", [False, True])
def test_a_failure_that_arrives_in_another_commit_is_an_error_and_no_success(
    a_run: Any, source: Source, forgotten: bool
) -> None:
    """Pydantic AI over AG-UI: the result, and one frame later that it was none."""
    from tests.support.gate_commands import RecordFacts
    from toolcards.gate.writer import group_commit
    from toolcards.gate.writer.cache import run_cache

    Webhook.objects.create(name="w", url="https://example.com/", events=json.dumps(h.TOOL_EVENTS))
    for fact in (
        f.InputReady("c", "t", {}, True), f.OutputReady("c", "oops", "m"), f.OutcomeReported("", "failed", "m"),
        f.InputReady("d", "t", {}, True), f.OutputReady("d", "fine", "n"), f.TextDelta("Done."),
    ):  # fmt: skip
        group_commit.execute(RecordFacts(source, "r", [fact]))
        if forgotten:
            run_cache.clear()
    assert [event for event, _ in list_deliveries()] == [
        h.EXECUTE_BEFORE,
        h.EXECUTE_ERROR,
        h.EXECUTE_SETTLED,
        h.EXECUTE_BEFORE,
        h.EXECUTE_AFTER,
        h.EXECUTE_SETTLED,
    ]
    rows = [row.decoded_payload for row in Delivery.objects.order_by("id")]
    assert [one.get("outcome") for one in rows if one["event"] == h.EXECUTE_SETTLED] == ["error", "ok"]
    assert [one["seq"] for one in rows] == sorted({one["seq"] for one in rows})


@pytest.mark.django_db
def test_the_event_stream_tells_hooks_with_the_ids_that_webhooks_get(a_run: Any, source: Source) -> None:
    from toolcards.models import Run

    Webhook.objects.create(name="w", url="https://example.com/")
    a_run("r", f.InputReady("c", "bash", {"a": 1}, True), f.OutputFailed("c", "no", "timeout"))
    teller = EventReplay(Run.objects.get())
    streamed = [one for event in Event.objects.order_by("seq") for one in teller.convert(event) if one.name == "hook"]
    assert [(one.data["hook"]["event"], one.data["hook"]["id"]) for one in streamed] == list_deliveries()
    assert [one.data["hook"]["seq"] for one in streamed] == [
        row.decoded_payload["seq"] for row in Delivery.objects.order_by("id")
    ]
    assert streamed[1].data["hook"]["authority"] == "tool" and streamed[1].data["state"] == "output-error"


@pytest.mark.django_db
def test_what_goes_wrong_in_telling_changes_no_outcome(
    a_run: Any, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    Webhook.objects.create(name="w", url="https://example.com/", events="no json")
    a_run("r", f.InputReady("c", "bash", {"a": 1}, True), f.OutputReady("c", 1))
    monkeypatch.setattr(outbox_writer, "build_payload", raising(RuntimeError()))
    a_run("r2", f.InputReady("d", "bash", {"a": 1}, True))
    assert ToolCall.objects.count() == 2 and not Delivery.objects.exists()


@pytest.mark.django_db(transaction=True)
async def test_pages_of_events_lose_nothing_where_one_position_tells_many_things(
    db: None, django_db_blocker: Any
) -> None:
    from asgiref.sync import sync_to_async

    from tests.support.gate_commands import RecordFacts
    from toolcards.gate.writer import group_commit
    from toolcards.models import AgentKey, Run
    from toolcards.transports.api import sse

    def begin() -> Run:
        source = AgentKey.objects.ensure("tck_0123456789012345678901234567890123", name="an agent").source
        facts = [f.RunStarted(), f.OutputReady("c", 1), f.OutputFailed("d", "x")]  # each of the two tells five things
        return Run.objects.get(pk=group_commit.execute(RecordFacts(source, "r", facts)))

    run = await sync_to_async(begin)()
    whole = (await sse.read_page(run, None, 200))["events"]
    assert len(whole) == 11
    for size in (1, 2, 3):
        pieces: list[Any] = []
        cursor: Any = None
        while True:
            part = await sse.read_page(run, cursor, size)
            pieces += part["events"]
            if part["next"] is None:
                break
            cursor = tuple(map(float, part["next"].split(".")))
        assert pieces == whole
