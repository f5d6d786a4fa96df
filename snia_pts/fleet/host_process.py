"""The process of the service that starts runs for the agent; systemd passes its socket.

``python -m snia_pts.fleet.host_process CONFIGURATION`` is the command of a unit of systemd.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from ..cli.main import run_reported
from ..errors import UsageError
from .configuration import read_configuration
from .host_service import HostService
from .run_state import HostRuns

#: The first descriptor that systemd passes to a service (sd_listen_fds).
_SOCKET_DESCRIPTOR = 3


def serve(configuration_path: str) -> int:
    """Answer the calls at the socket that systemd passed, until a signal."""
    configuration = read_configuration(Path(configuration_path))
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        hint = "systemctl start snia-pts-host.socket"
        raise UsageError(detail="systemd starts this service, with its socket.", hint=hint)
    with HostService(socket.socket(fileno=_SOCKET_DESCRIPTOR), HostRuns(configuration)) as service:
        service.serve_forever()
    return 0


if __name__ == "__main__":
    raise SystemExit(run_reported(lambda _: serve(*sys.argv[1:])))
