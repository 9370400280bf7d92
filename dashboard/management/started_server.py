"""What a server says when it is up: its address, and what is shown only once; for people, or as one line of JSON."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dashboard.accounts import sign_in_links
from dashboard.environment import PROGRAM


@dataclass(frozen=True, slots=True)
class StartedServer:
    """A server that is up. `link` signs the admin in once; `agent_key` is the first key; both are empty later."""

    address: str
    people_address: str
    data: Path
    link: str = ""
    agent_key: str = ""

    def to_text(self) -> str:
        """Return the lines for people."""
        lines = [f"Toolcards is up at {self.address}", ""]
        if self.people_address != self.address:
            lines.append(f"  People       {self.people_address}")
        if self.link:
            lines.append(f"  Sign in      {self.link}")
            minutes = sign_in_links.LINK_SECONDS // 60
            lines.append(f"               works once, within {minutes} minutes; new link: {PROGRAM} person link")
        if self.agent_key:
            lines.append(f"  Agent key    {self.agent_key}  (shown once; agents connect with it)")
        lines.append(f"  Connect      {PROGRAM} connect claude-code  (`connect list` shows all)")
        lines.append(f"  Data         {self.data}")
        if "TOOLCARDS_DATA_DIR" in os.environ:  # else the commands above would use another folder
            lines.append("               other terminals need the same TOOLCARDS_DATA_DIR for these commands")
        return "\n".join([*lines, "  Stop         Ctrl+C", ""])

    def to_json(self, *, has_terminal: bool) -> str:
        """Return one line of the log.

        Logs are kept and read by many, so the link and the key are only in that of a terminal.
        """
        facts = {
            "event": "Toolcards is up",
            "address": self.address,
            "people": self.people_address,
            "data": str(self.data),
        }
        facts |= {"level": "info", "logger": "toolcards.serve", "timestamp": datetime.now(UTC).isoformat()}
        if self.link:
            facts["sign_in"] = self.link if has_terminal else f"{PROGRAM} person link"
        if self.agent_key and has_terminal:
            facts["agent_key"] = self.agent_key
        return json.dumps(facts, ensure_ascii=False)
