"""A site of Django's: settings, addresses and command in one file, for the application that SITE names.

    django_site.py migrate      its migrations
    django_site.py ask          requests of its own (django_ask.py)
"""
import os
import pathlib
import sys
import tempfile

SITE = os.environ["SITE"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"], "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"]}}
SECRET_KEY = "tests"
ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
SITE_ID = 1
ROOT_URLCONF = "django_site"
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
STATIC_URL = "/static/"
MEDIA_ROOT = os.environ.get("SITE_MEDIA", tempfile.gettempdir())
PLAIN = [f"django.contrib.{name}" for name in ("admin", "auth", "contenttypes", "sessions", "messages", "staticfiles", "sites", "flatpages", "redirects")]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
              "django.contrib.auth.middleware.AuthenticationMiddleware", "django.contrib.messages.middleware.MessageMiddleware"]
PROCESSORS = ["django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
              "django.contrib.messages.context_processors.messages"]
INSTALLED_APPS = PLAIN
if SITE == "wagtail":
    INSTALLED_APPS = [*PLAIN, "wagtail", "modelcluster", "taggit", "rest_framework", *(
        f"wagtail.{name}" for name in ("admin", "documents", "images", "users", "snippets", "embeds", "sites", "locales", "search", "api.v2", "contrib.redirects",
                                       "contrib.forms", "contrib.settings", "contrib.search_promotions"))]
    WAGTAIL_SITE_NAME, WAGTAILADMIN_BASE_URL = "tests", "http://localhost"
    WAGTAILSEARCH_BACKENDS = {"default": {"BACKEND": "wagtail.search.backends.database", "AUTO_UPDATE": False}}
if SITE == "oscar":
    from oscar import INSTALLED_APPS as SHOP
    from oscar.defaults import *  # noqa: F403
    INSTALLED_APPS = [*SHOP, "django.contrib.redirects"]
    MIDDLEWARE += ["oscar.apps.basket.middleware.BasketMiddleware", "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware"]
    PROCESSORS += [f"oscar.apps.{name}" for name in ("search.context_processors.search_form", "checkout.context_processors.checkout",
                                                     "communication.notifications.context_processors.notifications")]
    PROCESSORS += ["oscar.core.context_processors.metadata"]
    AUTHENTICATION_BACKENDS = ["oscar.apps.customer.auth_backends.EmailBackend", "django.contrib.auth.backends.ModelBackend"]
    HAYSTACK_CONNECTIONS = {"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}}
    OSCAR_DELETE_IMAGE_FILES = False
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": PROCESSORS}}]


def addresses():
    from django.urls import include, path
    from django.contrib import admin
    if SITE == "wagtail":
        from wagtail import urls
        from wagtail.admin import urls as desk
        return [path("cms/", include(desk)), path("", include(urls))]
    if SITE == "oscar":
        from django.apps import apps
        return [path("i18n/", include("django.conf.urls.i18n")), path("", include(apps.get_app_config("oscar").urls[0]))]
    return [path("admin/", admin.site.urls)]


def migrate():
    """One by one: one that fails is told, and taken for done, so that it does not keep others from being tried."""
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor
    while True:
        try:
            call_command("migrate", verbosity=0)
            return
        except Exception as error:
            executor = MigrationExecutor(connection)
            label, name = next((one.app_label, one.name) for one, _ in executor.migration_plan(executor.loader.graph.leaf_nodes()))
            print(f"{label}.{name}\tfailed: {' '.join(str(error).split())[:400]}")
            call_command("migrate", label, name, fake=True, verbosity=0)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    os.environ["DJANGO_SETTINGS_MODULE"] = "django_site"
    import django
    django.setup()
    if sys.argv[1] == "migrate":
        migrate()
    else:
        import django_ask
        django_ask.run(SITE)
elif "django.urls" in sys.modules:
    def __getattr__(name):
        if name == "urlpatterns":
            return addresses()
        raise AttributeError(name)
