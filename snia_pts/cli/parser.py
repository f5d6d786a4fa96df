"""The command line.  Imports nothing heavy: ``--help`` answers at once."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from .. import __version__
from ..errors import UsageError


class _Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are errors of this suite."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(detail=f"{message[:1].upper()}{message[1:]}.", hint=f"See {self.prog} --help.")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; ``arguments.verb`` is the function to call with the arguments."""
    parser = _Parser(
        prog="snia-pts",
        description="Runs the SNIA Solid State Storage Performance Test Specification (PTS) on a drive.",
        epilog="A test destroys everything on its target. Exit codes and files: docs/.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"snia-pts {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _test(verbs.add_parser("iops", allow_abbrev=False, help="the IOPS test: block size x R/W mix, to steady state"))
    _stored(verbs.add_parser("assess", allow_abbrev=False, help="judge a stored run again, without a device"))
    _report(verbs.add_parser("report", allow_abbrev=False, help="make the report of a stored run again"))
    return parser


def _test(parser: argparse.ArgumentParser) -> None:
    parser.description = "Runs the test on TARGET: a whole drive, or a file made for it. Everything on TARGET is lost."
    parser.set_defaults(verb=_verb("running", "iops"))
    parser.add_argument("target", metavar="TARGET", type=Path, help="a whole drive (/dev/nvme0n1), or a file")
    target = parser.add_argument_group("target")
    target.add_argument("--size", metavar="SIZE", help="size of the file to make, for example 1G")
    target.add_argument("--overwrite", action="store_true", help="the file may be one that snia-pts did not make")
    target.add_argument("--serial", metavar="S", help="confirm the drive by its serial number, without a prompt")
    target.add_argument(
        "--purge", metavar="METHOD", default="auto", help="auto (default), blkdiscard, punch-hole, none"
    )
    standard = parser.add_argument_group("standard", "Every value that differs from the standard is a Deviation.")
    standard.add_argument("--class", dest="test_class", choices=("enterprise", "client"), default="enterprise")
    standard.add_argument("--pts", metavar="VERSION", default="2.0.2", help="2.0.2 (default) or 1.1")
    standard.add_argument("--spec", metavar="FILE", type=Path, help="a specification file of your own")
    standard.add_argument("--thread-count", metavar="N", help="setup.thread_count (TC)")
    standard.add_argument("--queue-depth", metavar="N", help="setup.queue_depth (QD), outstanding I/Os a thread")
    standard.add_argument("--point-seconds", metavar="S", help="rounds.point_seconds, the time of each point")
    standard.add_argument("--max-rounds", metavar="N", help="rounds.maximum")
    standard.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="any number of specs/")
    how = parser.add_argument_group("run")
    how.add_argument("--engine", choices=("auto", "io_uring", "libaio"), default="auto", help="fio's I/O engine")
    how.add_argument("--refill-buffers", action="store_true", help="new random data for every write (costs the host)")
    how.add_argument("--seed", metavar="N", help="of the random offsets (default: a new one, recorded)")
    how.add_argument("--run-dir", metavar="DIR", type=Path, help="default: runs/<test>-<model or file>-<time>")
    how.add_argument("--operator", metavar="NAME", default="", help="who tests, for the report")
    how.add_argument("--progress", choices=("auto", "line", "log", "none"), default="auto")
    plan = parser.add_argument_group("plan")
    plan.add_argument("--plan", action="store_true", help="show steps, duration and bytes written; touch nothing")
    plan.add_argument("--assume", metavar="MB/S", default="500", help="for --plan: what the drive moves at most (500)")
    plan.add_argument("--json", action="store_true", help="the plan as JSON")


def _stored(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(verb=_verb("stored", "assess"))
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder of a run")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _report(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(verb=_verb("stored", "report"))
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder of a run")


class _verb:
    """A verb that imports its module only when it is called."""

    def __init__(self, module: str, function: str) -> None:
        self._module, self._function = module, function

    def __call__(self, arguments: argparse.Namespace) -> int:
        from importlib import import_module

        module = import_module(f".{self._module}", __package__)
        return int(getattr(module, self._function)(arguments))
