"""One row says when a process of this installation last wrote."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("toolcards", "0006_runs_count_skipped_frames"),
    ]

    operations = [
        migrations.CreateModel(
            name="Pulse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.FloatField()),
            ],
            options={"default_permissions": ()},
        ),
    ]
