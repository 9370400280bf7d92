"""Events are never updated or deleted, but by the door that `toolcards.models.write_guard` opens.

A later migration that rebuilds `toolcards_event` on SQLite drops the triggers with the old table: it must call
`create_triggers` again. A test asks the database for them.
"""

from django.db import migrations

SQLITE = """
CREATE TRIGGER toolcards_event_{action} BEFORE {action} ON toolcards_event WHEN NOT toolcards_event_changes()
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END
"""
POSTGRESQL_FUNCTION = """
CREATE OR REPLACE FUNCTION toolcards_event_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the event log is append-only' USING ERRCODE = 'restrict_violation';
END $$
"""
POSTGRESQL = """
CREATE TRIGGER toolcards_event_{action} BEFORE {action} ON toolcards_event FOR EACH {level}
WHEN (current_setting('toolcards.event_changes', true) IS DISTINCT FROM 'on')
EXECUTE FUNCTION toolcards_event_refuse()
"""
LEVELS = {"update": "ROW", "delete": "ROW", "truncate": "STATEMENT"}


def create_triggers(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        for action in ("update", "delete"):
            schema_editor.execute(SQLITE.format(action=action))
    elif schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(POSTGRESQL_FUNCTION)
        for action, level in LEVELS.items():
            schema_editor.execute(POSTGRESQL.format(action=action, level=level))


def drop_triggers(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        for action in ("update", "delete"):
            schema_editor.execute(f"DROP TRIGGER IF EXISTS toolcards_event_{action}")
    elif schema_editor.connection.vendor == "postgresql":
        for action in LEVELS:
            schema_editor.execute(f"DROP TRIGGER IF EXISTS toolcards_event_{action} ON toolcards_event")
        schema_editor.execute("DROP FUNCTION IF EXISTS toolcards_event_refuse()")


class Migration(migrations.Migration):
    dependencies = [
        ("toolcards", "0010_clocks"),
    ]

    operations = [
        migrations.RunPython(create_triggers, drop_triggers, elidable=False),
    ]
