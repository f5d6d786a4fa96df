"""The verb ``serve`` of the command line."""

from __future__ import annotations

from ..cli.argument_parser import AddVerb, LazyVerb, path

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
