"""An author writes books, users read them."""

import uuid

from django.contrib.auth.models import User
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower


class Author(models.Model):
    name = models.CharField(max_length=30, unique=True, db_comment="the name")
    born = models.DateField(null=True)


class Book(models.Model):
    title = models.CharField(max_length=50, db_index=True)
    author = models.ForeignKey(Author, models.CASCADE, related_name="books")
    price = models.DecimalField(max_digits=8, decimal_places=2)
    sold = models.PositiveIntegerField(default=0)
    key = models.UUIDField(default=uuid.uuid4, unique=True)
    data = models.JSONField(default=dict)
    words = ArrayField(models.TextField(), default=list)
    made = models.DateTimeField(auto_now_add=True)
    length = models.DurationField(null=True)
    blob = models.BinaryField(null=True)
    readers = models.ManyToManyField(User)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(price__gte=0), name="price_ok"),
            models.UniqueConstraint(Lower("title"), "author", name="title_once"),
        ]
        indexes = [models.Index(fields=["author", "-price"]), models.Index(F("sold").desc(), name="by_sold")]
