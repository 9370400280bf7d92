"""A run counts the frames whose kind its adapter does not know, by kind."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("toolcards", "0005_runs_with_heartbeats"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="skipped",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="run",
            name="skipped_kinds",
            field=models.TextField(default="{}"),
        ),
    ]
