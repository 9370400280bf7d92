"""The pulse keeps steady time and pauses, questions how far the wall clock was ahead; runs of `decide` get a lease."""

from django.db import migrations, models

SILENCE = 3600.0  # as gate/agents/liveness.py has it


def _begin_pulse(apps, schema_editor):
    """Give back the time in which the update was made: the pulse was last moved when an older release last wrote.

    Working time and leases continue from there; new leases of runs without one begin there, too.
    """
    runs = apps.get_model("toolcards", "Run").objects.order_by("-updated_at")
    last = runs.first()
    if last is None:
        return
    at = last.updated_at.timestamp()
    apps.get_model("toolcards", "Pulse").objects.get_or_create(pk=1, defaults={"at": at})
    runs.filter(status__in=("running", "waiting"), alive_until=None).update(alive_until=at + SILENCE)


class Migration(migrations.Migration):
    dependencies = [
        ("toolcards", "0009_group_commits"),
    ]

    operations = [
        migrations.AddField("pulse", "steady", models.FloatField(default=0)),
        migrations.AddField("pulse", "paused", models.FloatField(default=0)),
        migrations.AddField("pulse", "resumed", models.FloatField(default=0)),
        migrations.AddField("approval", "clock_offset", models.FloatField(default=0)),
        migrations.RunPython(_begin_pulse, migrations.RunPython.noop),
    ]
