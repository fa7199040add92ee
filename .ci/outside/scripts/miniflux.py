"""Requests to Miniflux: keycloak.py's way, by its interface for programs."""
import base64
import os
import sys

import asked
import web

program, port = sys.argv[1:]
server = web.Served([program], f"http://127.0.0.1:{port}", "/healthcheck",
                    {"LISTEN_ADDR": f"127.0.0.1:{port}", "CREATE_ADMIN": "1", "ADMIN_USERNAME": "admin", "ADMIN_PASSWORD": "secret1", "DISABLE_SCHEDULER_SERVICE": "1"})
server.headers["Authorization"] = "Basic " + base64.b64encode(b"admin:secret1").decode()


def steady(answer):
    """Without what differs from run to run."""
    if isinstance(answer, dict):
        return {name: steady(value) for name, value in answer.items() if not name.endswith("_at") and name not in ("hash", "token")}
    return [steady(value) for value in answer] if isinstance(answer, list) else answer


def pages(*several):
    return lambda: [steady(server.ask(*page)) for page in several]


try:
    asked.ask("who", pages(("GET", "/v1/me"), ("GET", "/v1/users")))
    asked.ask("users", pages(("POST", "/v1/users", {"username": "reader", "password": "secret2"}), ("POST", "/v1/users", {"username": "reader", "password": "secret2"}),
                             ("PUT", "/v1/users/2", {"theme": "dark_serif", "entries_per_page": 20}), ("GET", "/v1/users/reader")))
    asked.ask("categories", pages(("POST", "/v1/categories", {"title": "News"}), ("POST", "/v1/categories", {"title": "News"}), ("GET", "/v1/categories?counts=true"),
                                  ("PUT", "/v1/categories/3", {"title": "Older"}), ("DELETE", "/v1/categories/3")))
    asked.ask("entries", pages(("GET", "/v1/entries?status=unread&order=published_at&direction=desc&search=words"), ("GET", "/v1/feeds"), ("GET", "/v1/feeds/counters")))
    asked.ask("keys", pages(("POST", "/v1/api-keys", {"description": "one"}), ("GET", "/v1/api-keys")))
finally:
    server.end()
