"""The verb ``serve`` of the command line."""

from __future__ import annotations

from ..cli.argument_parser import AddVerb, LazyVerb, path
from .roles import ROLES

_COMMANDS = "snia_pts.web.commands"


def add_serve(add: AddVerb) -> None:
    """Add the parser of ``serve``."""
    parser = add("serve", help="show the runs in a folder as web pages, live")
    parser.description = (
        "Shows the runs in a folder, and those in its batches and suites, as web pages that follow a run while it is "
        "measured (docs/serve.rst). It only reads the run folders, so it can be started and stopped at any time."
    )
    parser.set_defaults(verb=LazyVerb(f"{_COMMANDS}:serve"))
    parser.add_argument("folder", metavar="FOLDER", type=path, help="the folder of the runs, for example runs")
    parser.add_argument("--port", metavar="N", type=int, default=8400, help="the port (default: 8400; 0: any free one)")
    parser.add_argument("--store", metavar="STORE", help="a store of results to show, too: a file or a URL")
    parser.add_argument(
        "--lab",
        metavar="URL",
        help="show the lab of this database; FOLDER is then that of the results that lab collect received",
    )
    access = parser.add_argument_group("who may use it")
    access.add_argument(
        "--role",
        choices=ROLES,
        help="what everybody on this host may do while there are no users: viewer (default), operator or admin",
    )
    access.add_argument(
        "--users", metavar="FILE", type=path, help="the file of users; default: ~/.config/snia-pts/users.json"
    )
    access.add_argument(
        "--listen",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="the IP address to listen on (default: 127.0.0.1); others than those of this host need a certificate",
    )
    access.add_argument("--certificate", metavar="FILE", type=path, help="the certificate for TLS, with its issuers")
    access.add_argument("--key", metavar="FILE", type=path, help="the private key of the certificate")
    access.add_argument(
        "--url",
        metavar="URL",
        action="append",
        default=[],
        help="another address of the pages, for example that of a TLS proxy: https://lab.example (repeatable)",
    )
