"""The hints that a card shows, in words. A grave hint makes the risk high."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hint:
    """One reason to look closely at a call."""

    text: str
    is_grave: bool = False


DELETES = Hint("deletes or overwrites data", is_grave=True)
DOWNLOADED_CODE = Hint("runs code from the network", is_grave=True)
ACCESS_FILES = Hint("changes sign-in or startup files", is_grave=True)
SYSTEM_FILES = Hint("changes system files", is_grave=True)
MOVES_LARGE_AMOUNT = Hint("moves a large amount", is_grave=True)
TOO_LARGE = Hint("too large to check in full", is_grave=True)
CHANGES_ROWS = Hint("changes rows of a database")
CHANGES_OVER_HTTP = Hint("changes something over HTTP")
MANY_PEOPLE = Hint("reaches many people")
WHOLE_FOLDER = Hint("changes the rights of a whole folder")
RELEASES = Hint("publishes, merges or deploys")
OTHER_RIGHTS = Hint("runs with elevated rights")
OPEN_PERMISSIONS = Hint("lets everyone write")
SECRETS = Hint("touches secrets")
NETWORK = Hint("reaches the network")
SENDS_OR_PAYS = Hint("sends data or money")
NOT_ANALYZED = Hint("contains parts that can’t be analyzed")
OUTSIDE = Hint("leaves the project’s folder")
LONG = Hint("a long command")
