"""Each server process numbers its group commits, to know of one whose answer was lost whether it has happened."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("toolcards", "0008_receipts_count_frames"),
    ]

    operations = [
        migrations.CreateModel(
            name="GroupCommit",
            fields=[
                ("process", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("number", models.BigIntegerField()),
                ("at", models.FloatField()),
            ],
            options={"default_permissions": ()},
        ),
    ]
