"""What was seen of each source, the newest of each kind."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("toolcards", "0002_sealed")]

    operations = [
        migrations.CreateModel(
            name="Proof",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("ability", models.CharField(max_length=10)),
                ("by", models.CharField(max_length=10)),
                ("at", models.DateTimeField()),
                ("run", models.CharField(max_length=200)),
                ("call", models.CharField(max_length=40)),
                ("protocol", models.CharField(blank=True, max_length=40)),
                ("words", models.CharField(max_length=300)),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="proofs", to="toolcards.source"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=["source", "ability", "by"], name="proof_newest")],
            },
        ),
    ]
