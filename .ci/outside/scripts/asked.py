"""Requests to an application: the name of each and what came of it, a line each, for a comparison with another server's."""
import json
import sys

sys.stdout.reconfigure(line_buffering=True)


def ask(name, request):
    """Runs a request and prints its answer."""
    try:
        text = json.dumps(request(), default=str, sort_keys=True)
        print(f"{name}\t{text}")
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"{name}\tfailed: {words[:400]}")
