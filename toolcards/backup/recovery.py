"""A restore that was killed midway: a note in the data directory says how to undo it, and the next start does so.

The note exists while the database, the anchor and the key may not belong together. On SQLite every step back can itself
be killed and be done again. PostgreSQL has its own backup of the old tables, and people choose which one they want.
"""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings

from toolcards.audit import anchor
from toolcards.audit.rows import get_key_id
from toolcards.backup import stores
from toolcards.backup.archive import BackupError
from toolcards.files import replace_file

SCRATCH = ".restore-"
NOTE = "restore-unfinished.json"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestoreNote:
    """What a restore replaces: the place of the old database ("" for none), the anchor's text, and the new key's id."""

    backup: str
    old_database: str
    anchor: str | None
    key: str

    def write(self) -> None:
        """Write the note, before the first step that changes anything."""
        replace_file(_get_note(), json.dumps(asdict(self)))


def begin(backup: Path, old_database: str, key: str) -> None:
    """Note that a restore begins to replace the database."""
    place = anchor.get_path()
    text = place.read_text(errors="replace") if place.exists() else None
    RestoreNote(str(backup.absolute()), old_database, text, key).write()


def end() -> None:
    """Note that the restore is complete, or was undone."""
    _get_note().unlink(missing_ok=True)


def undo() -> str:
    """Undo a restore by its note.

    Returns what was done, "" without a note. Raises BackupError where people decide.
    """
    note = _read_note()
    outcome = _settle(note) if note else ""
    end()
    return outcome


def clean_up() -> str:
    """Undo a restore that was killed, and remove its copies.

    Returns what was done, "" for nothing. Raises BackupError where people decide.
    Call it while no other process uses the data directory.
    """
    copies = [*Path(settings.TOOLCARDS.data_dir).glob(f"{SCRATCH}*")]
    for copy in copies:
        if copy.is_dir():
            shutil.rmtree(copy, ignore_errors=True)
        else:
            copy.unlink(missing_ok=True)  # half a note
    outcome = undo() or ("A restore was killed before it changed anything; its copy was removed." if copies else "")
    if outcome:
        log.warning("restore: %s", outcome)
    return outcome


def _settle(note: RestoreNote) -> str:
    if note.key and note.key == get_key_id():  # the key is the last thing that a restore replaces
        return f"The restore of {note.backup} was killed after its last step; it is complete."
    store = stores.get_store()
    if not store.put_back_unfinished(note.old_database):
        alternative = f", or go back by `toolcards restore {note.old_database} --force`" if note.old_database else ""
        raise BackupError(
            f"A restore of {note.backup} did not finish, so the database may be incomplete."
            f" Run `toolcards restore {note.backup} --force` again{alternative}."
        )
    place = anchor.get_path()
    if note.anchor is None:
        place.unlink(missing_ok=True)
    else:
        replace_file(place, note.anchor)
    return f"The restore of {note.backup} did not finish; the database is the one from before it again."


def _read_note() -> RestoreNote | None:
    place = _get_note()
    if not place.exists():
        return None
    try:
        return RestoreNote(**json.loads(place.read_text()))
    except (ValueError, TypeError) as error:
        raise BackupError(f"{place} cannot be read. Run `toolcards restore` again, with --force.") from error


def _get_note() -> Path:
    return Path(settings.TOOLCARDS.data_dir) / NOTE
