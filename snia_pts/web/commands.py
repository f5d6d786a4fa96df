"""The verb ``serve``: runs the server of the pages."""

from __future__ import annotations

import argparse
import socket

from ..cli.text.terminal import say
from ..errors import HostFailed, RecordError, UsageError
from .source import Source

#: Only programs of this host can connect.
_ADDRESS = "127.0.0.1"
_LAST_PORT = 65535


def serve(arguments: argparse.Namespace) -> int:
    """Serve the pages of a folder until the process is stopped."""
    import uvicorn

    from .application import make_application

    if not arguments.folder.is_dir():
        raise RecordError(path=arguments.folder, reason="it is not a folder", hint="Name the folder of the runs.")
    if not 0 <= arguments.port <= _LAST_PORT:
        raise UsageError(detail=f"--port {arguments.port}: not a port.", hint="For example --port 8400.")
    application = make_application(_source(arguments))
    with _listening(arguments.port) as listener:
        say(f"http://{_ADDRESS}:{listener.getsockname()[1]}/ shows the runs in {arguments.folder}; Ctrl-C ends this.")
        config = uvicorn.Config(application, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listener])
    return 0


def _source(arguments: argparse.Namespace) -> Source:
    from .folder_source import FolderSource

    folder = FolderSource(arguments.folder, arguments.store or "")
    if not arguments.lab:
        return folder
    from .lab_source import LabSource  # needs the libraries of a lab

    return LabSource(arguments.lab, folder)


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((_ADDRESS, port))
    except OSError as error:
        what = f"port {port} of {_ADDRESS}"
        hint = "Choose another --port."
        raise HostFailed(step="start of the page", what=what, reason=error.strerror or str(error), hint=hint) from None
