"""A receipt counts the frames of its body that are applied, and names the process that holds it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('toolcards', '0007_pulse'),
    ]

    operations = [
        migrations.AddField(
            model_name='receipt',
            name='digest',
            field=models.CharField(blank=True, default='', max_length=64),
        ),
        migrations.AddField(
            model_name='receipt',
            name='facts_left',
            field=models.IntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='receipt',
            name='frames',
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='receipt',
            name='held_until',
            field=models.FloatField(default=0),
        ),
        migrations.AddField(
            model_name='receipt',
            name='holder',
            field=models.CharField(blank=True, default='', max_length=32),
        ),
        migrations.AddField(
            model_name='receipt',
            name='request',
            field=models.CharField(blank=True, default='', max_length=64),
        ),
        migrations.AddField(
            model_name='receipt',
            name='run',
            field=models.CharField(blank=True, default='', max_length=200),
        ),
        migrations.CreateModel(
            name='ReceiptPart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('body', models.TextField()),
                ('receipt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='parts', to='toolcards.receipt')),
            ],
            options={'default_permissions': ()},
        ),
    ]
