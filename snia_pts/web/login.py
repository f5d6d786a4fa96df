"""The pages to log in and out."""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from jinja2 import Environment, FileSystemLoader
from starlette.responses import HTMLResponse, RedirectResponse, Response

from .access import Access, Identity, cookie_name, identity_of
from .attempts import Attempts
from .users import User

#: A path of this server: a browser reads // and /\ as the beginning of another host.
_LOCAL_PATH = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")
#: So many logins may wait for their turn; each one needs 32 MiB and a CPU for a moment.
_MAX_WAITING = 8
_MAX_NAME, _MAX_PASSWORD = 40, 1024


class Login:
    """The routes to log in and out."""

    def __init__(self, access: Access, attempts: Attempts | None = None) -> None:
        self._access = access
        self._attempts = attempts or Attempts()
        self._waiting = 0
        self._turn = asyncio.Lock()
        loader = FileSystemLoader(Path(__file__).parent / "templates")
        self._template = Environment(loader=loader, autoescape=True).get_template("login.html")
        self.router = APIRouter(include_in_schema=False)
        self.router.add_api_route("/login", self._page, methods=["GET"], response_class=HTMLResponse)
        self.router.add_api_route("/login", self._login, methods=["POST"], response_class=HTMLResponse)
        self.router.add_api_route("/logout", self._logout, methods=["POST"], response_class=HTMLResponse)

    def _page(self, request: Request) -> Response:
        identity = identity_of(request)
        next_path = _local_path(request.query_params.get("next", ""))
        if identity.kind == "anyone":
            return RedirectResponse(next_path, HTTPStatus.SEE_OTHER)
        return self._form(identity, next_path)

    async def _login(self, request: Request) -> Response:
        """Compare the password, one login at a time; the session gets a new id, and the one before ends."""
        identity = identity_of(request)
        form = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
        name, password, next_path = (form.get(field, [""])[0] for field in ("name", "password", "next"))
        next_path = _local_path(next_path)
        address = request.client.host if request.client else ""
        if self._waiting >= _MAX_WAITING:
            return self._refused(identity, next_path, 1)
        if seconds := self._attempts.wait_seconds(address, name[:_MAX_NAME]):
            return self._refused(identity, next_path, seconds)
        user = await self._user(name, password)
        if user is None:
            message = "The name or the password is wrong."
            return self._form(identity, next_path, message, status=HTTPStatus.UNAUTHORIZED)
        self._attempts.forget(address, name)
        self._access.sessions.end(identity.session_id)
        session_id, _ = self._access.sessions.start(user)
        response = RedirectResponse(next_path, HTTPStatus.SEE_OTHER)
        self._set_cookie(request, response, session_id)
        return response

    async def _user(self, name: str, password: str) -> User | None:
        """Return the user with this name and password; None if there is none."""
        if len(name) > _MAX_NAME or len(password) > _MAX_PASSWORD:
            return None
        accounts = self._access.users.read()
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(accounts.login, name, password)
        finally:
            self._waiting -= 1

    def _logout(self, request: Request) -> Response:
        self._access.sessions.end(identity_of(request).session_id)
        response = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        self._set_cookie(request, response, "")
        response.headers["Clear-Site-Data"] = '"cache", "storage"'
        return response

    def _refused(self, identity: Identity, next_path: str, seconds: int) -> Response:
        message = f"Too many attempts. Wait {seconds} s before the next one."
        response = self._form(identity, next_path, message, status=HTTPStatus.TOO_MANY_REQUESTS)
        response.headers["Retry-After"] = str(seconds)
        return response

    def _form(
        self, identity: Identity, next_path: str, message: str = "", *, status: HTTPStatus = HTTPStatus.OK
    ) -> HTMLResponse:
        has_users = bool(self._access.users.read().users)
        page = self._template.render(
            identity=identity, next_path=next_path, message=message, has_users=has_users, csrf_token=identity.csrf_token
        )
        return HTMLResponse(page, status)

    def _set_cookie(self, request: Request, response: Response, session_id: str) -> None:
        """Set the cookie of a session, or remove it; the browser forgets it when it ends."""
        name = cookie_name(request.state.origin)
        response.set_cookie(
            name,
            session_id,
            max_age=None if session_id else 0,
            path="/",
            secure=name.startswith("__Host-"),
            httponly=True,
            samesite="strict",
        )


def _local_path(path: str) -> str:
    """Return the path if it is one of this server, else that of the first page."""
    return path if _LOCAL_PATH.fullmatch(path) else "/"
