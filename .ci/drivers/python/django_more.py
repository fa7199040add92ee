"""Django: the admin's pages, migrations that alter, JSON look-ups, windows, locks, rows put by many. Arguments: ports."""

import sys

import django
from checks import Checks, same
from django.conf import settings

PORTS = sys.argv[1:]


def database(port):
    return {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": "127.0.0.1",
            "PORT": port, "OPTIONS": {"options": "-c search_path=django_more"}}


apps = ["admin", "auth", "contenttypes", "messages", "sessions", "postgres"]
settings.configure(
    DATABASES={"default": database(PORTS[0]), "other": database(PORTS[1])},
    INSTALLED_APPS=[*[f"django.contrib.{app}" for app in apps], "shop", "library"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
    SECRET_KEY="x",
    ALLOWED_HOSTS=["testserver"],
    ROOT_URLCONF=__name__,
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.messages.middleware.MessageMiddleware"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {
        "context_processors": ["django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
                               "django.contrib.messages.context_processors.messages"]}}],
    STATIC_URL="/static/",
)
django.setup()

from django.contrib import admin  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.contrib.postgres.aggregates import JSONBAgg  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import OperationalError, connection, connections, transaction  # noqa: E402
from django.db.models import (  # noqa: E402
    Avg, Case, Count, Exists, F, IntegerField, Max, Min, OuterRef, Q, StdDev, Subquery, Sum, Value, When, Window,
)
from django.db.models.fields.json import KT  # noqa: E402
from django.db.models.functions import (  # noqa: E402
    Cast, DenseRank, ExtractYear, Lag, Lead, Length, Ntile, RowNumber, TruncDay,
)
from django.test import Client  # noqa: E402
from django.urls import path  # noqa: E402
from library.models import Room, Shelf  # noqa: E402
from shop.models import Author, Book  # noqa: E402

@admin.register(Book)
class BookAdmin(admin.ModelAdmin):
    list_display = ["title", "author", "price", "sold"]
    list_filter = ["author", "made", "sold"]
    search_fields = ["title", "author__name"]
    date_hierarchy = "made"
    list_per_page = 20
    raw_id_fields = ["author", "readers"]
    fields = ["title", "author", "price", "sold"]


admin.site.register(Author)
urlpatterns = [path("admin/", admin.site.urls)]


def tables():
    with connection.cursor() as cur:
        cur.execute("drop schema if exists django_more cascade; create schema django_more")
    call_command("migrate", verbosity=0)
    call_command("migrate", run_syncdb=True, verbosity=0)
    User.objects.create_superuser("root", "root@x", "secret")
    authors = [Author.objects.create(name=f"Author {n}") for n in range(4)]
    Book.objects.bulk_create([
        Book(title=f"Book {n}", author=authors[n % 4], price=n, sold=n, data={"n": n, "of": {"deep": [n, str(n)]}, "odd": n % 2 == 1})
        for n in range(100)
    ])


def columns(table):
    with connection.cursor() as cur:
        return {c.name: c for c in connection.introspection.get_table_description(cur, table)}


def migrations_both_ways():
    call_command("migrate", "library", "zero", verbosity=0)
    call_command("migrate", "library", "0001", verbosity=0)
    with connection.cursor() as cur:
        cur.execute("insert into library_shelf (name, width, old) values ('a', 5, ''), ('b', 6, '')")
    for _ in range(2):
        call_command("migrate", "library", verbosity=0)
        same([(s.label, str(s.width), s.rank, s.data) for s in Shelf.objects.all()], [("b", "6.00", 7, {}), ("filled", "5.00", 7, {})])
        same(Room.objects.using("other").get().name, "attic")
        with connection.cursor() as cur:
            found = connection.introspection.get_constraints(cur, "library_shelves")
        assert {"by_room", "high", "rank_ok", "label_once"} <= set(found), found
        call_command("migrate", "library", "0001", verbosity=0)
        same(sorted(columns("library_shelf")), ["big", "id", "name", "old", "width"])
        with connection.cursor() as cur:
            cur.execute("select name, width, old from library_shelf order by name")
            same(cur.fetchall(), [("a", 5, "gone"), ("b", 6, "gone")])
    call_command("migrate", "library", verbosity=0)
    call_command("makemigrations", "library", check_changes=True, dry_run=True, verbosity=0)


def the_admin():
    client = Client(raise_request_exception=True)
    assert client.login(username="root", password="secret")
    pages = ["", "shop/book/", "shop/book/?q=book+1+author", "shop/book/?o=-3.2", "shop/book/?author__id__exact=2&p=1",
             "shop/book/?sold__exact=5", "shop/book/add/", "shop/book/5/change/", "shop/book/5/history/", "shop/book/5/delete/",
             "shop/author/", "auth/user/", "auth/user/1/change/", "auth/group/add/"]
    for page in pages:
        same((page, client.get("/admin/" + page).status_code), (page, 200))
    sent = {"title": "Added", "author": "2", "price": "5.00", "sold": "1"}
    same(client.post("/admin/shop/book/add/", sent).status_code, 302)
    book = Book.objects.using("other").get(title="Added")
    same(client.post(f"/admin/shop/book/{book.pk}/change/", {**sent, "sold": "9"}).status_code, 302)
    same(Book.objects.get(title="Added").sold, 9)
    chosen = {"action": "delete_selected", "_selected_action": [str(book.pk)], "post": "yes"}
    same(client.post("/admin/shop/book/", chosen).status_code, 302)
    same(Book.objects.filter(title="Added").exists(), False)
    with connection.cursor() as cur:
        cur.execute("select count(*) from django_admin_log")
        same(cur.fetchone()[0], 3)


def json_look_ups():
    books = Book.objects
    same(books.filter(data__of__deep__0=5).count(), 1)
    same(books.filter(data__of__deep__1="7").get().title, "Book 7")
    same(books.filter(data__contains={"odd": True}).count(), 50)
    same(books.filter(data__contained_by={"n": 1, "of": {"deep": [1, "1"]}, "odd": True}).count(), 1)
    same(books.filter(data__has_key="odd").count(), 100)
    same(books.filter(data__has_any_keys=["x", "n"]).count(), 100)
    same(books.filter(data__has_keys=["n", "x"]).count(), 0)
    same(books.filter(data__x__isnull=True, data__n__gte=90).count(), 10)
    same(books.filter(data__n__in=[1, 2, 300]).count(), 2)
    same(books.filter(data__of__deep__1__startswith="9").count(), 11)
    same(books.annotate(t=KT("data__of__deep__1")).order_by("-data__n").values_list("t", flat=True)[0], "99")
    same(books.values("data__odd").annotate(n=Count("*")).order_by("data__odd").values_list("data__odd", "n")[1], (True, 50))
    same(books.aggregate(x=JSONBAgg("data__n", filter=Q(sold__lt=3), ordering="sold"))["x"], [0, 1, 2])


def many_at_once():
    again = [Author(name=f"Author {n}", born=f"200{n}-01-01") for n in range(6)]
    Author.objects.bulk_create(again, update_conflicts=True, unique_fields=["name"], update_fields=["born"])
    same((Author.objects.count(), Author.objects.filter(born__year__gte=2000).count()), (6, 6))
    Author.objects.bulk_create(again, ignore_conflicts=True)
    books = list(Book.objects.filter(sold__lt=50))
    for book in books:
        book.sold += 1000
    same(Book.objects.bulk_update(books, ["sold"], batch_size=20), 50)
    same(Book.objects.filter(sold__gte=1000).update(sold=F("sold") - 1000), 50)
    same(Author.objects.update_or_create(name="Author 5", defaults={"born": None})[1], False)
    same(len(Book.objects.in_bulk([1, 2, 3])), 3)
    same(Author.objects.filter(name__in=["Author 4", "Author 5"]).delete()[0], 2)


def aggregates_and_windows():
    books = Book.objects
    found = books.aggregate(Avg("price"), Max("sold"), Min("sold"), s=StdDev("sold", sample=True), d=Count("author", distinct=True))
    same((found["price__avg"], found["sold__max"], found["sold__min"], round(found["s"], 3), found["d"]), (49.5, 99, 0, 29.011, 4))
    sized = Case(When(sold__lt=10, then=Value(1)), When(sold__lt=50, then=Value(2)), default=Value(3), output_field=IntegerField())
    same(list(books.annotate(c=sized).values_list("c").annotate(n=Count("*")).order_by("c")), [(1, 10), (2, 40), (3, 50)])
    by_author = {"partition_by": [F("author")], "order_by": F("sold").asc()}
    windowed = books.annotate(row=Window(RowNumber(), **by_author), before=Window(Lag("sold", default=-1), **by_author),
                              after=Window(Lead("sold"), **by_author), quarter=Window(Ntile(4), **by_author),
                              dense=Window(DenseRank(), **by_author), run=Window(Sum("sold"), **by_author)).order_by("author", "sold")
    row = windowed[1]
    same((row.row, row.before, row.after, row.quarter, row.dense, row.run), (2, 0, 8, 1, 2, 4))
    same(windowed.filter(row__lte=2).count(), 8)
    best = books.filter(author=OuterRef("pk")).order_by("-sold")
    authors = Author.objects.annotate(best=Subquery(best.values("title")[:1]), dear=Exists(best.filter(price__gt=98)),
                                      n=Subquery(best.order_by().values("author").annotate(n=Count("*")).values("n")))
    same(list(authors.order_by("name").values_list("best", "dear", "n")),
         [("Book 96", False, 25), ("Book 97", False, 25), ("Book 98", False, 25), ("Book 99", True, 25)])
    same(Author.objects.filter(~Exists(best)).count(), 0)
    same(Author.objects.annotate(n=Count("books", filter=Q(books__sold__gt=90)), t=Sum("books__price")).filter(n__gt=2).order_by("name")
         .values_list("n", "t")[0], (3, 1275))
    same(books.annotate(l=Length("title"), y=ExtractYear("made"), d=TruncDay("made"), c=Cast("price", IntegerField())).filter(l=6, c__lte=5).count(), 6)
    same(books.filter(sold=1).union(books.filter(sold=2)).count(), 2)
    same(books.filter(sold__lt=5).intersection(books.filter(sold__gt=2)).count(), 2)
    same(books.filter(sold__lt=5).difference(books.filter(sold__gt=2)).count(), 3)


def locks():
    with transaction.atomic():
        same(Book.objects.select_for_update().get(pk=3).pk, 3)
        same(len(Book.objects.select_for_update(no_key=True, of=("self", "author")).select_related("author").filter(pk__lte=2)), 2)
        try:
            with transaction.atomic(using="other"):
                Book.objects.using("other").select_for_update(nowait=True).get(pk=3)
            raise AssertionError("it is locked")
        except OperationalError as error:
            same(error.__cause__.sqlstate, "55P03")
    with transaction.atomic(using="other"):
        same(Book.objects.using("other").select_for_update(nowait=True).get(pk=3).pk, 3)


def the_end():
    call_command("migrate", "library", "zero", verbosity=0)
    with connection.cursor() as cur:
        cur.execute("drop schema django_more cascade")
    connections.close_all()


checks = Checks("Django's admin and migrations", django.get_version())
checks.all([
    tables, migrations_both_ways, the_admin, json_look_ups, many_at_once, aggregates_and_windows, locks, the_end,
])
