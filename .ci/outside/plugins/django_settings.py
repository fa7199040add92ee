"""Settings for Django's own tests: one database, which is there already, for both of the names that they use."""
import os

from django.db.backends.postgresql.features import DatabaseFeatures

SERVER = {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"],
          "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"]}
DATABASES = {"default": {**SERVER, "TEST": {"NAME": os.environ["PGDATABASE"]}}, "other": {**SERVER, "TEST": {"MIRROR": "default"}}}
SECRET_KEY = "tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "results.Runner"
# One collation is there; with another one no table of the applications around it would be made.
DatabaseFeatures.test_collations = dict.fromkeys(DatabaseFeatures.test_collations, "C")
