"""The command line.  Imports only what ``--help`` needs, so that ``--help`` answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .. import __version__, registries
from .argument_parser import DOCUMENTATION, LazyVerb, Parser
from .argument_parser import path as _path


@dataclass(frozen=True, slots=True, kw_only=True)
class TestVerb:
    """A verb that runs a test: aliases, help, and its options with the specification keys that they set."""

    aliases: tuple[str, ...] = ()
    help: str
    shortcuts: Mapping[str, str]


_DEMAND = {"--thread-count": "setup.thread_count", "--queue-depth": "setup.queue_depth"}
_ROUNDS = {**_DEMAND, "--point-seconds": "rounds.point_seconds", "--max-rounds": "rounds.maximum"}
_TC_QD_LOOP = {"--point-seconds": "demand.point_seconds", "--max-rounds": "demand.maximum"}
_STIMULUS = {"--stimulus": "stimulus.name"}
#: Metavar and help of each option that sets a specification key.
_SHORTCUT_HELP = {
    "--thread-count": ("N", "Thread Count (TC)"),
    "--queue-depth": ("N", "Queue Depth (QD): outstanding I/Os per thread"),
    "--point-seconds": ("S", "duration of each point"),
    "--max-rounds": ("N", "maximum number of rounds"),
    "--stimulus": ("NAME", "the access pattern of the specification to use as the test stimulus"),
}

#: Every test by its verb, in the order of the standard's chapters.
TESTS: Mapping[str, TestVerb] = {
    "iops": TestVerb(help="IOPS: R/W mix x block size, to steady state", shortcuts=_ROUNDS),
    "throughput": TestVerb(
        aliases=("tp",), help="throughput: sequential reads and writes, to steady state", shortcuts=_ROUNDS
    ),
    "latency": TestVerb(
        aliases=("lat",), help="latency: response times of one outstanding I/O, to steady state", shortcuts=_ROUNDS
    ),
    "wsat": TestVerb(help="write saturation: continuous writes to a purged drive", shortcuts={**_DEMAND, **_STIMULUS}),
    "hir": TestVerb(help="host idle recovery: writes with idle times of growing length", shortcuts=_DEMAND),
    "xsr": TestVerb(help="cross stimulus recovery: large sequential, small random, large sequential", shortcuts={}),
    "composite": TestVerb(
        aliases=("ecw", "cbw"), help="composite workload: a mix of block sizes at every TC x QD", shortcuts=_TC_QD_LOOP
    ),
    "dirth": TestVerb(
        help="demand intensity, response time histogram: one pattern at every TC x QD",
        shortcuts={**_TC_QD_LOOP, **_STIMULUS},
    ),
}


#: The tests of ``all`` without --advanced.
BASIC = ("iops", "throughput", "latency", "wsat")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; ``arguments.verb`` is the function to call with the arguments."""
    parser = Parser(
        prog="snia-pts",
        description="Runs the SNIA Solid State Storage Performance Test Specification (PTS) on a drive.",
        epilog=f"A test destroys everything on its target. {DOCUMENTATION}",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"snia-pts {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    add = partial(verbs.add_parser, allow_abbrev=False)
    _devices(add("devices", help="list the drives of this host, and whether each can be tested"))
    _check(add("check", help="read all that a run on a target would read, without writing; say whether it would start"))
    _host(add("host", help="show host settings that affect results; restore those that a killed run changed"))
    for name, test in TESTS.items():
        _test(add(name, aliases=test.aliases, help=test.help), name, test)
    _all(add("all", help="IOPS, throughput, latency and write saturation, one after the other"))
    _assess(add("assess", help="judge a stored run, without a device"))
    _report(add("report", help="recreate the report of a stored run"))
    _compare(add("compare", help="compare stored runs of one test"))
    _resume(add("resume", help="continue a run that stopped for any reason"))
    _stop(add("stop", help="ask a run to stop after its current point or sample"))
    _status(add("status", help="show the state of runs"))
    _bundle(add("bundle", help="pack a run and the facts of this host, for a report of a fault"))
    for name in registries.VERBS:
        registries.load(registries.VERBS, name)(add)
    return parser


def _verb(function: str) -> LazyVerb:
    """Return the verb of a function ``module:function`` in ``commands``."""
    return LazyVerb(f"snia_pts.cli.commands.{function}")


def _devices(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Lists every disk of this host and every loop device in use: model, serial number, link, and whether it can be "
        "tested, or why not. Only reads. Run it as root: other users cannot read everything."
    )
    parser.set_defaults(verb=_verb("devices:devices"))
    parser.add_argument("--json", action="store_true", help="as JSON")


def _check(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Reads all that a run on TARGET reads before its start: identity, use and content, purge methods, health log, "
        "link, host and fio. Writes nothing. The exit code is that with which the run would be refused."
    )
    parser.set_defaults(verb=_verb("check:check_target"))
    parser.add_argument(
        "target", metavar="TARGET", type=_path, help="a whole drive (/dev/nvme0n1), a file, sim:PRESET, or array:FILE"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.add_argument_group("options of the run")
    _target_options(options)
    _purge_method(options)


def _bundle(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Packs a run, and the facts of this host, into one file: for a report of a fault. assess, report and compare "
        "read it like a run folder."
    )
    parser.set_defaults(verb=_verb("bundle:bundle_run"))
    parser.add_argument("run", metavar="RUN", type=_path, help="a run folder, or its archive")
    parser.add_argument(
        "--to",
        metavar="FILE",
        type=_path,
        help="the bundle (default: RUN-bundle.tar.xz, with --mask masked-bundle.tar.xz)",
    )
    parser.add_argument(
        "--mask",
        action="store_true",
        help="replace serial numbers, models, firmware, host, persons, notes, addresses and folders by placeholders, "
        "and leave out the reports",
    )


def _host(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows the settings of this host, and of the path to TARGET, that affect results: value, recommendation and "
        "reason. Only reads, except with --restore."
    )
    parser.set_defaults(verb=_verb("host:host"))
    parser.add_argument("target", metavar="TARGET", type=_path, nargs="?", help="a drive, a file or a folder to test")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--restore",
        metavar="RUN",
        type=_path,
        nargs="?",
        const=Path(),
        default=None,
        help="restore the settings that killed runs changed on this host, and those of the run in the folder RUN",
    )


def _test(parser: argparse.ArgumentParser, name: str, test: TestVerb) -> None:
    parser.description = (
        "Runs the test on TARGET: a whole drive, or a file created for it. Destroys everything on TARGET."
    )
    parser.set_defaults(verb=_verb("run:run_one"), test=name, set=[])
    add_target(parser)
    standard = _standard_group(parser)
    standard.add_argument("--spec", metavar="FILE", type=_path, help="a specification file of your own")
    for option, key in test.shortcuts.items():
        metavar, description = _SHORTCUT_HELP[option]
        setting = partial("{}={}".format, key)
        standard.add_argument(
            option, metavar=metavar, dest="set", action="append", type=setting, help=f"{description} ({key})"
        )
    standard.add_argument(
        "--set", metavar="KEY=VALUE", action="append", help="set any value of the specification (specs/)"
    )
    add_run_options(parser, "runs/<test>-<model or file>-<time>")
    add_plan(parser)


def _all(parser: Parser) -> None:
    for name in BASIC:
        for option, key in TESTS[name].shortcuts.items():
            parser.keys_instead.setdefault(option, []).append(f"{name}.{key}")
    parser.description = "Runs the tests on TARGET, each with its own purge. Destroys everything on TARGET."
    parser.set_defaults(verb=_verb("run:run_all"), set=[], spec=None)
    parser.add_argument(
        "--advanced", action="store_true", help="host idle, cross stimulus, composite and demand intensity as well"
    )
    add_target(parser)
    _standard_group(parser).add_argument(
        "--set",
        metavar="TEST.KEY=VALUE",
        action="append",
        help="set any value of a test's specification, for example iops.rounds.maximum=7",
    )
    add_run_options(parser, "runs/all-<model or file>-<time>")
    add_plan(parser)


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add TARGET and the options of its preparation, which ``options.run_options`` reads."""
    parser.add_argument(
        "targets",
        metavar="TARGET",
        type=_path,
        nargs="+",
        help="a whole drive (/dev/nvme0n1), a file, sim:PRESET, or array:FILE; several with --detach",
    )
    target = parser.add_argument_group("target")
    _target_options(target)
    target.add_argument("--serial", metavar="S", help="confirm the drive by its serial number, without a prompt")
    target.add_argument(
        "--member-run",
        metavar="RUN",
        type=_path,
        help="for an array: an IOPS run of one of its drives, to predict the array's performance",
    )
    purge = target.add_mutually_exclusive_group()
    _purge_method(purge)
    purge.add_argument(
        "--purge-command",
        metavar="CMD",
        help="purge with the vendor's tool, for example 'tool erase {device}'; the report shows CMD",
    )
    target.add_argument(
        "--allow-unpurged",
        action="store_true",
        help="continue if a purge failed or is not proven (a Deviation)",
    )
    target.add_argument(
        "--keep-write-cache", action="store_true", help="do not change the drive's write cache (a Deviation)"
    )


def _target_options(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument("--size", metavar="SIZE", help="size of the file to create, for example 1G")
    parser.add_argument("--overwrite", action="store_true", help="allow a file that snia-pts did not create")
    parser.add_argument(
        "--discard-data", action="store_true", help="allow a drive with file systems or partitions that are not in use"
    )


def _purge_method(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--purge", metavar="METHOD", default="auto", help="auto (default), none, or a method of docs/purge.rst"
    )


def _standard_group(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    standard = parser.add_argument_group("standard", "Every value outside the standard is a Deviation.")
    standard.add_argument(
        "--class",
        dest="test_class",
        choices=("enterprise", "client"),
        default="enterprise",
        help="class of the drive: enterprise (default) or client",
    )
    standard.add_argument("--pts", metavar="VERSION", default="2.0.2", help="2.0.2 (default) or 1.1")
    return standard


def add_run_options(parser: argparse.ArgumentParser, default_folder: str) -> None:
    """Add the options of a run, which ``options.run_options`` reads; the help names its ``default_folder``."""
    run = parser.add_argument_group("run")
    run.add_argument(
        "--engine",
        choices=("auto", "io_uring", "libaio"),
        default="auto",
        help="fio's I/O engine: io_uring, libaio, or auto (default): the first that works",
    )
    run.add_argument(
        "--tune", action="store_true", help="change host settings for the run, and restore them (docs/host.rst)"
    )
    run.add_argument(
        "--refill-buffers", action="store_true", help="new random data for every write (uses more CPU time)"
    )
    run.add_argument(
        "--stall-seconds",
        metavar="S",
        type=float,
        default=120.0,
        help="time without I/O after which the drive counts as failed (120)",
    )
    _power(run)
    run.add_argument(
        "--seed", metavar="N", help="seed of the random offsets (default: a new seed for each run, which is recorded)"
    )
    add_plugins(run)
    run.add_argument("--run-dir", metavar="DIR", type=_path, help=f"the run folder (default: {default_folder})")
    run.add_argument(
        "--detach",
        action="store_true",
        help="test each TARGET in a process of its own that outlives this command (docs/batch.rst)",
    )
    run.add_argument(
        "--side-by-side",
        metavar="N",
        help="with --detach: the number of drives to test at a time (default: one per 2 CPUs)",
    )
    _limits(run)
    _about(run)
    add_formats(run)
    run.add_argument("--operator", metavar="NAME", default="", help="name of the operator, for the report")
    add_notifications(run)
    _store(run)
    _progress(run)


def _power(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--power-command",
        metavar="CMD",
        help="a program that prints the watts of a power meter, one number a line, about once a second",
    )


def _progress(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--progress",
        choices=("auto", "line", "log", "none"),
        default="auto",
        help="line (one line, rewritten), log (many lines), none, or auto (default): line on a terminal, else log",
    )


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add ``--plan`` and its options, which ``options.run_options`` reads."""
    plan = parser.add_argument_group("plan")
    plan.add_argument("--plan", action="store_true", help="show steps, duration and bytes written; touch nothing")
    plan.add_argument(
        "--assume", metavar="MB/S", help="for --plan: the speed of the drive, instead of that of its link"
    )
    plan.add_argument("--json", action="store_true", help="the plan as JSON")


def _assess(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Judges a stored run from its journal, compares result.xml and all evidence with the journal, and prints the "
        "verdict, the determinations and the figures. Needs no device and changes nothing."
    )
    parser.set_defaults(verb=_verb("assess:assess"))
    parser.add_argument(
        "run", metavar="RUN", type=_path, help="the folder of a run, or of several tests (all), or an archive"
    )
    _limits(parser)
    add_plugins(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def _report(parser: argparse.ArgumentParser) -> None:
    parser.description = "Recreates result.xml and the report of a stored run from its journal. Needs no device."
    parser.set_defaults(verb=_verb("report:report"))
    parser.add_argument(
        "run", metavar="RUN", type=_path, help="the folder of a run, or of several tests (all), or an archive"
    )
    parser.add_argument("--out", metavar="DIR", type=_path, help="write the report into this folder instead")
    _limits(parser)
    _about(parser)
    add_formats(parser)
    add_plugins(parser)


def _limits(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--limits", metavar="FILE", type=_path, help="limits that the results must meet (docs/limits.rst)"
    )


def add_formats(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add ``--to``, which ``options.formats_of`` reads."""
    parser.add_argument(
        "--to",
        metavar="FORMATS",
        help="report formats: rst,pdf,html,xlsx (default), csv,json,junit,ocp,interactive; or none",
    )


def add_plugins(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add ``--plugin``."""
    parser.add_argument(
        "--plugin",
        metavar="NAME",
        action="append",
        default=[],
        help="load a plugin: a Python module, or the path of a .py file; may be repeated (docs/plugins.rst)",
    )


def _about(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--about",
        metavar="FILE",
        type=_path,
        help="operator, device, logo and notes for the report (docs/annotations.rst)",
    )


def add_notifications(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the options of mail and webhook."""
    parser.add_argument(
        "--mail-to",
        metavar="ADDRESS",
        action="append",
        help="send a mail when a run ends, for any reason; may be repeated",
    )
    parser.add_argument("--mail-server", metavar="HOST[:PORT]", help="mail server, without encryption (port 25)")
    parser.add_argument(
        "--mail", metavar="FILE", type=_path, help="mail settings: server, user, recipients (docs/mail.rst)"
    )
    parser.add_argument(
        "--webhook", metavar="URL", help="send a JSON message when a run ends, or its drive is hot (docs/mail.rst)"
    )
    parser.add_argument(
        "--webhook-secret", metavar="FILE", type=_path, help="sign the messages with the secret in FILE (mode 0600)"
    )


def _store(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument("--store", metavar="URL", help="add the run to this store when it ends (docs/store.rst)")


def _compare(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compares stored runs of one test with the first of them: drives, firmwares, hosts, file systems. Lists what "
        "else differs between the runs."
    )
    parser.set_defaults(verb=_verb("compare:compare"))
    parser.add_argument("runs", metavar="RUN", type=_path, nargs="+", help="the folders of two or more runs")
    parser.add_argument("--out", metavar="DIR", type=_path, help="write the comparison there, as RST, PDF and HTML")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _resume(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Continues a stopped run, several tests, or a batch of drives. Rounds continue where they stopped, and only a "
        "window after the interruption counts; if a step was interrupted that the standard requires without a break, "
        "the run starts again at the last purge."
    )
    parser.set_defaults(verb=_verb("resume:resume"), policy="rule")
    parser.add_argument(
        "run", metavar="RUN", type=_path, help="the folder of a run, of several tests (all), or of a batch"
    )
    policies = parser.add_mutually_exclusive_group()
    policies.add_argument(
        "--continue",
        dest="policy",
        action="store_const",
        const="continue",
        help="always continue with the interrupted step; the report lists it as a deviation",
    )
    policies.add_argument(
        "--from-purge", dest="policy", action="store_const", const="purge", help="start again at the last purge"
    )
    parser.add_argument("--target", metavar="TARGET", type=_path, help="the drive, if it has another name now")
    parser.add_argument("--serial", metavar="S", help="confirm the drive by its serial number, without a prompt")
    parser.add_argument("--overwrite", action="store_true", help="allow a file that snia-pts did not create")
    parser.add_argument(
        "--discard-data",
        action="store_true",
        help="allow the loss of data that was written to the drive since the run stopped",
    )
    parser.add_argument("--purge-command", metavar="CMD", help="the vendor's tool, if the run was started with one")
    _power(parser)
    add_plugins(parser)
    add_notifications(parser)
    _store(parser)
    _progress(parser)


def _stop(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Asks a run to stop after its current point or sample, and does not wait until it stops. Stops all runs of a "
        "batch, and waits until they have stopped. Measurements are kept; snia-pts resume RUN continues the run."
    )
    parser.set_defaults(verb=_verb("status:stop"))
    parser.add_argument(
        "run", metavar="RUN", type=_path, help="the folder of a run, of several tests (all), or of a batch"
    )


def _status(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows for each run whether it is running, stopped or finished, at which step, and the command that continues "
        "it. Only reads; needs no device."
    )
    parser.set_defaults(verb=_verb("status:status"))
    parser.add_argument(
        "runs",
        metavar="RUN",
        type=_path,
        nargs="+",
        help="the folder of a run, of several tests (all), of several runs, or of a batch",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
