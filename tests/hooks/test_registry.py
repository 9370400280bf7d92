"""Guards are in force or calls are denied: plugins that are broken, missing or hang; and what they put in place."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.support.server import PATIENCE, until
from toolcards import gate, hooks
from toolcards.hooks import registry
from toolcards.models import Source, ToolCall
from toolcards.notifications import subscriptions

pytestmark = pytest.mark.django_db(transaction=True)
GUARD = "class Guard:\n    def before(self, call): pass\n"


@pytest.fixture(autouse=True)
def _unplugged() -> Iterator[None]:
    subscriptions.clear_cache()
    yield
    hooks.clear()
    subscriptions.clear_cache()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Give `install(name=source, …)`: packages with one entry point each, found as if they were installed."""

    def add(**modules: str) -> None:
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(text)
            (tmp_path / f"{name}-1.0.dist-info").mkdir()
            (tmp_path / f"{name}-1.0.dist-info/METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
            (tmp_path / f"{name}-1.0.dist-info/entry_points.txt").write_text(
                f"[toolcards.hooks]\n{name}={name}:Guard\n"
            )
        monkeypatch.syspath_prepend(str(tmp_path))
        importlib.invalidate_caches()
        monkeypatch.setattr(registry, "_is_loaded", False)

    yield add
    registry._is_loaded = True
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def agent(policy: Any, source: Source) -> Source:
    policy({"default": "allow"})
    return source


def ask(source: Source, call_id: str = "c", **more: Any) -> dict[str, Any]:
    return gate.decide(
        source, gate.DecisionRequest(run="r", call_id=call_id, tool="bash", args={"command": "ls"}, **more)
    )


def ready(client: Client) -> tuple[int, Any]:
    answer = client.get("/readyz")
    return answer.status_code, answer.json()


BROKEN = {
    "raises": "raise RuntimeError('secret of its own')", "lacks": "x = 1", "imports": "import does_not_exist_anywhere",
    "exits": "raise SystemExit(3)", "fails": "class Guard:\n    def __init__(self): raise ValueError\n",
    "syntax": "def",
}  # fmt: skip


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_plug_in_that_cannot_be_loaded_denies_every_gated_call(
    text: str, install: Any, agent: Source, client: Client, a_person: Any
) -> None:
    install(tickets=text, other=GUARD)
    decision = ask(agent)
    assert (decision["decision"], decision["reason"]["code"], decision["permit"]) == ("deny", "plugin_missing", None)
    assert "tickets" in decision["reason"]["text"] and "secret" not in str(decision)
    call = ToolCall.objects.get(call_id="c").as_card()
    assert (call.error.code, call.error.authority, call.error.retryable) == ("plugin_missing", "plugin", False)
    status, body = ready(client)
    assert status == 503 and body["error"]["detail"]["plugins"] is False
    assert body["error"]["detail"]["reasons"] == [{"check": "plugins", "plugin": "tickets", "reason": "broken"}]
    client.force_login(a_person("admin"))
    page = client.get("/sources/").content.decode()
    assert 'data-plugin="tickets" data-plugin-state="broken"' in page
    assert 'data-plugin="other" data-plugin-state="ready"' in page and "secret" not in page


def test_installed_guards_are_asked_and_the_server_is_ready(install: Any, agent: Source, client: Client) -> None:
    install(tickets="from toolcards import hooks\nclass Guard:\n    def before(self, call): raise hooks.Veto('no')\n")
    assert ask(agent)["reason"]["code"] == "plugin_veto" and ready(client)[0] == 200


def test_two_guards_of_one_name_are_both_asked(install: Any, agent: Source, tmp_path: Path) -> None:
    install(
        one=GUARD, two="from toolcards import hooks\nclass Guard:\n    def before(self, call): raise hooks.Veto('no')\n"
    )
    for name in ("one", "two"):
        (tmp_path / f"{name}-1.0.dist-info/entry_points.txt").write_text(f"[toolcards.hooks]\nsame={name}:Guard\n")
    assert ask(agent)["reason"]["code"] == "plugin_veto" and len(hooks.list_plugins()) == 2


@pytest.mark.parametrize("plugin", [None, object()])
def test_a_required_guard_that_is_missing_or_guards_nothing_denies_every_gated_call(
    plugin: Any, agent: Source, client: Client, limits: Any
) -> None:
    limits(required_plugins=("tickets",))
    if plugin is not None:
        hooks.register(plugin, "tickets")
    decision = ask(agent)
    assert (decision["decision"], decision["reason"]["code"]) == ("deny", "plugin_missing")
    assert ready(client)[1]["error"]["detail"]["reasons"] == [
        {"check": "plugins", "plugin": "tickets", "reason": "missing"}
    ]
    hooks.register(type("Guard", (), {"before": lambda self, call: None})(), "tickets")
    assert ask(agent, "again")["decision"] == "allow" and ready(client)[0] == 200


def test_an_import_that_hangs_denies_calls_and_holds_up_nothing(
    install: Any, agent: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "LOAD_LIMIT", 0.2)
    release = threading.Event()
    hooks.go = release  # type: ignore[attr-defined]
    try:
        install(slow="from toolcards import hooks\nhooks.go.wait(60)\n" + GUARD, other=GUARD)
        assert ask(agent)["reason"]["code"] == "plugin_missing"
        until(lambda: [(one.name, one.state) for one in hooks.list_troubles()] == [("slow", "loading")])
        release.set()
        until(lambda: not hooks.list_troubles())
        assert ask(agent, "again")["decision"] == "allow"
    finally:
        release.set()
        del hooks.go  # type: ignore[attr-defined]


class Hanging:
    """A plugin whose methods return when the test releases them."""

    def __init__(self, *events: str) -> None:
        self.release = threading.Event()
        for event in events:
            setattr(self, event, lambda call: self.release.wait(3_600) and None)


def test_a_guard_that_hangs_denies_and_is_shown_until_it_comes_back(
    agent: Source, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "LIMIT", 0.1)
    guard = Hanging("before")
    hooks.register(guard, "slow")
    assert (ask(agent)["decision"], ask(agent)["reason"]["code"]) == ("deny", "plugin_timeout")
    assert ready(client)[1]["error"]["detail"]["reasons"] == [
        {"check": "plugins", "plugin": "slow", "reason": "hanging"}
    ]
    guard.release.set()
    until(lambda: not hooks.list_troubles())
    assert ready(client)[0] == 200


def test_a_watching_plug_in_that_hangs_takes_no_guard_down(agent: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "LIMIT", 0.1)
    watcher, events = Hanging("after", "settled"), []
    hooks.register(watcher, "watcher")
    payload = {"event": "tool.execute.settled", "call_id": "c"}
    codes = {hooks.observe(hooks.list_plugins()[0], payload) for _ in range(60)}
    assert codes == {"plugin_timeout"} and not hooks.list_troubles()
    monkeypatch.setattr(registry, "LIMIT", PATIENCE)
    hooks.register(type("Guard", (), {"before": lambda self, call: events.append(call["call_id"])})(), "guard")
    # also where one plugin does both
    watcher.before = lambda call: events.append("both")  # type: ignore[attr-defined]
    assert ask(agent)["decision"] == "allow" and events == ["c", "both"]
    watcher.release.set()


# ---------------------------------------------------------------- what a guard puts in place

DEEP: Any = "x"
for _ in range(40):
    DEEP = [DEEP]
PLACED_PLUGINS: list[tuple[Any, str]] = [
    ({"x": "y" * 2_000_000}, "more than 262144 bytes"), (DEEP, "levels deep"), ({"x": [0] * 10_001}, "10000 values"),
    ({"x": 2**60}, "2^53-1"), ({"x": "\x00"}, "U+0000"), ({"x": "\ud800"}, "surrogate"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "why"), PLACED_PLUGINS, ids=[why for _, why in PLACED_PLUGINS])
def test_an_input_that_a_guard_replaces_must_keep_the_limits(value: Any, why: str, agent: Source) -> None:
    hooks.register(type("Guard", (), {"before": lambda self, call: {"input": value}})(), "guard")
    decision = ask(agent)
    assert (decision["decision"], decision["reason"]["code"]) == ("deny", "plugin_crash") and why in decision["reason"][
        "text"
    ]


def test_an_input_within_the_limits_is_judged_and_runs(agent: Source, limits: Any) -> None:
    hooks.register(type("Guard", (), {"before": lambda self, call: {"input": {"x": "y" * 200_000}}})(), "guard")
    assert ask(agent)["args"] == {"x": "y" * 200_000}
    limits(max_args=1_000)
    assert ask(agent, "again")["reason"]["code"] == "plugin_crash"
    limits(max_args=1_000_000, max_depth=1)
    hooks.register(type("Guard", (), {"before": lambda self, call: {"input": {"x": []}}})(), "guard")
    assert ask(agent, "deep")["reason"]["code"] == "plugin_crash"
