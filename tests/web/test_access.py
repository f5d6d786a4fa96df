"""Who may do what: each route for each role, sites, origins, sessions, and the pages to log in and out."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.testclient import TestClient

from snia_pts.files import replace_file
from snia_pts.web import access as access_module
from snia_pts.web import passwords
from snia_pts.web.access import MAX_BODY_BYTES, ROUTES, Access
from snia_pts.web.application import make_application
from snia_pts.web.attempts import ADDRESS_LIMIT
from snia_pts.web.feed import Feed
from snia_pts.web.folder_source import FolderSource
from snia_pts.web.pages import PAGE_ROUTES
from snia_pts.web.roles import ROLES, Role
from snia_pts.web.sessions import IDLE_SECONDS, Sessions
from snia_pts.web.site import make_site
from snia_pts.web.users import UserFile

ORIGIN = "http://127.0.0.1:8400"
PASSWORDS = {role: f"a long password of {role}" for role in ROLES}
TOKENS: dict[Role, str] = {}
ALL_ROUTES = {**PAGE_ROUTES, **ROUTES}
CHANGING = [route for route in ALL_ROUTES if route[0] != "GET"]


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bytes]:
    """Yield the file of a user and a token of each role, called by the name of the role; hashes need less memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_N", 2**14)
        patch.setattr(passwords, "_P", 1)
        file = UserFile(tmp_path_factory.mktemp("users") / "users.json")
        for role in ROLES:
            file.add_user(role, role, PASSWORDS[role])
            TOKENS[role] = file.add_token(role, role, 1)[0]
        yield file.path.read_bytes()


@pytest.fixture
def access(tmp_path: Path, accounts: bytes) -> Access:
    """Return the access of those users, on loopback."""
    path = tmp_path / "users.json"
    replace_file(path, accounts, mode=0o600)
    return Access(site=make_site("127.0.0.1"), users=UserFile(path), sessions=Sessions(), anyone="admin")


@pytest.fixture
def application(tmp_path: Path, access: Access) -> FastAPI:
    """Return the application of an empty folder."""
    (tmp_path / "runs").mkdir()
    return make_application(FolderSource(tmp_path / "runs"), access)


@pytest.fixture
def client(application: FastAPI) -> Iterator[TestClient]:
    """Return a client that has sent nothing."""
    with TestClient(application, base_url=ORIGIN, follow_redirects=False) as client:
        yield client


def bearer(role: Role) -> dict[str, str]:
    """Return the header with the token of a role."""
    return {"Authorization": f"Bearer {TOKENS[role]}"}


def log_in(client: TestClient, role: Role, **fields: str) -> Any:
    """Log in as the user of a role, and return the answer."""
    form = {"name": role, "password": PASSWORDS[role], **fields}
    return client.post("/login", data=form, headers={"Origin": ORIGIN})


def csrf_token(client: TestClient) -> str:
    """Return the token of the session, from its page."""
    found = re.search('name="csrf_token" value="([^"]+)"', client.get("/login").text)
    assert found
    return found[1]


def example(path: str) -> str:
    """Return an address of a path, with a value for each parameter."""
    return re.sub(r"\{[^}]*\}", "x", path)


# -- role and route --------------------------------------------------------------------------------------------------


def test_the_table_has_exactly_the_routes_of_the_application(application: FastAPI) -> None:
    """A route without a role, and a role without a route, fails here; without a role it is not reachable either."""
    routes = {
        (method, context.path)
        for context in iter_route_contexts(application.routes)
        for method in (getattr(context, "methods", None) or {"GET"}) - {"HEAD"}
    }

    assert routes == set(ALL_ROUTES)
    assert not PAGE_ROUTES.keys() & ROUTES.keys()


def expected_statuses(path: str, least: Role | None, role: Role | None) -> set[int]:
    """Return the statuses of which one answers a role; 404 and 422 are answers of routes to their parameters."""
    if least is None:
        return {200, 401} if path == "/login" else {200, 303, 404}  # 401: a login without name and password
    if role is None:
        return {401}
    if ROLES.index(role) < ROLES.index(least):
        return {403}
    return {200, 303, 404, 409, 422} if "{" in path else {200, 303, 409, 422}


async def no_event(*_: object) -> AsyncIterator[str]:
    """Yield one event, and end; the feed of the pages would never end."""
    yield "data: []\n\n"


def test_each_role_reaches_what_it_may(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a login 401, with a lesser role 403, with a sufficient one the route itself answers."""
    monkeypatch.setattr(Feed, "events", no_event)
    wrong = []
    for (method, path), least in ALL_ROUTES.items():
        for role in (None, *ROLES):
            headers = bearer(role) if role else {"Origin": ORIGIN}
            status = client.request(method, example(path), headers=headers).status_code
            if status not in expected_statuses(path, least, role):
                wrong.append((method, path, role, status))

    assert wrong == []


def test_head_is_answered_as_get_without_the_body(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """On each route and for each role: the same status and headers, also of a refusal."""
    monkeypatch.setattr(Feed, "events", no_event)
    for path in (path for method, path in ALL_ROUTES if method == "GET"):
        for role in (None, *ROLES):
            headers = bearer(role) if role else {}
            whole, head = (client.request(method, example(path), headers=headers) for method in ("GET", "HEAD"))
            assert (path, role, head.status_code, head.content) == (path, role, whole.status_code, b"")
            assert set(head.headers) == set(whole.headers)
            assert head.headers["content-type"] == whole.headers["content-type"]
    assert client.head("/logout").status_code == 405


def test_head_ends_a_stream(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of events that would never end is closed after the headers."""
    closed = Event()

    async def endless(*_: object) -> AsyncIterator[str]:
        try:
            while True:
                yield "data: []\n\n"
        finally:
            closed.set()

    monkeypatch.setattr(Feed, "events", endless)
    answer = client.head("/events", headers=bearer("viewer"))

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert closed.wait(30)


def test_each_role_has_a_route_that_needs_it() -> None:
    """No role is without a meaning."""
    assert set(ROUTES.values()) == {None, *ROLES}


def test_an_unknown_path_does_not_reach_the_application(client: TestClient) -> None:
    """The documentation pages of FastAPI, which load scripts from elsewhere, are among them."""
    for path in ("/docs", "/redoc", "/openapi.json", "/api/v1/", "/api/v2", "/login/", "/api/v1/runs/a/b"):
        answer = client.get(path, headers=bearer("admin"))
        assert (path, answer.status_code) == (path, 404)
        assert answer.json()["detail"] == "There is no such page."


def test_a_refusal_is_a_page_for_a_browser(client: TestClient) -> None:
    """The same status, headers and reason as a program gets; a page for nobody says nothing about the server."""
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    requests = [
        ("GET", "/nothing", {}, 404, "There is no such page."),
        ("DELETE", "/", {}, 405, "DELETE is not possible here."),
        ("POST", "/runs", {}, 401, "This needs a login."),
        ("POST", "/runs", bearer("viewer"), 403, "This needs the role operator; you have the role viewer."),
        ("GET", "/?page=0", bearer("viewer"), 422, "query.page: Input should be greater than or equal to 1"),
        ("GET", "/runs/nothing", bearer("viewer"), 404, "it is not in"),
    ]
    for method, path, headers, status, reason in requests:
        answer = client.request(method, path, headers={**browser, **headers})
        plain = client.request(method, path, headers=headers)
        assert (path, answer.status_code, plain.status_code) == (path, status, status)
        assert answer.headers["content-type"].startswith("text/html")
        assert plain.headers["content-type"] == "application/problem+json"
        assert reason in answer.text
        assert reason in plain.text
        assert ("<nav" in answer.text) == bool(headers), path
        assert ("allow" in answer.headers) == (status == 405)
    answer = client.get("/api/v1/nothing", headers=browser)
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_route_outside_the_table_is_not_reachable(application: FastAPI) -> None:
    """A route that somebody adds without a role answers nobody."""
    application.add_api_route("/forgotten", lambda: "secret")
    client = TestClient(application, base_url=ORIGIN)

    assert client.get("/forgotten", headers=bearer("admin")).status_code == 404


def test_another_method_is_refused_and_the_possible_ones_are_named(client: TestClient) -> None:
    """PUT and OPTIONS are nowhere possible, so that no page elsewhere gets a permission (CORS)."""
    for method in ("PUT", "OPTIONS", "TRACE", "PATCH"):
        answer = client.request(method, "/api/v1/runs", headers={**bearer("admin"), "Origin": "http://evil.example"})
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, HEAD, POST"
        assert "access-control-allow-origin" not in answer.headers


# -- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["Bearer x", "Bearer ", "Basic dmVyYTp4", "x", "Bearer spt_0123456789_" + "A" * 43])
def test_an_invalid_token_is_refused_on_every_route(client: TestClient, text: str) -> None:
    """Also where everybody may read: a program must learn that its token is over."""
    for path in ("/login", "/api/v1/runs"):
        answer = client.get(path, headers={"Authorization": text})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="snia-pts"'
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_removed_token_is_refused_at_once(client: TestClient, access: Access) -> None:
    """An admin removes it, through the API too."""
    assert client.get("/api/v1", headers=bearer("viewer")).json()["user"] == "viewer"
    assert client.delete("/api/v1/access/tokens/viewer", headers=bearer("admin")).status_code == 200
    assert client.get("/api/v1", headers=bearer("viewer")).status_code == 401
    names = {(entry["kind"], entry["name"]) for entry in client.get("/api/v1/access", headers=bearer("admin")).json()}
    assert names == {("user", role) for role in ROLES} | {("token", "operator"), ("token", "admin")}


def test_a_list_of_users_has_no_secret(client: TestClient, access: Access) -> None:
    """Neither hashes nor tokens, not even for an admin."""
    text = client.get("/api/v1/access", headers=bearer("admin")).text
    accounts = access.users.read()

    assert all(user.password.key not in text and user.password.salt not in text for user in accounts.users)
    assert all(token.sha256 not in text for token in accounts.tokens)


# -- without users ---------------------------------------------------------------------------------------------------


def test_without_users_everybody_has_the_role_of_the_option(application: FastAPI, access: Access) -> None:
    """The default is a viewer; once there is a user, everybody needs a login."""
    content = access.users.path.read_bytes()
    access.users.path.unlink()
    client = TestClient(application, base_url=ORIGIN)

    access.anyone = "viewer"
    assert client.get("/api/v1/runs").status_code == 200
    refused = client.post("/api/v1/runs", headers={"Origin": ORIGIN}, json={})
    assert refused.status_code == 403
    assert "--role" in refused.json()["hint"]
    access.anyone = "operator"
    assert client.post("/api/v1/runs", headers={"Origin": ORIGIN}, json={}).status_code == 422
    access.anyone = None
    assert client.get("/api/v1/runs").status_code == 401
    access.anyone = "operator"
    replace_file(access.users.path, content, mode=0o600)
    assert client.get("/api/v1/runs").status_code == 401


def test_with_a_damaged_file_of_users_nobody_has_access(client: TestClient, access: Access) -> None:
    """A mistake in the file never opens what it protects, and the answer names it."""
    replace_file(access.users.path, b"{", mode=0o600)

    answer = client.get("/api/v1/runs", headers=bearer("admin"))
    assert answer.status_code == 422
    assert "not readable as JSON" in answer.json()["detail"]


# -- the address and the origin --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8400", "127.0.0.1.evil.example", "", "localhost@evil", "127.0.0.2", "[::2]"]
)
def test_a_page_whose_name_leads_here_is_refused(client: TestClient, host: str) -> None:
    """DNS rebinding: a browser sends the name of the page, which is none of this server's."""
    answer = client.get("/api/v1/runs", headers={**bearer("admin"), "Host": host})

    assert answer.status_code == 421
    assert "--url" in answer.json()["hint"]


@pytest.mark.long
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8400", "127.0.0.1:9000", "[::1]:8400"])
def test_the_names_of_loopback_are_accepted_with_any_port(client: TestClient, host: str) -> None:
    """ssh -L may use another port."""
    assert client.get("/api/v1/runs", headers={**bearer("viewer"), "Host": host}).status_code == 200


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "https://127.0.0.1:8400", f"{ORIGIN}1"])
def test_a_change_from_elsewhere_is_refused(client: TestClient, access: Access, origin: str | None) -> None:
    """Each route that changes something needs the origin of the page, also where everybody is an admin."""
    access.users.path.unlink()
    headers = {} if origin is None else {"Origin": origin}

    for method, path in CHANGING:
        answer = client.request(method, example(path), headers=headers)
        assert (path, answer.status_code) == (path, 403)
        assert "must come from a page of this server" in answer.json()["detail"]


def test_a_change_needs_the_token_of_the_session(client: TestClient) -> None:
    """A cookie is not enough: the page has the token in each form, and its script in a header."""
    log_in(client, "admin")
    token = csrf_token(client)
    for method, path in CHANGING:
        for headers in ({}, {"X-CSRF-Token": "x"}, {"X-CSRF-Token": token[:-1]}):
            answer = client.request(method, example(path), headers={"Origin": ORIGIN, **headers})
            assert (path, answer.status_code) == (path, 403)
            assert "does not belong to this session" in answer.json()["detail"]
    for method, path in sorted(CHANGING, key=lambda route: route[1] == "/logout"):
        if path != "/login":
            answer = client.request(method, example(path), headers={"Origin": ORIGIN, "X-CSRF-Token": token})
            assert (path, answer.status_code in (200, 303, 404, 409, 422)) == (path, True)


def test_reading_routes_have_no_effect_that_a_link_could_cause() -> None:
    """What changes something is never a GET."""
    assert {method for method, _ in ALL_ROUTES} == {"GET", "POST", "DELETE"}
    words = ("stop", "resume", "hold", "release", "logout")
    assert not [path for method, path in ALL_ROUTES if method == "GET" and path.rsplit("/")[-1] in words]


# -- bodies ----------------------------------------------------------------------------------------------------------


def test_a_large_body_is_refused(client: TestClient) -> None:
    """With and without an announced length."""

    def chunks() -> Iterator[bytes]:
        yield from [b" " * 10_000] * 10

    for content in (b" " * (MAX_BODY_BYTES + 1), chunks()):
        answer = client.post("/api/v1/runs", content=content, headers=bearer("operator"))
        assert answer.status_code == 413
    assert client.post("/api/v1/runs", content=b" " * MAX_BODY_BYTES, headers=bearer("operator")).status_code == 422


def test_a_body_is_read_only_from_those_who_may_send_it(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the role is known to be enough, nothing is read."""

    async def fail(*_: object) -> bytes:
        raise AssertionError("it was read")

    monkeypatch.setattr(access_module, "_read_body", fail)
    assert client.post("/api/v1/runs", content=b"x", headers=bearer("viewer")).status_code == 403
    assert client.post("/api/v1/runs", content=b"x").status_code == 401


# -- login and logout ------------------------------------------------------------------------------------------------


def test_a_login_sets_a_strict_cookie_and_leads_to_the_page(client: TestClient) -> None:
    """HttpOnly, SameSite=Strict, for the session of the browser; plain http on loopback has no prefix."""
    answer = log_in(client, "operator", next="/runs/x?y=1")

    assert (answer.status_code, answer.headers["location"]) == (303, "/runs/x?y=1")
    cookie = answer.headers["set-cookie"]
    assert re.fullmatch("snia-pts=[A-Za-z0-9_-]{43}; HttpOnly; Path=/; SameSite=strict", cookie)
    about = client.get("/api/v1").json()
    assert (about["user"], about["role"]) == ("operator", "operator")


def test_over_tls_the_cookie_has_the_prefix_of_the_host(application: FastAPI, access: Access) -> None:
    """__Host-: with Secure, without a domain, for the whole path."""
    access.site = make_site("127.0.0.1", urls=["https://lab.example"])
    client = TestClient(application, base_url="https://lab.example", follow_redirects=False)
    form = {"name": "viewer", "password": PASSWORDS["viewer"]}

    answer = client.post("/login", data=form, headers={"Origin": "https://lab.example"})
    cookie = answer.headers["set-cookie"]
    assert re.fullmatch("__Host-snia-pts=[A-Za-z0-9_-]{43}; HttpOnly; Path=/; SameSite=strict; Secure", cookie)
    assert client.get("/api/v1").json()["user"] == "viewer"


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nX: y", "javascript:alert(1)", ""]
)
def test_a_login_leads_nowhere_else(client: TestClient, target: str) -> None:
    """A link to the login page cannot send a person to another host."""
    assert log_in(client, "viewer", next=target).headers["location"] == "/"


def test_each_login_gets_a_new_session_and_ends_the_one_before(client: TestClient) -> None:
    """An id that somebody knows before the login is worth nothing after it."""
    log_in(client, "viewer")
    first = client.cookies["snia-pts"]
    form = {"name": "operator", "password": PASSWORDS["operator"], "csrf_token": csrf_token(client)}
    client.post("/login", data=form, headers={"Origin": ORIGIN})
    second = client.cookies["snia-pts"]

    assert client.get("/api/v1").json()["user"] == "operator"
    assert first != second
    client.cookies.clear()
    client.cookies.set("snia-pts", first)
    assert client.get("/api/v1").status_code == 401


def test_a_logout_ends_the_session_on_the_server(client: TestClient) -> None:
    """The cookie is removed, and worth nothing to who has a copy."""
    log_in(client, "viewer")
    cookie = client.cookies["snia-pts"]
    answer = client.post("/logout", data={"csrf_token": csrf_token(client)}, headers={"Origin": ORIGIN})

    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    client.cookies.set("snia-pts", cookie)
    assert client.get("/api/v1").status_code == 401


def test_a_wrong_name_and_a_wrong_password_get_the_same_answer(client: TestClient) -> None:
    """The answer does not say which of them is wrong, and sets no cookie."""
    answers = [
        client.post("/login", data={"name": name, "password": password}, headers={"Origin": ORIGIN})
        for name, password in (("nobody", PASSWORDS["admin"]), ("admin", "wrong password"), ("", ""), ("x" * 99, "y"))
    ]

    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
    assert "The name or the password is wrong." in answers[0].text
    assert not any("set-cookie" in answer.headers for answer in answers)


def test_a_few_attempts_are_allowed(client: TestClient) -> None:
    """After that, the right password is refused too, with the time to wait."""
    for _ in range(ADDRESS_LIMIT[0]):
        client.post("/login", data={"name": "x" * 99, "password": "y"}, headers={"Origin": ORIGIN})
    answer = log_in(client, "admin")

    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= ADDRESS_LIMIT[1]
    assert "Too many attempts." in answer.text


def test_an_idle_session_ends(client: TestClient, access: Access) -> None:
    """The browser is sent to the login page, and from there back."""
    log_in(client, "viewer")
    before = access.sessions.clock
    access.sessions.clock = lambda: before() + IDLE_SECONDS
    answer = client.get("/", headers={"Accept": "text/html"})

    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2F")


def test_texts_of_a_request_are_shown_as_text(client: TestClient) -> None:
    """The login page repeats only a path of this server, and that escaped."""
    text = client.get("/login", params={"next": '/"><script>alert(1)</script>'}).text

    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_every_answer_has_the_safe_headers(client: TestClient) -> None:
    """Also refusals."""
    for path in ("/login", "/api/v1", "/nowhere"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"  # no-referrer makes browsers send Origin: null
