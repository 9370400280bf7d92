"""Texts of agents and people are encrypted at rest: only the keys of this server decrypt them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.contrib.admin.utils import quote
from django.core.exceptions import FieldError
from django.core.management import CommandError, call_command
from django.db import connection, models, transaction
from django.test import Client

from dashboard.environment import Environment
from dashboard.search.filters import CallFilters
from tests.support.gate_commands import RecordFacts, make_ballot
from tests.support.server import Server
from tests.support.services import postgres
from tests.support.tables import loop_over
from tests.support.voter import Voter
from toolcards import encryption, gate
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import ToolCallState
from toolcards.gate.maintenance import run_masking
from toolcards.gate.refusals import Undecryptable
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.models import Approval, Delivery, Event, Run, Source, ToolCall, Vote, Webhook
from toolcards.models.runs import CANNOT_BE_OPENED
from toolcards.models.write_guard import allow_event_changes, allow_log_writes
from toolcards.notifications import subscriptions

SECRET = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
PLAIN = "quietly-plain-argument"
COMMAND = f"{PLAIN} --token {SECRET}"
NOTE = f"I looked at {SECRET}, {PLAIN}"


def raw() -> str:
    """Every text of the engine's tables as the database holds it."""
    rows = []
    with connection.cursor() as cursor:
        for model in apps.get_app_config("toolcards").get_models():
            cursor.execute(f"SELECT * FROM {model._meta.db_table}")
            rows += [f"{model._meta.db_table}: {row!r}" for row in cursor.fetchall()]
    return "\n".join(rows)


def read_tables() -> str:
    """The same, read by our own eyes."""
    tables = apps.get_app_config("toolcards").get_models()
    return "\n".join(f"{model._meta.db_table}: {row!r}" for model in tables for row in model.objects.values_list())


def column(model: Any, name: str) -> encryption.SealedText:
    result = model._meta.get_field(name)
    assert isinstance(result, encryption.SealedText)
    return result


def a_story() -> list[Any]:
    """A run that says a secret, and plain words, wherever one can."""
    encoded = json.dumps({"command": COMMAND})
    cut = encoded.index(SECRET) + 15
    return [
        f.RunStarted(agent="bot", title=f"use {SECRET}", tools=[{"name": "bash", "description": PLAIN}]),
        f.TextDelta(text=f"{PLAIN} ghp_"), f.TextDelta(text=SECRET[4:]),
        f.InputStarted("cut", "bash"), f.InputDelta("cut", encoded[:cut]), f.InputDelta("cut", encoded[cut:]),
        f.InputReady("cut"), f.OutputReady("cut", {"stdout": COMMAND}),
        f.InputStarted("open", "bash"), f.InputDelta("open", encoded[:cut]), f.InputDelta("open", encoded[cut:-1]),
        f.InputReady("whole", "bash", {"command": COMMAND}, True), f.OutputPartial("whole", COMMAND),
        f.OutputFailed("whole", f"failed: {COMMAND}"),
        f.InputInvalid("invalid", "bash", COMMAND, f"bad: {COMMAND}"),
        f.ErrorReported(message=COMMAND),
    ]  # fmt: skip


# Long texts that stay readable: redacted before they are written, of our own making, or what people decided.
CLEAR = {
    "AuditRow": {"detail"}, "Run": {"reason", "counts", "numbers", "skipped_kinds"},
    "Approval": {"terms", "rules", "reason"}, "Review": {"reason"},
    "Grant": {"pattern"}, "KillSwitch": {"reason"}, "BreakGlass": {"reason"},
    "PolicyVersion": {"document", "text", "note"},
    "DraftRule": {"body"}, "Draft": {"head", "text"}, "Webhook": {"events", "sources", "escalated_to"},
    "SavedFilter": {"query"},
}  # fmt: skip


@pytest.fixture
def lose_key(settings: Any) -> Callable[[], None]:
    """Give `lose_key()`: from now on there is another key, and the old one is gone."""

    def lose() -> None:
        run_cache.clear()
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "quite another key", []

    return lose


# ---------------------------------------------------------------- nothing in the clear


@loop_over("model", list(apps.get_app_config("toolcards").get_models()))
def test_every_long_text_is_sealed_or_has_a_reason_not_to_be(model: Any) -> None:
    texts = {each.name for each in model._meta.local_fields if isinstance(each, models.TextField)}
    sealed = {each.name for each in model._meta.local_fields if isinstance(each, encryption.SealedText)}
    assert texts - sealed == CLEAR.get(model.__name__, set())


@pytest.mark.django_db(transaction=True)
def test_no_table_holds_an_original_in_the_clear(
    a_call: Callable[..., ToolCall], an_approver: Any, policy: Callable[..., Any], source: Source
) -> None:
    Webhook.objects.create(name="all of it", url="https://example.com/")
    subscriptions.clear_cache()
    rule = {"id": "asks", "effect": "ask", "match": {}, "ask": {"editable": ["/command"]}}
    policy({"default": "ask", "rules": [rule]})
    call = a_call("approval-requested", input={"command": COMMAND}, call_id="edited")
    group_commit.execute(RecordFacts(source, "run-1", a_story()))
    call.refresh_from_db()
    paper = replace(make_ballot(call, "edit"), note=NOTE, edited_args={"command": f"{COMMAND} --dry"})
    gate.vote(an_approver, paper)
    Vote.objects.update(reason=COMMAND)
    group_commit.execute(
        RecordFacts(source, "run-1", [f.OutputReady("edited", COMMAND), f.RunEnded(outcome="error", reason=SECRET)])
    )
    originals = read_tables()
    for table in ("event", "toolcall", "run", "approval", "vote"):
        assert any(line.startswith(f"toolcards_{table}:") and PLAIN in line for line in originals.splitlines()), table
    assert SECRET in originals and Delivery.objects.exists()
    contents = raw()
    assert SECRET not in contents and SECRET[4:] not in contents and SECRET[:15] not in contents
    assert PLAIN not in contents
    subscriptions.clear_cache()


def _say_it_all(server: Server) -> None:
    """A run on a real server, in which a person edits the input and adds a note."""
    encoded = json.dumps({"command": COMMAND})
    cut = encoded.index(SECRET) + 15
    frames = [
        {"type": "run.started", "title": f"use {SECRET}"},
        {"type": "tool.input.started", "call_id": "cut", "tool": "bash"},
        {"type": "tool.input.delta", "call_id": "cut", "delta": encoded[:cut]},
        {"type": "tool.input.delta", "call_id": "cut", "delta": encoded[cut:]},
        {"type": "tool.input.available", "call_id": "cut", "tool": "bash", "input": {"command": COMMAND}},
        {"type": "tool.output.available", "call_id": "cut", "output": COMMAND},
        {"type": "tool.input.available", "call_id": "bad", "tool": "bash", "input": {"command": COMMAND}},
        {"type": "tool.output.error", "call_id": "bad", "error": f"failed: {COMMAND}"},
    ]
    with server.socket(protocol="native", run="loud", mode="observe") as socket:
        for frame in frames:
            socket.send(json.dumps(frame))
            assert json.loads(socket.recv(10))["type"] in {"ack", "hello"}
    request = {"run": "gated", "call_id": "g", "tool": {"name": "bash"}, "args": {"command": COMMAND}}
    status, decision, _ = server.request("POST", "/api/v1/calls/decide", request)
    assert (status, decision["decision"]) == (200, "ask")
    voter = Voter(server)
    call = voter.waiting("gated")
    fields = {"rev": str(call["rev"]), "args_sha256": call["approval"]["args_sha256"], "note": NOTE, "reason": SECRET}
    path = f"/approvals/{decision['approval']['id']}/vote"
    assert voter.post(path, page="/approvals/", decision="approve", **fields)[0] == 200


def _held_by(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_file_of_a_server_holds_an_original_in_the_clear(tmp_path: Path) -> None:
    with Server(tmp_path, default_effect="ask") as server:
        _say_it_all(server)
        assert server.get("/api/v1/runs/loud/calls")["calls"][0]["input"]["command"].startswith(PLAIN)
        files = _held_by(tmp_path)
        assert {"toolcards.sqlite3", "toolcards.sqlite3-wal"} <= set(files)
        assert b"sealed:1:" in files["toolcards.sqlite3-wal"] + files["toolcards.sqlite3"]
        server.stop()
        for name, content in [*files.items(), *_held_by(tmp_path).items()]:
            for word in (SECRET, SECRET[4:], PLAIN):
                assert word.encode() not in content, name


@pytest.mark.postgres
def test_no_file_of_postgresql_holds_an_original_in_the_clear(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with postgres(tmp_path) as database:
        with Server(data, database_url=database, default_effect="ask") as server:
            _say_it_all(server)
            assert server.manage("replay", "--check").returncode == 0
        import psycopg

        with psycopg.connect(database) as there:
            tables = there.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'toolcards_%'").fetchall()
            contents = "".join(str(there.execute(f"SELECT t::text FROM {name} t").fetchall()) for (name,) in tables)  # type: ignore[call-overload]
        assert "sealed:1:" in contents
        assert [word for word in (SECRET, SECRET[4:], PLAIN) if word in contents] == []


@pytest.mark.django_db(transaction=True)
def test_a_note_is_for_people_who_read_the_trail_and_is_exported_sealed(
    a_call: Callable[..., ToolCall], an_approver: Any, a_person: Any, client: Client
) -> None:
    Webhook.objects.create(name="all of it", url="https://example.com/")
    subscriptions.clear_cache()
    call = a_call("approval-requested")
    gate.vote(an_approver, replace(make_ballot(call, "approve"), note=NOTE))
    client.force_login(a_person("admin"))
    page = client.get("/settings/audit/").content.decode()
    assert PLAIN in page and SECRET not in page
    exported = b"".join(client.get("/settings/audit/export/").streaming_content).decode()  # type: ignore[attr-defined]
    rows = "".join(json.dumps(delivery.decoded_payload) for delivery in Delivery.objects.all())
    events = client.get("/api/v1/runs/run-1/events").content.decode()
    admin = client.get(f"/admin/toolcards/approval/{quote(Approval.objects.get().pk)}/change/").content.decode()
    assert rows and PLAIN not in exported + rows + events and "sealed:1:" in exported
    assert PLAIN in admin and SECRET not in admin
    subscriptions.clear_cache()


# ---------------------------------------------------------------- places, and clear rows


def test_a_text_opens_only_where_it_was_sealed() -> None:
    fact = '{"type":"input-delta","call_id":"c","text":"x"}'
    (sealed,) = column(Event, "fact").seal([fact])
    assert sealed.startswith('{"type":"input-delta"sealed:1:') and column(Event, "fact").open(sealed) == fact
    for wrong in (sealed.replace("input-delta", "text-delta"), sealed[:-4] + "AAAA", sealed[:-3]):
        with pytest.raises(encryption.DecryptionError):
            column(Event, "fact").open(wrong)
    (card,) = column(ToolCall, "card").seal(['{"call_id":"c"}'])
    with pytest.raises(encryption.DecryptionError):
        column(ToolCall, "text").open(card)


def test_what_an_agent_writes_cannot_pass_for_sealed() -> None:
    value = encryption.MARK + "what an agent wrote"
    (sealed,) = column(ToolCall, "text").seal([value])
    assert sealed != value and column(ToolCall, "text").open(sealed) == value


@pytest.mark.django_db
@pytest.mark.parametrize(
    "value",
    [
        lambda: ToolCall.objects.filter(card__icontains="x"), lambda: Event.objects.filter(fact__contains="x"),
        lambda: Vote.objects.filter(note__startswith="x"), lambda: ToolCall.objects.filter(text__regex="x"),
        lambda: Run.objects.filter(context__contains="x"), lambda: Delivery.objects.filter(payload__contains="x"),
    ],
)  # fmt: skip
def test_encrypted_texts_cannot_be_searched(value: Callable[[], Any]) -> None:
    with pytest.raises(FieldError):
        list(value())


@pytest.mark.django_db(transaction=True)
def test_rows_in_the_clear_are_read_and_gone_on_with(
    a_run: Callable[..., Run], source: Source, client: Client, a_person: Callable[..., Any]
) -> None:
    run = a_run("old", *a_story()[1:])
    with transaction.atomic(), allow_event_changes(), connection.cursor() as cursor:
        for model, name in ((Event, "fact"), (ToolCall, "card"), (ToolCall, "text"), (Run, "context")):
            for pk, text in model.objects.values_list("pk", name):
                cursor.execute(f"UPDATE {model._meta.db_table} SET {name} = %s WHERE id = %s", [text, pk])
    assert SECRET in raw()
    run_cache.clear()
    group_commit.execute(RecordFacts(source, "old", [f.InputDelta("open", "}"), f.InputReady("open"), f.RunEnded()]))
    assert gate.rebuild(check=True) == []
    assert ToolCall.objects.get(run=run, call_id="open").as_card().input == {"command": COMMAND}
    client.force_login(a_person("viewer"))
    assert client.get("/runs/old/").status_code == 200


# ---------------------------------------------------------------- searching


@pytest.mark.django_db
def test_a_search_finds_words_of_arguments_and_nothing_that_is_masked(
    a_call: Callable[..., ToolCall], client: Client, a_person: Callable[..., Any]
) -> None:
    a_call(call_id="one", input={"command": COMMAND, "quote": 'say "née"'})
    a_call(call_id="two")
    client.force_login(a_person("viewer"))
    for word in (PLAIN, PLAIN.upper(), 'say "née"'):
        page = client.get("/calls/", {"q": word}).content.decode()
        assert 'data-call-id="one"' in page and 'data-call-id="two"' not in page, word
    for word in (SECRET, SECRET[:12], "sealed:1:"):
        assert "No call matches" in client.get("/calls/", {"q": word}).content.decode(), word
        assert not CallFilters(q=word).matches(ToolCall.objects.get(call_id="one"))


# ---------------------------------------------------------------- keys


def test_older_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCARDS_SECRET_KEY_FALLBACKS", "one/, two ,")
    environment = Environment()
    assert [key.get_secret_value() for key in environment.secret_key_fallbacks] == ["one/", "two"]
    assert "two" not in repr(environment)


@pytest.mark.slow
def test_a_server_with_a_new_key_reads_what_the_old_one_sealed_and_without_it_says_so(tmp_path: Path) -> None:
    old, new = "o" * 50, "n" * 50
    with Server(tmp_path, secret_key=old, default_effect="ask") as server:
        _say_it_all(server)
    with Server(tmp_path, secret_key=new, secret_key_fallbacks=f"{old},{'x' * 50}", default_effect="ask") as server:
        assert server.get("/api/v1/runs/loud/calls")["calls"][0]["input"]["command"].startswith(PLAIN)
        request = {"run": "newer", "call_id": "n", "tool": {"name": "bash"}, "args": {"command": PLAIN}}
        assert server.request("POST", "/api/v1/calls/decide", request)[0] == 200
        assert server.manage("replay", "--check").returncode == 0
    with Server(tmp_path, secret_key=new, default_effect="ask") as server:
        assert server.get("/api/v1/runs/newer/calls")["calls"][0]["input"] == {"command": PLAIN}
        unreadable_call = server.get("/api/v1/runs/loud/calls")["calls"][0]
        assert (unreadable_call["call_id"], unreadable_call["state"], unreadable_call["input"]) == (
            "cut",
            "output-available",
            None,
        )
        assert [odd["code"] for odd in unreadable_call["anomalies"]] == [CANNOT_BE_OPENED]
        body = '{"type":"tool.input.available","call_id":"more","tool":"bash","input":{}}\n'
        path = "/api/v1/ingest?protocol=native&run=loud"
        status, answer, _ = server.request("POST", path, body, Content_Type="application/x-ndjson")
        assert (status, answer["error"]["code"]) == (503, "sealed")
        completed = server.manage("replay", "--check")
        assert completed.returncode != 0 and "cannot be decrypted" in completed.stdout


@pytest.mark.django_db(transaction=True)
async def test_a_stream_into_a_run_that_stays_closed_fails_once_and_leaves_the_writer_idle(
    a_call: Callable[..., ToolCall], lose_key: Callable[[], None]
) -> None:
    call = await sync_to_async(a_call)("output-available", tool="bash")
    run = await Run.objects.select_related("source").aget(pk=call.run_id)
    lose_key()
    stream = gate.open_stream(run.source, run.name, protocol="native")
    stream.renew_lease(60)
    stream.push([f.InputReady("more", "bash", {})])
    with pytest.raises(Undecryptable):
        await stream.wait_until_committed()
    assert await sync_to_async(gate.drain)()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("state", list(map(str, ToolCallState)))
def test_without_the_key_pages_say_that_the_original_cannot_be_opened(
    a_call: Callable[..., ToolCall],
    lose_key: Callable[[], None],
    client: Client,
    a_person: Callable[..., Any],
    state: str,
) -> None:
    call = a_call(state, input={"command": PLAIN}, tool="bash")
    Webhook.objects.create(name="w", url="https://example.com/")
    delivery = Delivery.objects.create(
        webhook=Webhook.objects.get(), target="1", event_id="e", event="test", payload='{"event": "test"}',
        created_at=1, next_at=1, state="delivered",
    )  # fmt: skip
    lose_key()
    client.force_login(a_person("admin"))
    event = Event.objects.filter(ordinal=call.ordinal).order_by("seq")[0]
    pages = [
        "/runs/run-1/", "/runs/run-1/?tab=timeline", "/runs/run-1/?tab=steps", "/calls/", "/calls/?q=run",
        f"/calls/{call.public_id}/", f"/calls/{call.public_id}/why/", f"/calls/{call.public_id}/rule/", "/", "/runs/",
        "/approvals/", "/approvals/history/", "/policy/", f"/policy/try/?call={call.public_id}", "/sources/",
        "/admin/toolcards/toolcall/", f"/admin/toolcards/toolcall/{call.pk}/change/", "/admin/toolcards/event/",
        f"/admin/toolcards/event/{event.pk}/change/", f"/admin/toolcards/run/{call.run_id}/change/",
        "/admin/toolcards/approval/", f"/settings/notify/deliveries/{delivery.pk}/", "/api/v1/runs/run-1/calls",
        "/api/v1/runs/run-1/events", "/api/v1/approvals",
    ]  # fmt: skip
    for page in pages:
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert PLAIN not in answer.content.decode(), page
    for page in (f"/calls/{call.public_id}/", "/runs/run-1/", "/calls/"):
        assert "The original cannot be read" in client.get(page).content.decode(), page
    revealed = client.post(f"/calls/{call.public_id}/reveal")
    assert revealed.status_code == 200 and "The original cannot be read" in revealed.content.decode()


@pytest.mark.django_db(transaction=True)
def test_without_the_key_nothing_is_added_answered_or_overwritten(
    a_call: Callable[..., ToolCall], lose_key: Callable[[], None], source: Source, an_approver: Any, client: Client
) -> None:
    call = a_call("approval-requested", input={"command": PLAIN})
    paper = make_ballot(call, "approve")
    with allow_log_writes():
        Approval.objects.update(expires_at=1)
    tables = ("toolcards_event", "toolcards_toolcall", "toolcards_run")
    before = [line for line in raw().splitlines() if line.startswith(tables)]
    lose_key()
    for work in (
        lambda: group_commit.execute(RecordFacts(source, "run-1", [f.RunEnded()])),
        lambda: gate.vote(an_approver, paper),
        lambda: gate.decide(source, gate.DecisionRequest(run="run-1", call_id="another", tool="bash", args={})),
    ):  # fmt: skip
        with pytest.raises(gate.RequestRefused) as error:
            work()
        assert error.value.code == "sealed"
    client.force_login(an_approver)
    form = {"decision": "approve", "rev": paper.rev, "args_sha256": paper.args_sha256}
    assert client.post(f"/approvals/{paper.approval}/vote", form).status_code == 503
    assert gate.sweep() >= 1
    with pytest.raises(CommandError):
        call_command("replay", "--check")
    gate.rebuild()
    assert [line for line in raw().splitlines() if line.startswith(tables)] == before


@pytest.mark.django_db(transaction=True)
def test_without_the_key_retention_leaves_a_run_as_it_is_and_says_so(
    a_run: Callable[..., Run], lose_key: Callable[[], None]
) -> None:
    run = a_run("ended", f.InputReady("c", "bash", {"command": COMMAND}, True), f.OutputReady("c", 1), f.RunEnded())
    before = [line for line in raw().splitlines() if line.startswith(("toolcards_event", "toolcards_toolcall"))]
    lose_key()
    run_masking._refused_runs.clear()
    assert gate.run_retention(now=run.ended_at.timestamp() + 2 * 86_400).refusals == 1
    run_masking._refused_runs.clear()
    assert [line for line in raw().splitlines() if line.startswith(("toolcards_event", "toolcards_toolcall"))] == before


def test_many_texts_open_at_once_as_they_do_one_by_one(settings: Any) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "b" * 60, ["a" * 60]
    new = encryption.seal(["one", "\ud800 two"], "t.c")
    settings.SECRET_KEY = "a" * 60
    old, elsewhere = encryption.seal(["three"], "t.c"), encryption.seal(["four"], "t.other")
    settings.SECRET_KEY = "c" * 60
    lost_text = encryption.seal(["five"], "t.c")
    settings.SECRET_KEY = "b" * 60
    broken = [new[0][:-4], "sealed:1:?"]
    texts = [*new, *old, "never sealed", "", *elsewhere, *lost_text, *broken, new[0]]
    assert encryption.open_all(texts, "t.c")[:5] == ["one", "\ud800 two", "three", "never sealed", ""]
    unreadable_texts = encryption.open_all(texts, "t.c")[5:-1]
    assert unreadable_texts == [*elsewhere, *lost_text, *broken] and {type(text) for text in unreadable_texts} == {
        encryption.UnreadableText
    }
    assert encryption.open_all(texts, "t.c")[-1] == "one"
