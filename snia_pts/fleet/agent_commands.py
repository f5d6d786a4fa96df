"""The verb ``agent``."""

from __future__ import annotations

import argparse
import asyncio
import sys

from .agent import Agent, only_agent
from .configuration import read_configuration
from .run_state import HostRuns


def agent(arguments: argparse.Namespace) -> int:
    """Serve the queue of this host until a signal."""
    configuration = read_configuration(arguments.configuration)
    with only_agent(configuration.state_folder):
        asyncio.run(Agent(configuration, HostRuns(configuration), _say).serve())
    return 0


def _say(line: str) -> None:
    print(f"snia-pts: {line}", file=sys.stderr, flush=True)
