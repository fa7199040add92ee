"""A table with some columns."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel("Shelf", [
            ("id", models.BigAutoField(primary_key=True, serialize=False, auto_created=True, verbose_name="ID")),
            ("name", models.CharField(max_length=30)),
            ("width", models.IntegerField()),
            ("big", models.IntegerField(null=True)),
            ("old", models.TextField(default="gone")),
        ]),
    ]
