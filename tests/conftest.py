"""What all tests share: a data directory of their own, Django, the gate's helpers, and one check after every test.

A test that uses the database ends with a rebuild from the log, which must match what is stored.
"""

# ruff: noqa: E402 - Django is set up before its models are imported
from __future__ import annotations

import atexit
import contextlib
import gc
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

gc.disable()  # modules and collected tests are no garbage; `pytest_collection` enables it

# Tests start this program dozens of times. Where no bytecode may be kept, each start compiles all of it again, and
# each worker rewrites the assertions of all tests again. The cache is not committed.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tests kill processes and never the machine: a file system in memory keeps all that they need, and waits for no disk.
# The first process makes the folder and removes it at its end. With TMPDIR set, tests use that folder and leave theirs.
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
    with contextlib.suppress(OSError):
        if shutil.disk_usage(MEMORY).free > ROOM:
            os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="toolcards-", dir=MEMORY)
            atexit.register(shutil.rmtree, os.environ["TMPDIR"], ignore_errors=True)
            tempfile.tempdir = None  # what Python found before

# A worker of pytest-xdist inherits the environment of the process that made it: its data must not be shared.
os.environ.setdefault("TOOLCARDS_DISK_WARNING", "0")  # the disk of this computer may be nearly full
if "TOOLCARDS_DATA_DIR" not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["TOOLCARDS_DATA_DIR"] = tempfile.mkdtemp(prefix="toolcards-tests-")
    atexit.register(shutil.rmtree, os.environ["TOOLCARDS_DATA_DIR"], ignore_errors=True)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

import django

django.setup()

import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import connections, models, transaction
from django.test import TransactionTestCase
from hypothesis import HealthCheck
from hypothesis import settings as examples

from dashboard.accounts import roles
from tests.support.accounts import write_person
from tests.support.effort import THOROUGH
from tests.support.gate_commands import RecordFacts, make_ballot
from tests.support.server import Server, migrated
from tests.support.shared import share_folder
from toolcards import gate
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate.maintenance import rebuild, run_masking
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import committed_cards, run_cache
from toolcards.models import AgentKey, Run, Source, ToolCall
from toolcards.models.write_guard import allow_event_changes
from toolcards.notifications import subscriptions

share_folder()  # in the first process, before it starts others

# Tests do not survive a power cut; waiting for the disk is most of what they would do. (Servers of tests wait.)
_options = connections.settings["default"].get("OPTIONS", {})
if "init_command" in _options:
    _options["init_command"] = _options["init_command"].replace("synchronous=FULL", "synchronous=OFF")

# A password's hash is slow on purpose, which the tests' own people do not need. (Servers of tests hash as always.)
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Each test's client builds the middleware again, which would look at every static file. (Servers of tests serve them.)
settings.SERVESTATIC_USE_FINDERS = settings.SERVESTATIC_AUTOREFRESH = settings.SERVESTATIC_USE_STATIC_ROOT = False
# Made-up examples may take their time: a busy machine is no fault. New ones for people, the same ones for CI.
examples.register_profile(
    "toolcards", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
examples.register_profile(THOROUGH, examples.get_profile("toolcards"))
examples.load_profile("toolcards")
# What migrations filled and no test changes.
KEPT_TABLES = {"django_migrations", "django_content_type", "auth_permission"}
# The three roles, as every server has them after its start. Each test finds them new.
ROLES: dict[type[models.Model], list[models.Model]] = {Group: [], Group.permissions.through: []}


def _empty_tables(case: TransactionTestCase | None = None) -> None:
    """Empty the tables. Django's own flush takes a quarter of a second, most of it to write permissions again."""
    connection = connections["default"]
    with transaction.atomic(), allow_event_changes(), connection.cursor() as cursor:
        for table in (
            set(connection.introspection.django_table_names(only_existing=True, include_views=False)) - KEPT_TABLES
        ):
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")
        if connection.vendor == "sqlite":
            cursor.execute("DELETE FROM sqlite_sequence")  # as if nothing had ever been there
        for model, rows in ROLES.items():
            model._default_manager.bulk_create(rows)


TransactionTestCase._fixture_teardown = _empty_tables  # type: ignore[method-assign]

pytest_plugins = ["tests.support.agents"]  # the fixtures `agent` and `call`
LONG = {"slow", "browser", "postgres", "redis"}  # markers
# Tests that take seconds of CPU in this process: the last one to begin would keep one core busy while others have none.
HEAVY = {
    "test_a_permit_hands_out_what_was_approved_and_once", "test_an_agent_gets_one_answer_and_it_is_the_first",
    "test_every_danger_that_is_real_is_known", "test_policy_is_what_its_documentation_says",
    "test_the_door_answers_as_the_pages_do", "test_two_commands_of_one_commit_are_as_two_commits",
    "test_what_ran_is_inside_what_was_said", "test_with_too_little_work_it_is_never_milder",
}  # fmt: skip
SECRET = "tck_secret_of_the_tests_0123456789abcdefgh"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Start a worker of pytest-xdist without our settings: it would read them before it has a folder of its own."""
    forgotten = "import os; [os.environ.pop(name, 0) for name in ('DJANGO_SETTINGS_MODULE', 'TOOLCARDS_DATA_DIR')]"
    node.gateway.remote_exec(forgotten).waitclose()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looking for garbage, and leave all that is there by then out of every later look."""
    yield
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin the share of each worker with tests of whole servers and heavy ones, so that it ends with short tests."""
    long: dict[Path, list[pytest.Item]] = {}
    weights: dict[Path, float] = {}  # about how many seconds the tests of a module take
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        has_server = "server" in getattr(item, "fixturenames", ()) and "server" not in params
        marks = {mark.name for mark in item.iter_markers()}
        is_heavy = getattr(item, "originalname", "") in HEAVY
        if is_heavy or ((has_server or marks & LONG) and "django_db" not in marks):
            long.setdefault(item.path, []).append(item)
            weights[item.path] = weights.get(item.path, 0) + (4.0 if is_heavy or "browser" in marks else 0.3)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    loads = [0.0] * workers
    for path in sorted(long, key=weights.__getitem__, reverse=True):
        lightest = loads.index(min(loads))
        shares[lightest] += long[path]
        loads[lightest] += weights[path]
    shared_ids = {id(item) for share in shares for item in share}
    short = [item for item in items if id(item) not in shared_ids]
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares, 1):
        ordered += share
        space = max(0, len(items) * number // workers - len(ordered))  # the workers begin with equal parts of the list
        ordered += short[:space]
        short = short[space:]
    items[:] = [*ordered, *short]


_not_run: Counter[str] = Counter()
NOT_HERE = "not here: "


@pytest.hookimpl(wrapper=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> Iterator[None]:
    """Count the tests that were skipped because a program is missing."""
    if report.skipped and isinstance(report.longrepr, tuple) and NOT_HERE in report.longrepr[2]:
        _not_run[report.longrepr[2].partition(NOT_HERE)[2]] += 1
    yield


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say what was not run where it cannot be missed: in the last lines."""
    if _not_run and not hasattr(config, "workerinput"):
        for program, count in sorted(_not_run.items()):
            sys.stdout.write(f"NOT RUN: {count} tests that need {program}, which is not here\n")


@pytest.fixture(scope="session")
def django_db_keepdb(request: pytest.FixtureRequest) -> bool:
    """Begin with a copy of the tables that the servers of tests begin with, instead of one migration per process."""
    if connections["default"].vendor != "sqlite":
        return False
    request.getfixturevalue("django_db_modify_db_settings")
    name = settings.DATABASES["default"]["TEST"]["NAME"]
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(migrated(), name)
    return True


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Make the roles once: for each test with a person they would take half of the time."""
    with django_db_blocker.unblock():
        roles.ensure_roles()
        for model, rows in ROLES.items():
            rows += model._default_manager.all()
        _empty_tables()  # of the row in the audit trail too


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    """Clear what this process remembers of rows, whose ids start again with every test."""
    from dashboard.accounts.guessing import throttle
    from dashboard.cards import rendering
    from toolcards import models, outages
    from toolcards.audit import anchor, verification
    from toolcards.transports.api import auth, sse
    from toolcards.transports.background import connections as presence

    anchor.reset()
    verification.get_path().unlink(missing_ok=True)
    run_cache.clear()
    committed_cards.clear()
    subscriptions.clear_cache()
    clock.reset()
    run_masking._refused_runs.clear()
    auth.clear_cache()
    sse._waiting_readers.clear()
    throttle.sign_ins.clear()
    presence.connections.clear()
    presence._senders.clear()
    models._shown_cards.clear()
    outages.reset()
    rendering.card_cache.clear()
    yield
    anchor.reset()  # its thread must not outlive the test, and never pytest's own streams


@pytest.fixture(autouse=True)
def the_log_adds_up(request: pytest.FixtureRequest, _nothing_remembered: None) -> Iterator[None]:
    """Fold equals store, after every test that touched the database."""
    touches = request.node.get_closest_marker("django_db") or {"db", "transactional_db"} & set(request.fixturenames)
    if touches:
        request.getfixturevalue("_django_db_helper")  # set up before us, so torn down after us
    yield
    if touches:
        gate.drain()
        faults = [fault for run in Run.objects.all() for fault in rebuild.find_differences(run)]
        assert not faults


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give `limits(grace=0.5, …)`: change settings of the environment for one test."""

    def change(**values: Any) -> None:
        monkeypatch.setattr(settings, "TOOLCARDS", settings.TOOLCARDS.model_copy(update=values))

    return change


@pytest.fixture
def policy(db: None) -> Callable[..., Any]:
    """Give `policy(pack_or_document)`: activates a starter pack by its name, or a document."""

    def activate(preset_or_document: str | dict[str, Any] = "watch", **rest: Any) -> Any:
        document = (
            dict(PRESETS[preset_or_document].document)
            if isinstance(preset_or_document, str)
            else {"v": 1, "rules": [], **preset_or_document}
        )
        return gate.activate(document, author="a test", **rest)

    return activate


@pytest.fixture
def key(db: None) -> AgentKey:
    """An agent key with every scope; its secret is `secret`."""
    return AgentKey.objects.ensure(SECRET, name="an agent")


@pytest.fixture
def secret(key: AgentKey) -> str:
    """The secret of `key`."""
    return SECRET


@pytest.fixture
def source(key: AgentKey) -> Source:
    """The source of `key`."""
    return key.source


@pytest.fixture
def a_person(db: None) -> Callable[..., Any]:
    """Give `a_person(role)`: a person with the role, who signs in with the password `password`."""

    def make(role: str = "approver", name: str = "") -> Any:
        return write_person(name or f"a-{role}", role)

    return make


@pytest.fixture
def a_run(source: Source) -> Callable[..., Run]:
    """Give `a_run(name, *facts)`: a run that has begun and said this."""

    def make(name: str = "run-1", *facts: Any, source: Source = source, title: str = "") -> Run:
        pk = group_commit.execute(RecordFacts(source, name, [f.RunStarted(agent="bot", title=title), *facts]))
        return Run.objects.get(pk=pk)

    return make


_REACHED: dict[str, list[Callable[[str, str, Any], Any]]] = {
    "input-streaming": [lambda call, tool, args: f.InputStarted(call, tool)],
    "input-available": [lambda call, tool, args: f.InputReady(call, tool, args, True)],
}
_REACHED["output-available"] = [
    *_REACHED["input-available"],
    lambda call, tool, args: f.OutputReady(call, {"ok": True}),
]
_REACHED["output-error"] = [*_REACHED["input-available"], lambda call, tool, args: f.OutputFailed(call, "it broke")]


@pytest.fixture
def a_call(a_run: Callable[..., Run], source: Source, request: pytest.FixtureRequest) -> Callable[..., ToolCall]:
    """Give `a_call(state=…, tool=…, input=…)`: a call in that state, reached through the gate.

    The states with an approval are reached by asking under a policy that asks, and by a person's vote.
    """

    def make(
        state: str = "input-available",
        *,
        tool: str = "bash",
        input: Any = None,  # noqa: A002 - the word of the wire
        call_id: str = "call-1",
        run: str = "run-1",
    ) -> ToolCall:
        fields = {"command": "ls"} if input is None else input
        if state in _REACHED:
            _continue(run, [fact(call_id, tool, fields) for fact in _REACHED[state]])
        else:
            _ask(run, call_id, tool, fields, state)
        tool_call = ToolCall.objects.get(run__name=run, call_id=call_id)
        assert tool_call.state == state
        return tool_call

    def _continue(run: str, facts: list[Any]) -> None:
        if Run.objects.filter(source=source, name=run).exists():
            group_commit.execute(RecordFacts(source, run, facts))
        else:
            a_run(run, *facts)

    def _ask(run: str, call_id: str, tool: str, fields: Any, state: str) -> None:
        if not gate.get_active_version_number():
            request.getfixturevalue("policy")({"default": "ask"})
        approver = request.getfixturevalue("an_approver")
        apart = {"place": f"{run} {call_id}"}  # an equal call of another id is no twin
        decision = gate.decide(source, gate.DecisionRequest(run=run, call_id=call_id, tool=tool, args=fields, **apart))
        assert decision["decision"] == "ask", decision
        if state != "approval-requested":
            call = ToolCall.objects.get(run__name=run, call_id=call_id)
            answer = "deny" if state == "output-denied" else "approve"
            gate.vote(approver, make_ballot(call, answer))

    return make


@pytest.fixture
def an_approver(a_person: Callable[..., Any]) -> Any:
    """A person who may vote."""
    return a_person("approver", "ann")


@pytest.fixture
def ballot() -> Callable[[ToolCall, str], gate.Ballot]:
    """Give `ballot(call, decision)`: what a person sends who sees the call as it is now."""
    return make_ballot


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real server in a process of its own, shared by all tests: `server.base`, `server.request`, `server.socket`."""
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running
