from django.db import migrations, models

from toolcards.core.policy.tool_names import make_tool_key


def fill(apps, schema_editor):
    calls = apps.get_model("toolcards", "ToolCall").objects
    for tool in calls.order_by().values_list("tool", flat=True).distinct().iterator():
        calls.filter(tool=tool).update(tool_key=make_tool_key(tool))


class Migration(migrations.Migration):
    """Give calls the key by which rates count them."""

    dependencies = [
        ("toolcards", "0021_limits_in_steady_time"),
    ]

    operations = [
        migrations.AddField("toolcall", "tool_key", models.CharField(db_default="", max_length=300)),
        migrations.RunPython(fill, migrations.RunPython.noop, elidable=False),
        migrations.AddIndex("toolcall", models.Index(fields=["tool_key", "started_at"], name="call_tool_key")),
    ]
