"""Decides whether a request may reach its route.

Checks the host name, the role and, for requests that change something, the Origin header.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, cast
from urllib.parse import parse_qs, quote, urlencode

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import SniaPtsError
from .problem import Refusal, error_response
from .roles import Role, is_enough
from .sessions import Sessions
from .site import Site
from .users import Accounts, UserFile

#: The minimum role for each route of the API and the login, by method and path; None if no login is required.  HEAD
#: arrives as GET.
ROUTES: Mapping[tuple[str, str], Role | None] = {
    ("GET", "/login"): None,
    ("POST", "/login"): None,
    ("POST", "/logout"): "viewer",
    ("GET", "/metrics"): "viewer",
    ("GET", "/api/v1/openapi.json"): "viewer",
    ("GET", "/api/v1"): "viewer",
    ("GET", "/api/v1/drives"): "viewer",
    ("GET", "/api/v1/runs"): "viewer",
    ("GET", "/api/v1/runs/{run_id}"): "viewer",
    ("GET", "/api/v1/runs/{run_id}/events"): "viewer",
    ("GET", "/api/v1/queue"): "viewer",
    ("GET", "/api/v1/hosts"): "viewer",
    ("GET", "/api/v1/results"): "viewer",
    ("GET", "/api/v1/results/metrics"): "viewer",
    ("GET", "/api/v1/results/trend"): "viewer",
    ("GET", "/api/v1/results/spread"): "viewer",
    ("GET", "/api/v1/results/comparison"): "viewer",
    ("POST", "/api/v1/plan"): "viewer",
    ("POST", "/api/v1/runs"): "operator",
    ("POST", "/api/v1/runs/{run_id}/stop"): "operator",
    ("POST", "/api/v1/runs/{run_id}/resume"): "operator",
    ("POST", "/api/v1/drives/{drive_id}/hold"): "operator",
    ("POST", "/api/v1/drives/{drive_id}/release"): "operator",
    ("GET", "/api/v1/access"): "admin",
    ("DELETE", "/api/v1/access/tokens/{name}"): "admin",
}
CSRF_FIELD, CSRF_HEADER = "csrf_token", "x-csrf-token"
MAX_BODY_BYTES = 64 * 1024
_BODY_SECONDS = 10.0
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The sender of a request: a logged-in ``user``, a ``token``, ``anyone`` if no login is required, or ``nobody``.

    ``csrf_token`` is the CSRF token of a user's session, and empty for other kinds.  Every form sends it in the field
    ``csrf_token``.
    """

    kind: Literal["user", "token", "anyone", "nobody"]
    name: str = ""
    role: Role | None = None
    csrf_token: str = ""
    session_id: str = ""

    def may(self, least: Role) -> bool:
        """Return whether the role is at least ``least``."""
        return self.role is not None and is_enough(self.role, least)


NOBODY = Identity(kind="nobody")


def identity_of(request: Request) -> Identity:
    """Return the sender of a request that reached its route."""
    return cast("Identity", request.state.identity)


def cookie_name(origin: str) -> str:
    """Return the name of the session cookie; browsers accept the prefix ``__Host-`` only with Secure, over https."""
    return "__Host-snia-pts" if origin.startswith("https:") else "snia-pts"


@dataclass(slots=True, kw_only=True)
class Access:
    """Who may use the server: the users and tokens in a file, with their sessions, at the addresses of a site.

    ``anyone`` is the role of everybody while no users exist; None means that a login is required.
    """

    site: Site
    users: UserFile
    sessions: Sessions
    anyone: Role | None = None

    def identify(self, request: Request, origin: str, accounts: Accounts, *, extend_session: bool = True) -> Identity:
        """Return the sender of a request; raises Refusal for an invalid token.

        With ``extend_session`` the idle time of the sender's session starts again.
        """
        authorization = request.headers.get("authorization")
        if authorization is not None:
            scheme, _, text = authorization.partition(" ")
            token = accounts.token(text.strip()) if scheme.lower() == "bearer" else None
            if token is None:
                raise _unauthorized("The token is invalid or expired.")
            return Identity(kind="token", name=token.name, role=token.role)
        session_id = request.cookies.get(cookie_name(origin), "")
        session = self.sessions.find(session_id, accounts, extend_session=extend_session) if session_id else None
        if session is not None:
            return Identity(
                kind="user",
                name=session.user.name,
                role=session.user.role,
                csrf_token=session.csrf_token,
                session_id=session_id,
            )
        if self.anyone is not None and not accounts.users:
            return Identity(kind="anyone", role=self.anyone)
        return NOBODY


class AccessControl:
    """Middleware that answers each request that may not reach its route.

    ``routes`` has the minimum role of each route, by method and path.  Other routes do not exist.
    """

    def __init__(self, app: ASGIApp, access: Access, routes: Mapping[tuple[str, str], Role | None]) -> None:
        self._app = app
        self._access = access
        self._paths: list[tuple[re.Pattern[str], dict[str, Role | None]]] = []
        for path in dict.fromkeys(path for _, path in routes):
            roles = {method: role for (method, other), role in routes.items() if other == path}
            self._paths.append((compile_path(path)[0], roles))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or forward it with ``identity`` and ``origin`` in its state."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            try:
                identity, receive = await self._admit(scope, receive)
            except Refusal as refusal:
                await _answer(Request(scope), refusal)(scope, receive, send)
            except SniaPtsError as error:  # the file of users has errors: nobody has access
                await error_response(error)(scope, receive, send)
            else:
                await self._forward(identity, scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _admit(self, scope: Scope, receive: Receive) -> tuple[Identity, Receive]:
        """Return the sender of a request, and its body; raises Refusal if the request may not reach its route."""
        request = Request(scope, receive)
        origin = self._origin(request)
        roles = self._roles(scope["path"])
        method = request.method
        if method not in roles:
            allowed = ", ".join(sorted((*roles, *(["HEAD"] if "GET" in roles else []))))
            detail = f"{method} is not possible here."
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, detail, f"Possible: {allowed}.", {"Allow": allowed})
        identity = self._access.identify(request, origin, self._access.users.read())
        scope.setdefault("state", {}).update(identity=identity, origin=origin)
        least = roles[method]
        if least is not None:
            if identity.role is None:
                raise _unauthorized("This needs a login.")
            if not identity.may(least):
                detail = f"This needs the role {least}; you have the role {identity.role}."
                raise Refusal(HTTPStatus.FORBIDDEN, detail, _role_hint(identity))
        if method == "GET":
            return identity, receive
        if identity.kind != "token":
            _require_origin(request, origin)
        body = await _read_body(request)
        if identity.kind == "user":
            _require_csrf_token(request, body, identity)
        return identity, _replay(body, receive)

    def _origin(self, request: Request) -> str:
        hosts = request.headers.getlist("host")
        origin = self._access.site.origin(hosts[0]) if len(hosts) == 1 else None
        if origin is None:
            detail = "The address of the page is not one of this server."
            hint = "If it should be, start the server with --url and that address."
            raise Refusal(HTTPStatus.MISDIRECTED_REQUEST, detail, hint)
        return origin

    def _roles(self, path: str) -> dict[str, Role | None]:
        """Return the minimum role of each method of a path; raises Refusal if the path does not exist."""
        roles: dict[str, Role | None] = {}
        for pattern, own in self._paths:
            if pattern.match(path):
                roles |= {method: _stricter(role, roles.get(method)) for method, role in own.items()}
        if not roles:
            raise Refusal(HTTPStatus.NOT_FOUND, "There is no such page.", "Check the address.")
        return roles

    async def _forward(self, identity: Identity, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request; end a streamed response, such as a stream of events, when the sender's access ends."""
        request, admitted, ended = Request(scope), identity, False

        def has_access() -> bool:
            if admitted is NOBODY:
                return True
            try:
                accounts = self._access.users.read()
                now = self._access.identify(request, scope["state"]["origin"], accounts, extend_session=False)
            except (Refusal, SniaPtsError):
                return False
            return (now.kind, now.name, now.role) == (admitted.kind, admitted.name, admitted.role)

        async def send_while_allowed(message: Message) -> None:
            nonlocal ended
            is_stream = message["type"] == "http.response.body" and message.get("more_body", False)
            if is_stream and not ended and not has_access():
                ended = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            if ended:
                raise OSError("the access has ended")  # as ASGI specifies for a client that has disconnected
            await send(message)

        try:
            await self._app(scope, receive, send_while_allowed)
        except (OSError, ClientDisconnect):
            if not ended:
                raise


def _stricter(first: Role | None, second: Role | None) -> Role | None:
    """Return the stricter of the minimum roles of two routes that match the same path."""
    if first is None or second is None:
        return first or second
    return first if is_enough(first, second) else second


def _answer(request: Request, refusal: Refusal) -> Response:
    """Return the response for a refusal; a browser without a login is redirected to /login."""
    is_page = request.method == "GET" and not request.url.path.startswith("/api/")
    if refusal.status == HTTPStatus.UNAUTHORIZED and is_page and "text/html" in request.headers.get("accept", ""):
        path = quote(request.scope["path"])
        return RedirectResponse(f"/login?{urlencode({'next': path})}", HTTPStatus.SEE_OTHER)
    return refusal.response()


def _unauthorized(detail: str) -> Refusal:
    hint = "Log in at /login, or send a token: Authorization: Bearer TOKEN."
    return Refusal(HTTPStatus.UNAUTHORIZED, detail, hint, {"WWW-Authenticate": 'Bearer realm="snia-pts"'})


def _role_hint(identity: Identity) -> str:
    if identity.kind == "anyone":
        return "Start the server with --role, or add users with snia-pts access user add."
    return "The user who runs the server assigns roles with snia-pts access."


def _require_origin(request: Request, origin: str) -> None:
    """Raise Refusal unless a page of this site sent a request that changes something."""
    sent = request.headers.getlist("origin")
    if sent != [origin]:
        detail = "A request that changes something must come from a page of this server."
        hint = f"A program must send a token. If the server has no users, it must send the header Origin: {origin}."
        raise Refusal(HTTPStatus.FORBIDDEN, detail, hint)


def _require_csrf_token(request: Request, body: bytes, identity: Identity) -> None:
    """Raise Refusal unless a request has the CSRF token of its session, in a header or in its form."""
    token = request.headers.get(CSRF_HEADER, "")
    if not token and request.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
        token = parse_qs(body.decode("latin-1")).get(CSRF_FIELD, [""])[0]
    if not hmac.compare_digest(token.encode(), identity.csrf_token.encode()):
        detail = "The page is out of date: it does not belong to this session."
        raise Refusal(HTTPStatus.FORBIDDEN, detail, "Load the page again.")


async def _read_body(request: Request) -> bytes:
    """Return the body of a request; raises Refusal if it is too large, or does not arrive in time."""
    too_large = Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The request is larger than {MAX_BODY_BYTES // 1024} KiB."
    )
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > MAX_BODY_BYTES:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise too_large
    except TimeoutError:
        raise Refusal(HTTPStatus.REQUEST_TIMEOUT, "The request did not arrive in time.", "Send it again.") from None
    except ClientDisconnect:
        raise Refusal(HTTPStatus.BAD_REQUEST, "The connection ended within the request.") from None
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that returns the body first, and then the messages that follow it."""
    sent = False

    async def receive_again() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return receive_again
