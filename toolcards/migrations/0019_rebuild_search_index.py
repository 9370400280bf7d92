from django.db import migrations


class Migration(migrations.Migration):
    """Empty the search index: its bits are computed differently now. Calls are added again in the background."""

    dependencies = [
        ("toolcards", "0018_push_browsers"),
    ]

    operations = [
        migrations.RunSQL("DELETE FROM toolcards_searchblock", migrations.RunSQL.noop),
        migrations.RunSQL("DELETE FROM toolcards_searchsegment", migrations.RunSQL.noop),
        migrations.RunSQL(
            "UPDATE toolcards_toolcall SET indexed = FALSE WHERE indexed",
            "UPDATE toolcards_toolcall SET indexed = FALSE WHERE indexed",
        ),
    ]
