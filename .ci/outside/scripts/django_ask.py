"""What is asked of Django's own applications, of Wagtail and of django-oscar, each request by itself."""
import datetime
import decimal
import io

import asked


def told(name, *arguments, **more):
    from django.core.management import call_command
    out = io.StringIO()
    call_command(name, *arguments, stdout=out, stderr=out, **more)
    return out.getvalue()


class Common:
    """What every site of Django's is asked."""

    def checks(self):
        return told("check", databases=["default"])

    def no_changes(self):
        return told("makemigrations", check=True, dry_run=True)

    def plan(self):
        return told("showmigrations", list=True)

    def inspectdb(self):
        return told("inspectdb")

    def users(self):
        from django.contrib.auth.models import Group, Permission, User
        root = User.objects.create_superuser("root", "root@example.com", "secret")
        User.objects.bulk_create(User(username=f"user {number}", email=f"{number}@example.com", is_active=number % 3 > 0) for number in range(50))
        group, made = Group.objects.get_or_create(name="editors")
        group.permissions.set(Permission.objects.filter(codename__startswith="change"))
        group.user_set.add(*User.objects.filter(is_active=True))
        return [made, root.check_password("secret"), group.permissions.count(), group.user_set.count(), User.objects.filter(groups__name="editors").count()]

    def unique(self):
        from django.contrib.auth.models import User
        from django.db import IntegrityError, transaction
        try:
            with transaction.atomic():
                User.objects.create_user("root")
        except IntegrityError as error:
            return [error.__cause__.sqlstate, User.objects.count()]

    def queries(self):
        from django.contrib.auth.models import Group, Permission, User
        from django.db.models import Count, Exists, F, OuterRef, Q, Window
        from django.db.models.functions import Lower, RowNumber, Upper
        types = Permission.objects.values("content_type__app_label").annotate(count=Count("id")).order_by("content_type__app_label")
        ranked = User.objects.annotate(place=Window(RowNumber(), partition_by="is_active", order_by="username")).filter(place__lte=2)
        member = User.objects.filter(Exists(Group.objects.filter(user=OuterRef("pk")))).order_by(Lower("username").desc())[:5]
        changed = User.objects.filter(Q(username__icontains="USER 1") | Q(email__regex="^2")).update(last_name=Upper(F("username")))
        return [list(types), list(ranked.values_list("username", "place").order_by("username")), [user.username for user in member], changed]

    def sessions(self):
        from django.contrib.sessions.backends.db import SessionStore
        from django.contrib.sessions.models import Session
        store = SessionStore()
        store["cart"] = [1, 2]
        store.save()
        again = SessionStore(session_key=store.session_key)
        told("clearsessions")
        return [again["cart"], Session.objects.filter(expire_date__gt=datetime.datetime.now(datetime.timezone.utc)).count()]

    def savepoints(self):
        from django.contrib.auth.models import Group
        from django.db import transaction
        with transaction.atomic():
            Group.objects.create(name="stays")
            try:
                with transaction.atomic():
                    Group.objects.create(name="goes")
                    raise ValueError
            except ValueError:
                pass
            locked = Group.objects.select_for_update().filter(name="stays").count()
        return [locked, list(Group.objects.order_by("name").values_list("name", flat=True))]

    def dump_and_load(self):
        from django.core import serializers
        from django.contrib.auth.models import Group
        text = serializers.serialize("json", Group.objects.order_by("name"), use_natural_foreign_keys=True)
        Group.objects.all().delete()
        for one in serializers.deserialize("json", text):
            one.save()
        return list(Group.objects.order_by("name").values_list("name", flat=True))


class Plain(Common):
    def pages(self):
        from django.contrib.flatpages.models import FlatPage
        from django.contrib.redirects.models import Redirect
        from django.contrib.sites.models import Site
        site = Site.objects.get_current()
        page = FlatPage.objects.create(url="/about/", title="About", content="words")
        page.sites.add(site)
        Redirect.objects.create(site=site, old_path="/old/", new_path="/about/")
        return [site.domain, list(FlatPage.objects.filter(sites=site).values_list("url", "title")), Redirect.objects.get(old_path="/old/").new_path]

    def admin(self):
        from django.test import Client
        from django.contrib.admin.models import LogEntry
        client = Client()
        statuses = [client.post("/admin/login/?next=/admin/", {"username": "root", "password": "secret"}).status_code]
        statuses += [client.get(path).status_code for path in ("/admin/", "/admin/auth/user/?q=user", "/admin/auth/user/1/change/", "/admin/flatpages/flatpage/")]
        statuses.append(client.post("/admin/auth/group/add/", {"name": "made there"}).status_code)
        return [statuses, list(LogEntry.objects.values_list("object_repr", "action_flag"))]


class Wagtail(Common):
    def tree(self):
        from wagtail.models import Page, Site
        root = Page.objects.get(depth=1)
        home = root.add_child(instance=Page(title="Start", slug="start"))
        Site.objects.update_or_create(is_default_site=True, defaults={"root_page": home, "hostname": "localhost"})
        for number in range(5):
            child = home.add_child(instance=Page(title=f"Page {number}", slug=f"page-{number}", live=number != 3))
            child.add_child(instance=Page(title=f"Below {number}", slug="below"))
        return [list(Page.objects.order_by("path").values_list("path", "depth", "numchild", "url_path", "live"))]

    def move_and_copy(self):
        from wagtail.models import Page
        first, last = Page.objects.get(slug="page-0"), Page.objects.get(slug="page-4")
        first.move(last, pos="last-child")
        Page.objects.get(slug="page-1").copy(recursive=True, update_attrs={"slug": "copied", "title": "Copied"})
        Page.objects.get(slug="page-2").delete()
        return [list(Page.objects.order_by("path").values_list("path", "slug", "numchild")), Page.find_problems() == ([], [], [], [], [])]

    def revisions(self):
        from wagtail.models import Page, Revision
        page = Page.objects.get(slug="page-1")
        for word in ("one", "two"):
            page.title = word
            page.save_revision().publish()
        page.refresh_from_db()
        page.get_latest_revision_as_object().unpublish()
        return [page.title, Revision.objects.filter(object_id=str(page.pk)).count(), list(Page.objects.live().order_by("path").values_list("title", flat=True))]

    def logs_and_locks(self):
        from django.contrib.auth.models import User
        from wagtail.models import Page, PageLogEntry, PageViewRestriction
        page = Page.objects.get(slug="page-1")
        page.locked, page.locked_by, page.locked_at = True, User.objects.get(username="root"), datetime.datetime.now(datetime.timezone.utc)
        page.save()
        PageViewRestriction.objects.create(page=page, restriction_type="password", password="word")
        return [list(PageLogEntry.objects.order_by("id").values_list("action", flat=True)), Page.objects.private().count(), Page.objects.descendant_of(page.get_parent()).count()]

    def collections(self):
        from wagtail.documents.models import Document
        from wagtail.images.models import Image
        from wagtail.models import Collection
        from django.core.files.base import ContentFile
        inner = Collection.get_first_root_node().add_child(name="Photographs")
        Document.objects.create(title="Text", collection=inner, file=ContentFile(b"words", "words.txt"))
        dot = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
        image = Image.objects.create(title="Dot", collection=inner, file=ContentFile(dot, "dot.gif"))
        image.tags.add("small", "black")
        return [list(Image.objects.filter(tags__name="small").values_list("title", "width", "height")), Document.objects.filter(collection__name="Photographs").count()]

    def admin(self):
        from django.test import Client
        client = Client()
        statuses = [client.post("/cms/login/", {"username": "root", "password": "secret"}).status_code]
        return statuses + [client.get(path).status_code for path in ("/cms/", "/cms/pages/", "/cms/reports/site-history/", "/cms/users/", "/cms/images/")]

    def index(self):
        told("update_index")
        from wagtail.models import Page
        return [page.title for page in Page.objects.search("below")[:10]]


class Oscar(Common):
    def products(self):
        from oscar.core.loading import get_model
        from oscar.test import factories
        from oscar.apps.catalogue.categories import create_from_breadcrumbs
        leaf = create_from_breadcrumbs("Books > Fiction > Russian")
        for number in range(12):
            product = factories.create_product(title=f"Book {number}", upc=f"upc{number}", price=decimal.Decimal(number + 1), num_in_stock=10, partner_name="Store",
                                               partner_sku=f"sku{number}", attributes={"pages": str(100 + number)})
            product.categories.add(leaf)
        parent = factories.create_product(title="Shirt", structure="parent")
        for size in ("S", "M"):
            factories.create_product(title=f"Shirt {size}", parent=parent, structure="child", price=decimal.Decimal(7), num_in_stock=1, partner_name="Store", partner_sku=f"shirt{size}")
        Product, Category = get_model("catalogue", "Product"), get_model("catalogue", "Category")
        return [Product.objects.browsable().count(), list(Category.objects.order_by("path").values_list("path", "slug", "numchild")),
                [product.attr.pages for product in Product.objects.filter(upc__in=["upc1", "upc2"]).order_by("upc")]]

    def order(self):
        from oscar.core.loading import get_class, get_model
        from oscar.test import factories
        from django.contrib.auth.models import User
        Product = get_model("catalogue", "Product")
        country = factories.CountryFactory(iso_3166_1_a2="FR", printable_name="France")
        address = factories.ShippingAddressFactory(country=country)
        basket = get_model("basket", "Basket").objects.create(owner=User.objects.get(username="root"))
        basket.strategy = get_class("partner.strategy", "Default")()
        for upc, quantity in (("upc1", 2), ("upc4", 1), ("upc7", 3)):
            basket.add_product(Product.objects.get(upc=upc), quantity)
        offer = factories.create_offer()
        get_class("offer.applicator", "Applicator")().apply(basket)
        order = factories.create_order("1001", basket=basket, user=basket.owner, shipping_address=address)
        handler = get_class("order.processing", "EventHandler")()
        kind = get_model("order", "ShippingEventType").objects.create(name="Shipped")
        handler.consume_stock_allocations(order)
        handler.create_shipping_event(order, kind, order.lines.all(), [line.quantity for line in order.lines.all()])
        offer.refresh_from_db()
        stock = get_model("partner", "StockRecord").objects.filter(product__upc__in=["upc1", "upc4", "upc7"]).order_by("partner_sku")
        return [order.total_incl_tax, order.num_items, order.shipping_status, offer.num_applications, offer.total_discount,
                list(order.lines.order_by("id").values_list("upc", "quantity", "line_price_incl_tax")), list(stock.values_list("num_in_stock", "num_allocated"))]

    def vouchers(self):
        from oscar.core.loading import get_model
        from oscar.test import factories
        get_model("offer", "ConditionalOffer").objects.update(name="Everything")
        voucher = factories.create_voucher(code="SALE", name="Sale")
        order = get_model("order", "Order").objects.get(number="1001")
        voucher.record_usage(order, order.user)
        voucher.refresh_from_db()
        return [voucher.num_orders, voucher.is_available_to_user(order.user)[0], voucher.offers.count()]

    def reviews(self):
        from oscar.core.loading import get_model
        from oscar.test import factories
        from django.contrib.auth.models import User
        product = get_model("catalogue", "Product").objects.get(upc="upc1")
        users = list(User.objects.order_by("id")[:3])
        for score, user in enumerate(users, 2):
            review = product.reviews.create(title="Read", body="it", score=score, user=user, status=1)
            review.votes.create(user=users[0] if user != users[0] else users[1], delta=1)
        listed = factories.WishListFactory(owner=users[0], name="Later")
        listed.add(product)
        product.refresh_from_db()
        return [product.rating, product.reviews.filter(total_votes=1).count(), listed.lines.count()]

    def analytics(self):
        from oscar.core.loading import get_model
        from oscar.apps.analytics.scores import Calculator
        from logging import getLogger
        Calculator(getLogger("asked")).run()
        records = get_model("analytics", "ProductRecord").objects.filter(num_purchases__gt=0).order_by("product__upc")
        return list(records.values_list("product__upc", "num_purchases", "score"))

    def shop(self):
        from django.test import Client
        from oscar.core.loading import get_model
        product = get_model("catalogue", "Product").objects.get(upc="upc2")
        client = Client()
        statuses = [client.get(path, follow=True).status_code for path in ("/catalogue/", product.get_absolute_url(), "/search/?q=Book", "/offers/", "/basket/")]
        statuses.append(client.post(f"/basket/add/{product.pk}/", {"quantity": 2}).status_code)
        open_ = get_model("basket", "Line").objects.filter(basket__status="Open", product=product)
        return [statuses, list(open_.values_list("quantity", "price_incl_tax"))]

    def dashboard(self):
        from django.test import Client
        client = Client()
        statuses = [client.post("/dashboard/login/", {"login_submit": "1", "login-username": "root@example.com", "login-password": "secret"}).status_code]
        paths = ("", "catalogue/", "orders/", "orders/1001/", "users/", "offers/", "vouchers/", "reviews/", "partners/", "ranges/", "pages/")
        statuses += [client.get(f"/dashboard/{path}").status_code for path in paths]
        reports = ("conditional-offer-performance", "order_report", "product_analytics", "user_analytics", "open_baskets", "submitted_baskets", "vouchers")
        return statuses + [client.get(f"/dashboard/reports/?report_type={name}&date_from=2020-01-01&date_to=2040-01-01&download=").status_code for name in reports]


def run(site):
    from django.db import connection
    requests = {"django": Plain, "wagtail": Wagtail, "oscar": Oscar}[site]()
    names = [name for kind in type(requests).__mro__[-2::-1] for name in vars(kind) if not name.startswith("_")]
    for name in names:
        asked.ask(name, getattr(requests, name))
        connection.close()
