"""Shelves as they are after the last migration."""

from django.db import models
from django.db.models import Q


class Room(models.Model):
    name = models.CharField(max_length=20)


class Shelf(models.Model):
    label = models.CharField(max_length=80)
    width = models.DecimalField(max_digits=8, decimal_places=2)
    room = models.ForeignKey(Room, models.SET_NULL, null=True)
    rank = models.IntegerField(default=7)
    big = models.BigIntegerField(null=True, db_index=True)
    data = models.JSONField(default=dict)

    class Meta:
        db_table = "library_shelves"
        ordering = ["label"]
        indexes = [models.Index(fields=["room", "-rank"], name="by_room"),
                   models.Index(fields=["rank"], name="high", condition=Q(rank__gt=10))]
        constraints = [
            models.CheckConstraint(condition=Q(rank__gte=0), name="rank_ok"),
            models.UniqueConstraint(fields=["label", "rank"], name="label_once"),
        ]
