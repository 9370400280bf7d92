"""A restore that was killed at any step is undone, or complete, when the server starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import migrated
from toolcards.backup import BackupError, clean_up, recovery, stores

# Makes a backup with one act, adds another act, and restores the backup in children that are killed before their
# first, second, … change of a file; after each of them the data directory is cleaned up and looked at.
_KILL_AT_EACH_STEP = """
import os, shutil, signal, sqlite3, sys
from contextlib import closing
from pathlib import Path
import django
django.setup()
from django.conf import settings
from django.db import connections
from toolcards import backup
from toolcards.audit import anchor, verification
from toolcards.audit.rows import AuditRow
from toolcards.audit.trail import Act, write_acts

folder, with_key = Path(settings.TOOLCARDS.data_dir), sys.argv[1] == "with-key"
path = folder.parent / "backup.tar"
write_acts(Act("before"))
anchor.write()
backup.make(path, with_key=with_key)
write_acts(Act("after"))
anchor.write()
connections.close_all()
kept = folder.parent / "kept"
shutil.copytree(folder, kept)
seen = 0

def kill_at(step):
    def look(event, arguments):
        global seen
        if event in ("os.rename", "os.remove", "os.link", "os.rmdir", "sqlite3.connect"):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(look)

for step in range(1, 500):
    child = os.fork()
    if not child:
        kill_at(step)
        backup.restore(path, actor="ana", force=True, with_key=with_key)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    backup.clean_up()
    acts = list(AuditRow.objects.order_by("seq").values_list("act", flat=True))
    fault = verification.verify().fault
    connections.close_all()
    remains = [*folder.glob(".restore-*"), *folder.glob("restore-unfinished*")]
    print(step, status, ",".join(acts), fault or "-", len(remains), sep="|", flush=True)
    anchor.reset()
    shutil.rmtree(folder)
    shutil.copytree(kept, folder)
    if not status:
        break
"""


@pytest.mark.slow
@pytest.mark.parametrize("key", ["without-key", "with-key"])
def test_a_restore_that_is_killed_at_any_step_leaves_a_whole_database_and_its_anchor(tmp_path: Path, key: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    (folder / "toolcards.sqlite3").write_bytes(migrated().read_bytes())
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCARDS_")}
    surroundings |= {"TOOLCARDS_DATA_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    command = [sys.executable, "-c", _KILL_AT_EACH_STEP, key]
    output = subprocess.run(command, env=surroundings, check=True, capture_output=True, text=True).stdout
    lines = [line.split("|") for line in output.splitlines()]
    assert len(lines) > 8 and [line[1] for line in lines] == ["9"] * (len(lines) - 1) + ["0"]
    states = [line[2] for line in lines]
    assert [line for line in lines if line[3:] != ["-", "0"]] == []
    end = states.index("before,trail.restored")
    assert set(states[:end]) == {"before,after"} and set(states[end:]) == {"before,trail.restored"}


def test_nothing_is_done_and_nothing_said_without_remains(database: Path) -> None:
    before = sorted(database.parent.iterdir())
    assert clean_up() == "" and sorted(database.parent.iterdir()) == before


def test_a_note_that_cannot_be_read_says_what_to_run(database: Path) -> None:
    for text in ("", "[]", '{"backup": 1}'):
        (database.parent / recovery.NOTE).write_text(text)
        with pytest.raises(BackupError, match="Run `toolcards restore` again"):
            clean_up()


def test_half_a_restore_of_postgresql_names_both_ways_on(
    database: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stores, "get_store", stores.Postgres)
    old = tmp_path / "before.tar"
    recovery.begin(tmp_path / "b.tar", str(old), "")
    assert "did not finish" in clean_up()  # killed while the old tables were backed up: nothing was replaced
    old.touch()
    recovery.begin(tmp_path / "b.tar", str(old), "")
    with pytest.raises(BackupError, match=r"restore .*/b.tar --force` again, or go back by .*/before.tar --force"):
        clean_up()
    assert json.loads((database.parent / recovery.NOTE).read_text())["old_database"] == str(old)
