"""The verb ``serve``: runs the server of the pages."""

from __future__ import annotations

import argparse
import socket
from typing import TYPE_CHECKING

from ..cli.text.lines import say
from ..errors import HostFailed, UsageError
from ..text import printable
from .folder_source import require_folder
from .site import Certificate, Site, is_loopback, make_site
from .source import Source
from .users import UserFile, default_path

if TYPE_CHECKING:
    from .access import Access

_LAST_PORT = 65535
#: So many connections may be open at the same time; the next ones get the status 503.
_MAX_CONNECTIONS = 1000


def serve(arguments: argparse.Namespace) -> int:
    """Serve the pages of a folder until the process is stopped."""
    import uvicorn

    from .application import make_application

    require_folder(arguments.folder)
    if not 0 <= arguments.port <= _LAST_PORT:
        raise UsageError(detail=f"--port {arguments.port}: not a port.", hint="For example --port 8400.")
    certificate = _certificate(arguments)
    site = make_site(arguments.listen, urls=arguments.url, certificate=certificate)
    access = _access(arguments, site)
    application = make_application(_source(arguments), access)
    with _listening(arguments.listen, arguments.port) as listener:
        say(f"{_url(site, listener)} shows the runs in {arguments.folder}; Ctrl-C ends this.")
        say(_who_may(access))
        config = uvicorn.Config(
            application,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ws="none",
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=1,
            ssl_certfile=certificate.path if certificate else None,
            ssl_keyfile=certificate.key if certificate else None,
        )
        uvicorn.Server(config).run(sockets=[listener])
    return 0


def _source(arguments: argparse.Namespace) -> Source:
    from .folder_source import FolderSource

    folder = FolderSource(arguments.folder, arguments.store or "")
    if not arguments.lab:
        return folder
    from .lab_source import LabSource  # needs the libraries of a lab

    return LabSource(arguments.lab, folder)


def _certificate(arguments: argparse.Namespace) -> Certificate | None:
    """Return the certificate that the options name; None without one."""
    given = [path is not None for path in (arguments.certificate, arguments.key)]
    if not any(given):
        return None
    if not all(given):
        detail = "serve: expected both --certificate and --key, or neither."
        raise UsageError(detail=detail, hint="The key is the private key of the certificate.")
    certificate = Certificate(path=arguments.certificate, key=arguments.key)
    certificate.require_usable()
    return certificate


def _access(arguments: argparse.Namespace, site: Site) -> Access:
    """Return who may use the pages; raises UsageError if nobody may, or more people than the options say."""
    from .access import Access
    from .sessions import Sessions

    users = UserFile(arguments.users or default_path())
    accounts = users.read()
    local = is_loopback(arguments.listen) and not arguments.url  # a proxy connects others to a local address
    if arguments.role is not None and (accounts.users or not local):
        reason = f"{users.path} has users, and each has a role" if accounts.users else "it is for this host only"
        raise UsageError(
            detail=f"--role {arguments.role}: {reason}.",
            hint="Leave --role out; snia-pts access user change NAME --role ROLE changes the role of a user.",
        )
    if not local and not accounts.users and not accounts.tokens:
        option = f"--url {arguments.url[0]}" if arguments.url else f"--listen {arguments.listen}"
        detail = f"{option}: nobody could log in, because {users.path} has no users."
        raise UsageError(detail=detail, hint="Add one: snia-pts access user add NAME --role ROLE.")
    return Access(site=site, users=users, sessions=Sessions(), anyone=(arguments.role or "viewer") if local else None)


def _who_may(access: Access) -> str:
    """Return a sentence that says who may use the pages."""
    if access.users.read().users or access.anyone is None:
        return f"The users in {printable(str(access.users.path))} may log in."
    return f"Everybody who can connect to this port of this host has the role {access.anyone}; there are no users."


def _url(site: Site, listener: socket.socket) -> str:
    """Return the address to open in a browser."""
    address, port = listener.getsockname()[:2]
    if address in ("0.0.0.0", "::"):  # noqa: S104 -- a comparison
        address = socket.gethostname()
    host = f"[{address}]" if ":" in address else address
    return next(iter(sorted(site.urls)), f"{'https' if site.tls else 'http'}://{host}:{port}") + "/"


def _listening(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family)
    except OSError as error:
        what = f"port {port} of {address}"
        hint = "Choose another --port."
        raise HostFailed(step="start of the page", what=what, reason=error.strerror or str(error), hint=hint) from None
