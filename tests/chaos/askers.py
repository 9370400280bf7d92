"""Clients that ask and answer: gate sockets, polling agents, a person who votes, and refused requests."""

from __future__ import annotations

import json
import random
import time
from typing import Any
from urllib.parse import quote

from tests.chaos.clients import CONNECTION_ERRORS, Http, Person
from tests.chaos.ledger import Question
from tests.chaos.load import Client
from tests.chaos.streams import BROKEN, Streamer

OPEN = 3  # questions of one socket at once
FINAL = ("allow", "deny")


class Gated(Streamer):
    """A gate socket with numbered frames that repeats unanswered questions on its next socket."""

    mode = "gate"

    def work(self) -> None:
        """Ask, and note each answer; ends when nothing is open."""
        frames: list[str] = []
        fields: dict[str, dict[str, Any]] = {}
        first, created = 0, 0
        while self.goes_on() or (fields and self.may_finish()):
            base = following = first
            try:
                with self.connect() as socket:
                    # As the shipped clients do: an answer may have been lost with the last connection.
                    frames += [self._numbered(frames, frame, ahead) for ahead, frame in enumerate(fields.values(), 1)]
                    while self.goes_on() or ((fields or first < len(frames)) and self.may_finish()):
                        if self.goes_on() and len(fields) < OPEN and following == first:
                            created += 1
                            fields[f"g{created}"] = self._question(f"g{created}")
                            frames.append(self._numbered(frames, fields[f"g{created}"]))
                        for frame in frames[following:]:
                            socket.send(frame)
                        following = len(frames)
                        for message in self.receive_messages(socket):
                            if message["type"] == "ack":
                                first = base + message["frames"]
                            elif message["type"] == "decision" and message["decision"] in FINAL:
                                self._hear(message, fields, frames)
            except BROKEN as error:
                self.refuse(error)

    def _question(self, call_id: str) -> dict[str, Any]:
        self.ledger.ask(self.run, call_id, polls=False)
        fields = {"command": f"git push origin {call_id}"}
        return {"type": "tool.input.available", "call_id": call_id, "tool": "bash", "input": fields}

    @staticmethod
    def _numbered(frames: list[str], frame: dict[str, Any], ahead: int = 1) -> str:
        return json.dumps({"n": len(frames) + ahead} | frame)

    def _hear(self, fields: dict[str, Any], payload: dict[str, dict[str, Any]], frames: list[str]) -> None:
        call_id, answer = fields["call_id"], fields["decision"]
        question = self.ledger.ask(self.run, call_id, polls=False)
        if fields["decision_id"] in question.decision_ids:
            return  # a server that was killed cannot know that it had arrived: it comes again, under the same id
        question.decision_ids.add(fields["decision_id"])
        question.answers.append(answer)
        question.codes.append(str((fields.get("reason") or {}).get("code")))
        if (fields.get("by") or {}).get("kind") != "human":
            question.refusal = str((fields.get("by") or {}).get("kind"))
        if payload.pop(call_id, None) and answer == "allow":
            result = {"type": "tool.output.available", "call_id": call_id, "output": f"ran {call_id}"}
            frames.append(self._numbered(frames, result))
        self.succeed()


class Poller(Client):
    """An agent that decides, polls, claims and sends the result over HTTP, and repeats unanswered requests."""

    def work(self) -> None:
        """Ask one question after the other."""
        agent, created = Http(self.server, timeout=40.0), 0
        while self.goes_on():
            created += 1
            self._ask(agent, self.ledger.ask(self.run, f"q{created}", polls=True))
            self.stop.wait(0.1)
        agent.close()

    def _ask(self, agent: Http, question: Question) -> None:
        body = {"run": self.run, "call_id": question.call_id, "tool": "bash", "args": {"command": "git push"}}
        status, decision = self._send_until_answered(agent, "POST", "/api/v1/calls/decide", body)
        while status == 200 and decision["decision"] == "ask" and self.may_finish():
            status, decision = self._send_until_answered(
                agent, "GET", f"/api/v1/approvals/{decision['approval']['id']}?wait=10"
            )
        if status != 200 or decision["decision"] not in FINAL:
            question.refusal = f"{status}"
            return
        question.answers.append(decision["decision"])
        question.codes.append(str((decision.get("reason") or {}).get("code")))
        if decision["by"]["kind"] != "human":
            question.refusal = decision["by"]["kind"]
        elif decision["decision"] == "allow":
            self._run(agent, question, decision)
        self.succeed()

    def _run(self, agent: Http, question: Question, payload: dict[str, Any]) -> None:
        # A claim whose answer was lost is repeated on another connection: `claim_id` says that it is the same one.
        claim_id = f"{self.run}/{question.call_id}"
        claim = {"call_id": question.call_id, "args_sha256": payload["args_sha256"], "claim_id": claim_id}
        path = f"/api/v1/permits/{payload['permit']['id']}/claim" if payload.get("permit") else ""
        status, _ = self._send_until_answered(agent, "POST", path, claim, tries=question.claims) if path else (0, None)
        if status == 200:
            result = {"run": self.run, "outcome": "ok", "output": f"ran {question.call_id}"}
            self._send_until_answered(agent, "POST", f"/api/v1/calls/{question.call_id}/result", result)

    def _send_until_answered(
        self, agent: Http, method: str, path: str, body: Any = None, tries: list[int] | None = None
    ) -> tuple[int, Any]:
        """Send until there is an answer other than 5xx, or no time is left; `tries` takes each status."""
        status, value = 0, None
        while True:
            try:
                status, value = agent.send(method, path, body)
            except CONNECTION_ERRORS as error:
                status = 0
                self.refuse(error)
            if tries is not None:
                tries.append(status)
            if 0 < status < 500 or not self.may_finish():
                return status, value
            if status:
                self.refuse(f"{status}")


class Voter(Client):
    """A person who answers each waiting question, mostly with an approval."""

    def work(self) -> None:
        """Vote until the load ends, and while questions still wait."""
        chosen, person, idle = random.Random(7), None, 0
        while self.goes_on() or (idle < 20 and self.may_finish()):
            try:
                if person is None:
                    person = Person(self.server)
                    person.sign_in()
                waiting = person.waiting()
                idle = 0 if waiting else idle + 1
                for approval in waiting:
                    self._vote(person, approval, "approve" if chosen.random() < 0.7 else "deny")
                time.sleep(0.1)
            except CONNECTION_ERRORS as error:
                self.refuse(str(error) or type(error).__name__)
                person = person if person is not None and person.signed_in else None

    def _vote(self, person: Person, approval: dict[str, Any], answer: str) -> None:
        vote = self.ledger.vote(approval["run"], approval["call_id"], answer)
        vote.status = person.vote(approval, answer)
        if vote.status == 200:
            self.succeed()
        else:
            self.refuse(f"{vote.status}")


class RefusedClient(Client):
    """An agent whose requests are refused, because it claims permits that do not exist."""

    pause = 0.5

    def work(self) -> None:
        """Claim missing permits until the load ends."""
        agent = Http(self.server)
        while self.goes_on():
            try:
                path = f"/api/v1/permits/{quote('prm_nothing')}/claim"
                status, _ = agent.send("POST", path, {"call_id": "x", "args_sha256": "0" * 64})
                if status == 404:
                    self.succeed()
                else:
                    self.refuse(f"{status}")
            except CONNECTION_ERRORS as error:
                self.refuse(error)
            self.stop.wait(self.pause)
        agent.close()


class OftenRefused(RefusedClient):
    """The same, ten times a second."""

    pause = 0.1
