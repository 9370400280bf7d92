"""Originals are sealed from now on, so what pages look for in them gets a column: calls that ran beyond our control."""

from django.db import migrations, models
from django.db.models import Q


def find(apps, schema_editor):
    """The cards that are there still stand in the clear."""
    calls = apps.get_model("toolcards", "ToolCall").objects.using(schema_editor.connection.alias)
    said = Q(card__contains='["ungoverned",') | Q(card__contains='["ran-without-approval",')
    calls.filter(said).update(beyond_control=True)


class Migration(migrations.Migration):
    dependencies = [("toolcards", "0001_initial")]

    operations = [
        migrations.AddField("toolcall", "beyond_control", models.BooleanField(db_default=False, default=False)),
        migrations.AddIndex(
            "toolcall",
            models.Index(condition=Q(("beyond_control", True)), fields=["finished_at"], name="call_beyond_control"),
        ),
        migrations.RunPython(find, migrations.RunPython.noop),
    ]
