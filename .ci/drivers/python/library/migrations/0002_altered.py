"""Every kind of change, each of which can be taken back."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q


def fill(apps, editor):
    shelves = apps.get_model("library", "Shelf")
    shelves.objects.filter(name="a").update(name="filled")


def empty(apps, editor):
    apps.get_model("library", "Shelf").objects.filter(name="filled").update(name="a")


class Migration(migrations.Migration):
    dependencies = [("library", "0001_initial")]
    operations = [
        migrations.RunPython(fill, empty),
        migrations.CreateModel("Room", [
            ("id", models.BigAutoField(primary_key=True, serialize=False, auto_created=True, verbose_name="ID")),
            ("name", models.CharField(max_length=20)),
        ]),
        migrations.AddField("Shelf", "rank", models.IntegerField(default=7)),
        migrations.AddField("Shelf", "data", models.JSONField(default=dict)),
        migrations.AddField("Shelf", "room", models.ForeignKey(
            null=True, on_delete=django.db.models.deletion.SET_NULL, to="library.room")),
        migrations.AlterField("Shelf", "width", models.DecimalField(max_digits=8, decimal_places=2)),
        migrations.AlterField("Shelf", "big", models.BigIntegerField(null=True, db_index=True)),
        migrations.RenameField("Shelf", "name", "label"),
        migrations.AlterField("Shelf", "label", models.CharField(max_length=80)),
        migrations.RemoveField("Shelf", "old"),
        migrations.AlterModelTable("Shelf", "library_shelves"),
        migrations.AlterModelOptions("Shelf", {"ordering": ["label"]}),
        migrations.AddIndex("Shelf", models.Index(fields=["room", "-rank"], name="by_rank")),
        migrations.RenameIndex("Shelf", old_name="by_rank", new_name="by_room"),
        migrations.AddIndex("Shelf", models.Index(fields=["rank"], name="high", condition=Q(rank__gt=10))),
        migrations.AddConstraint("Shelf", models.CheckConstraint(condition=Q(rank__gte=0), name="rank_ok")),
        migrations.AddConstraint("Shelf", models.UniqueConstraint(fields=["label", "rank"], name="label_once")),
        migrations.RunSQL([("insert into library_room (name) values (%s)", ["attic"])], "delete from library_room"),
    ]
