"""Runs remember that their agent sends heartbeats."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("toolcards", "0004_grants_name_server_and_schema"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="beats",
            field=models.BooleanField(default=False),
        ),
    ]
