"""A grant names the tool's server and schema; earlier grants count only for tools without either."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("toolcards", "0003_claims_name_their_client"),
    ]

    operations = [
        migrations.AlterField(
            model_name="grant",
            name="rule",
            field=models.CharField(max_length=100),
        ),
        migrations.AddField(
            model_name="grant",
            name="server",
            field=models.CharField(blank=True, max_length=300),
        ),
        migrations.AddField(
            model_name="grant",
            name="schema_sha256",
            field=models.CharField(blank=True, max_length=64),
        ),
    ]
