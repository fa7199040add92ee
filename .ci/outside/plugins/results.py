"""Writes a line of JSON for each test that ended, to the file that OUTSIDE_RESULTS names: a plugin of pytest, and a runner for Django's tests."""
import json
import os
import time


def tell(test, status, seconds, message=""):
    with open(os.environ["OUTSIDE_RESULTS"], "a") as out:
        out.write(json.dumps({"test": test, "status": status, "seconds": round(seconds, 3), "message": message[-6000:]}) + "\n")


def pytest_runtest_logreport(report):
    """Called in a worker of xdist and in its master: the master tells."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    if report.failed or report.when == "call" or report.when == "setup" and report.skipped:
        tell(report.nodeid, "skip" if report.skipped else "fail" if report.failed else "pass", report.duration, str(report.longrepr or ""))


def pytest_collectreport(report):
    if report.failed:
        tell(report.nodeid, "fail", 0, str(report.longrepr))


try:
    import unittest

    from django.contrib.postgres.operations import CreateExtension
    from django.db import NotSupportedError, transaction
    from django.db.backends.postgresql.base import DatabaseWrapper
    from django.db.backends.postgresql.creation import DatabaseCreation
    from django.test.runner import DiscoverRunner
    from django.test.utils import iter_test_cases
except ImportError:
    pass
else:
    class Result(unittest.TextTestResult):
        def startTest(self, test):
            super().startTest(test)
            self.begin, self.failed = time.monotonic(), False

        def told(self, test, status, message=""):
            tell(test.id(), status, time.monotonic() - getattr(self, "begin", time.monotonic()), message)

        def addSuccess(self, test):
            super().addSuccess(test)
            if not self.failed:
                self.told(test, "pass")

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            self.told(test, "skip", reason)

        def addError(self, test, err):
            super().addError(test, err)
            self.failed = True
            self.told(test, "fail", self._exc_info_to_string(err, test))

        def addFailure(self, test, err):
            super().addFailure(test, err)
            self.failed = True
            self.told(test, "fail", self._exc_info_to_string(err, test))

        def addSubTest(self, test, subtest, err):
            super().addSubTest(test, subtest, err)
            if err is not None:
                self.failed = True
                self.told(test, "fail", self._exc_info_to_string(err, subtest))

        def addExpectedFailure(self, test, err):
            super().addExpectedFailure(test, err)
            self.told(test, "skip", "expected to fail")

        def addUnexpectedSuccess(self, test):
            super().addUnexpectedSuccess(test)
            self.told(test, "pass")

    class Runner(DiscoverRunner):
        def get_resultclass(self):
            return Result

        def build_suite(self, *labels, **options):
            suite = super().build_suite(*labels, **options)
            left_out = os.environ["OUTSIDE_LEFT_OUT"].split()
            for test in filter(lambda test: test.id() in left_out, iter_test_cases(suite)):
                method = getattr(type(test), test.id().rpartition(".")[2])
                method.__unittest_skip__, method.__unittest_skip_why__ = True, "left out"
            return suite

        def setup_databases(self, **options):
            # It asks from database postgres whether this one is there; a pod has one only, under any name.
            DatabaseCreation._database_exists = lambda *where: True
            # Network addresses are not there; as texts they do not keep the tables of a whole application from being made.
            DatabaseWrapper.data_types["GenericIPAddressField"] = "varchar(39)"
            make = CreateExtension.database_forwards

            def make_if_there(operation, label, editor, *states):
                try:
                    with transaction.atomic(using=editor.connection.alias):
                        make(operation, label, editor, *states)
                except NotSupportedError:
                    pass

            CreateExtension.database_forwards = make_if_there
            return super().setup_databases(**options)
