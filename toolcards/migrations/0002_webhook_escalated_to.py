from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("toolcards", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="webhook",
            name="escalated_to",
            field=models.TextField(default="[]"),
        ),
    ]
