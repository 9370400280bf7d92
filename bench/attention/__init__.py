"""How many questions a person gets, and about what: ordinary sessions and dangerous calls under each starter policy.

Each call is decided over HTTP by a new server. A person answers each question at once, with the most lasting answer
that the card offers; a dangerous call is denied. What counts: questions per 100 calls, how many of them repeat one that
was answered in the same session, and dangerous calls that run unasked, disguised ones too.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from typing import Any

from bench import servers
from bench.attention import corpus
from bench.attention.corpus import DANGER, TRUTHS, CorpusCall
from bench.report import Report
from toolcards.client import Toolcards

GOALS = {"ask-on-writes": 8.0, "follow-the-agent": 3.0}  # questions per 100 calls
GRANTS = ("run", "until")  # standing approvals, where a card offers no lasting answer
_SEPARATORS = re.compile(r"\s*(?:&&|\|\||[;|\n])\s*")


def measure(report: Report, *, quick: bool) -> None:
    """Measure each starter; `quick`: only some of the sessions."""
    from toolcards.core.policy.language.presets import PRESETS

    sessions, dangerous_calls = corpus.load_sessions(), corpus.load_dangerous()
    names = list(sessions)[:2] if quick else list(sessions)
    for name, preset in PRESETS.items():
        with servers.toolcards() as server:
            _activate(server, dict(preset.document))
            desk = Desk(server)
            questions = [_count_questions(desk, sessions[session]) for session in names]
            total = sum(questions, Counter())
            _report_questions(report, preset.title, total, GOALS.get(name))
            for session, counts in zip(names, questions, strict=True):
                report.note(f"{preset.title}, {session}", _describe(counts))
            disguised_calls = [each for call in dangerous_calls for each in corpus.disguise(call)]
            effects = Counter((call.kind, desk.ask("dangerous", call)) for call in disguised_calls)
            allowed_counts = {kind: count for (kind, effect), count in sorted(effects.items()) if effect == "allow"}
            denied_count = sum(count for (_, effect), count in effects.items() if effect == "deny")
            report.note(f"{preset.title}: dangerous calls that run unasked", allowed_counts)
            report.note(f"{preset.title}: dangerous calls denied without asking", denied_count)
            target = {} if name == "watch" else {"at_most": 0}
            title = f"{preset.title}: of {len(disguised_calls)} dangerous calls, unasked"
            report.row(title, sum(allowed_counts.values()), unit="", **target)


class Desk:
    """An agent that asks, and a person who answers each question at once."""

    def __init__(self, server: servers.Server) -> None:
        self._person = servers.Person(server.port)
        self._token = self._person.token()
        self._client = Toolcards(f"http://127.0.0.1:{server.port}", servers.KEY)
        self._count = 0

    def ask(self, run: str, call: CorpusCall) -> str:
        """Return what the server decided: allow, ask or deny."""
        self._count += 1
        tool = {"name": call.tool, **({"source": call.server} if call.server else {})}
        place = {"root": call.project} if call.project.startswith("/") else {}
        decision = self._client.decide(run, f"c{self._count}", tool, call.args, agent=[call.program], **place)
        if decision.waiting:
            self._answer(call)
            return "ask"
        return "allow" if decision.allowed else "deny"

    def _answer(self, call: CorpusCall) -> None:
        (waiting,) = self._client._send("GET", "/api/v1/approvals?state=waiting")["approvals"]
        card = waiting["call"]
        terms = card["approval"]["terms"]
        fields = {
            "decision": "deny" if call.truth == DANGER else "approve", "rev": str(card["rev"]),
            "args_sha256": waiting["args_sha256"], "csrfmiddlewaretoken": self._token,
        }  # fmt: skip
        if call.truth != DANGER:
            lasting_values = [value for value, _, _ in terms.get("always", ())]
            grant = next((grant for grant in GRANTS if grant in terms.get("grants", ())), "")
            fields |= {"always": lasting_values[0]} if lasting_values else {"grant": grant}
        address = f"/approvals/{waiting['id']}/vote"
        status, page = self._person._ask("POST", address, fields)
        if status == 422 and fields.pop("always", ""):  # the page warns of a high risk and has no such button
            status, page = self._person._ask("POST", address, fields)
        if status != 303:  # a plain form leads back to the page
            raise SystemExit(f"the vote on {call} was answered with {status}: {page[:500]}")


def _count_questions(desk: Desk, calls: list[CorpusCall]) -> Counter[str]:
    counts: Counter[str] = Counter()
    answered_shapes: set[tuple[str, str]] = set()
    for call in calls:
        effect = desk.ask(call.session, call)
        counts += Counter({"calls": 1, f"calls {call.truth}": 1})
        if effect == "deny":
            counts["denied"] += 1
        if effect == "ask":
            shape = get_shape(call)
            counts += Counter({"questions": 1, f"asked {call.truth}": 1, "repeats": int(shape in answered_shapes)})
            answered_shapes.add(shape)
    return counts


def get_shape(call: CorpusCall) -> tuple[str, str]:
    """Return what makes two questions the same to a person.

    The programs and sub-commands of a command, or the tool and the folder of its path.
    """
    command = call.args.get("command", call.args.get("cmd"))
    if isinstance(command, str):
        parts = (part.split() for part in _SEPARATORS.split(command))
        programs = {tuple(word for word in part[:2] if not word.startswith("-")) for part in parts if part}
        return "command", json.dumps(sorted(words for words in programs if words and words[0] not in ("cd", "echo")))
    path = next((value for name, value in call.args.items() if "path" in name.lower() or "file" in name.lower()), "")
    return f"{call.server}:{call.tool}", str(path).rpartition("/")[0]


def _report_questions(report: Report, title: str, counts: Counter[str], goal: float | None) -> None:
    per_hundred = 100 * counts["questions"] / counts["calls"]
    target = {} if goal is None else {"at_most": goal}
    report.row(f"{title}: questions per 100 of {counts['calls']:,} calls", per_hundred, unit="", **target)
    report.note(title, _describe(counts))


def _describe(counts: Counter[str]) -> dict[str, Any]:
    question_counts = {truth: f"{counts[f'asked {truth}']} of {counts[f'calls {truth}']}" for truth in TRUTHS}
    per_hundred = round(100 * counts["questions"] / counts["calls"], 1)
    return {"per 100": per_hundred, **question_counts, "repeats": counts["repeats"], "denied": counts["denied"]}


def _activate(server: servers.Server, document: dict[str, Any]) -> None:
    """Activate the document in the database of a running server."""
    text = json.dumps(json.dumps(document))
    code = f"import json; from toolcards import gate; gate.activate(json.loads({text}), author='the bench')"
    environment = {**os.environ, "TOOLCARDS_DATA_DIR": str(server.folder)}
    subprocess.run(
        [sys.executable, "manage.py", "shell", "-c", code], cwd=servers.ROOT, env=environment, check=True,
        capture_output=True,
    )  # fmt: skip
