"""The verb ``agent``."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..cli.main import run_reported
from ..lab.process.detached import close_order
from .agent import Agent, locked_host
from .configuration import read_configuration
from .host_service import RemoteRuns
from .run_state import HostRuns


def agent(arguments: argparse.Namespace) -> int:
    """Serve the queue of this host until a signal."""
    return _serve(arguments.configuration)


def run_detached(order: Mapping[str, Any]) -> None:
    """Serve the queue as a process that another one has started, until a signal."""
    close_order()
    raise SystemExit(run_reported(lambda _: _serve(Path(order["configuration"]))))


def _serve(path: Path) -> int:
    configuration = read_configuration(path)
    service = configuration.host_service
    runs = HostRuns(configuration) if service is None else RemoteRuns(service)
    with locked_host(configuration):
        asyncio.run(Agent(configuration, runs, _say).serve())
    return 0


def _say(line: str) -> None:
    print(f"snia-pts: {line}", file=sys.stderr, flush=True)
