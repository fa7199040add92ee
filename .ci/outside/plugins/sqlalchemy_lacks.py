"""A plugin of pytest, for SQLAlchemy's tests: what a pod lacks does not keep whole classes from being run, on neither server.

Extensions are used where the database has them, and not made. Classes that make tables for all their tests make no materialized views.
"""
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart():
    from sqlalchemy.dialects.postgresql import provision
    provision._extensions.clear()


@pytest.hookimpl(tryfirst=True)
def pytest_collection():
    from sqlalchemy.testing import config, exclusions
    type(config.requirements).materialized_views = property(lambda requirements: exclusions.closed())
