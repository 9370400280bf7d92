"""Drops indexes whose columns begin another index of the same table: every event and every run was written to both."""

import django.db.models.deletion
from django.db import migrations, models

REDUNDANT = (("toolcards_event", "run_id"), ("toolcards_run", "source_id"), ("toolcards_toolcall", "waiting"))


def drop_indexes(apps, schema_editor):
    """Drop the indexes by themselves: `AlterField` would copy the table on SQLite, without the triggers of the log."""
    connection = schema_editor.connection
    for table, column in REDUNDANT:
        with connection.cursor() as cursor:
            constraints = connection.introspection.get_constraints(cursor, table)
        for name, constraint in constraints.items():
            is_plain = constraint["index"] and not constraint["unique"] and not constraint["primary_key"]
            if is_plain and constraint["columns"] == [column]:
                schema_editor.execute(f"DROP INDEX IF EXISTS {schema_editor.quote_name(name)}")


def create_indexes(apps, schema_editor):
    """Create them again under the names that Django gives them."""
    for table, column in REDUNDANT:
        model = next(model for model in apps.get_models() if model._meta.db_table == table)
        field = next(field for field in model._meta.local_fields if field.column == column)
        schema_editor.execute(schema_editor._create_index_sql(model, fields=[field]))


class Migration(migrations.Migration):

    dependencies = [
        ('toolcards', '0015_saved_filters'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(drop_indexes, create_indexes)],
            state_operations=[
                migrations.AlterField(
                    model_name='event',
                    name='run',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='events', to='toolcards.run'),
                ),
                migrations.AlterField(
                    model_name='run',
                    name='source',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='toolcards.source'),
                ),
                migrations.AlterField(
                    model_name='toolcall',
                    name='waiting',
                    field=models.BooleanField(default=False),
                ),
            ],
        ),
    ]
