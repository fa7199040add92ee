"""Requests to Keycloak over the schema that its change sets have made: realms, users, groups, roles, clients, logins, events."""
import sys

import asked
import web

from os import environ

place, port = sys.argv[1:]
url = f"jdbc:postgresql://{environ['PGHOST']}:{environ['PGPORT']}/{environ['PGDATABASE']}"
server = web.Served([f"{place}/bin/kc.sh", "start", "--optimized", f"--db-url={url}", f"--db-username={environ['PGUSER']}", "--db-password=none",
                     "--http-enabled=true", "--hostname-strict=false", "--cache=local", "--http-host=127.0.0.1", f"--http-port={port}",
                     f"--http-management-port={int(port) + 1}"], f"http://127.0.0.1:{port}", "/realms/master",
                    {"KC_BOOTSTRAP_ADMIN_USERNAME": "admin", "KC_BOOTSTRAP_ADMIN_PASSWORD": "secret", "JAVA_OPTS_APPEND": "-XX:TieredStopAtLevel=1"})


def token(realm, user, password, client="admin-cli"):
    status, answer = server.ask("POST", f"/realms/{realm}/protocol/openid-connect/token",
                                form={"grant_type": "password", "client_id": client, "username": user, "password": password})
    return status, answer


def log_in():
    status, answer = token("master", "admin", "secret")
    server.headers["Authorization"] = f"Bearer {answer['access_token']}"
    return [status, answer["token_type"]]


def realm():
    made = server.ask("POST", "/admin/realms", {"realm": "shop", "enabled": True, "eventsEnabled": True, "adminEventsEnabled": True})[0]
    again = server.ask("POST", "/admin/realms", {"realm": "shop"})[0]
    status, answer = server.ask("GET", "/admin/realms/shop")
    return [made, again, status, answer["realm"], sorted(one["realm"] for one in server.ask("GET", "/admin/realms")[1])]


def users():
    made = [server.ask("POST", "/admin/realms/shop/users", {"username": f"user{number}", "email": f"user{number}@example.com", "enabled": number != 3, "firstName": "U",
                                                            "lastName": str(number), "credentials": [{"type": "password", "value": "word", "temporary": False}]})[0]
            for number in range(8)]
    again = server.ask("POST", "/admin/realms/shop/users", {"username": "user1"})
    found = server.ask("GET", "/admin/realms/shop/users?search=user&max=3&first=2")[1]
    return [made, again[0], server.ask("GET", "/admin/realms/shop/users/count")[1], [one["username"] for one in found]]


def one_user(name):
    return server.ask("GET", f"/admin/realms/shop/users?username={name}&exact=true")[1][0]["id"]


def groups():
    made = [server.ask("POST", "/admin/realms/shop/groups", {"name": name})[0] for name in ("staff", "buyers")]
    staff = server.ask("GET", "/admin/realms/shop/groups?search=staff")[1][0]["id"]
    made.append(server.ask("POST", f"/admin/realms/shop/groups/{staff}/children", {"name": "night"})[0])
    joined = [server.ask("PUT", f"/admin/realms/shop/users/{one_user(name)}/groups/{staff}")[0] for name in ("user1", "user2")]
    members = server.ask("GET", f"/admin/realms/shop/groups/{staff}/members")[1]
    return [made, joined, sorted(one["username"] for one in members), server.ask("GET", "/admin/realms/shop/groups/count")[1]]


def roles():
    made = [server.ask("POST", "/admin/realms/shop/roles", {"name": name})[0] for name in ("cook", "waiter")]
    cook, waiter = (server.ask("GET", f"/admin/realms/shop/roles/{name}")[1] for name in ("cook", "waiter"))
    made.append(server.ask("POST", "/admin/realms/shop/roles/cook/composites", [waiter])[0])
    made.append(server.ask("POST", f"/admin/realms/shop/users/{one_user('user1')}/role-mappings/realm", [cook])[0])
    all_of_it = server.ask("GET", f"/admin/realms/shop/users/{one_user('user1')}/role-mappings/realm/composite")[1]
    return [made, sorted(role["name"] for role in all_of_it)]


def clients():
    made = server.ask("POST", "/admin/realms/shop/clients", {"clientId": "till", "publicClient": True, "directAccessGrantsEnabled": True, "redirectUris": ["http://localhost/*"]})
    listed = server.ask("GET", "/admin/realms/shop/clients")[1]
    return [made[0], sorted(one["clientId"] for one in listed), len(server.ask("GET", "/admin/realms/shop/client-scopes")[1])]


def logins():
    right, wrong, disabled = (token("shop", name, word, "till") for name, word in (("user1", "word"), ("user1", "other"), ("user3", "word")))
    refreshed = server.ask("POST", "/realms/shop/protocol/openid-connect/token",
                           form={"grant_type": "refresh_token", "client_id": "till", "refresh_token": right[1]["refresh_token"]})
    sessions = server.ask("GET", f"/admin/realms/shop/users/{one_user('user1')}/sessions")[1]
    return [right[0], wrong, disabled, refreshed[0], len(sessions)]


def events():
    log_in()
    found = server.ask("GET", "/admin/realms/shop/events?max=20")[1]
    changes = server.ask("GET", "/admin/realms/shop/admin-events?max=100")[1]
    return [sorted([event["type"], event.get("error")] for event in found), sorted([one["operationType"], one["resourceType"]] for one in changes)]


def removed():
    return [server.ask("DELETE", f"/admin/realms/shop/users/{one_user('user5')}")[0], server.ask("GET", "/admin/realms/shop/users/count")[1],
            server.ask("DELETE", "/admin/realms/shop")[0], server.ask("GET", "/admin/realms/shop")[0]]


try:
    for request in (log_in, realm, users, groups, roles, clients, logins, events, removed):
        asked.ask(request.__name__, request)
finally:
    server.end()
