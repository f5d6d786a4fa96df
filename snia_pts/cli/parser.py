"""The command line.  Imports nothing heavy: ``--help`` answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .. import __version__
from ..model.raid import LINKS
from .argument_parser import LazyVerb, Parser
from .argument_parser import path as _path


@dataclass(frozen=True, slots=True, kw_only=True)
class TestVerb:
    """A verb that runs a test: its other names, what it does, and its short options with the keys they stand for."""

    aliases: tuple[str, ...] = ()
    help: str
    shortcuts: Mapping[str, str]


_DEMAND = {"--thread-count": "setup.thread_count", "--queue-depth": "setup.queue_depth"}
_ROUNDS = {**_DEMAND, "--point-seconds": "rounds.point_seconds", "--max-rounds": "rounds.maximum"}
_TC_QD_LOOP = {"--point-seconds": "demand.point_seconds", "--max-rounds": "demand.maximum"}
_STIMULUS = {"--stimulus": "stimulus.name"}
#: What a short option says of itself.
_SHORTCUT_HELP = {
    "--thread-count": ("N", "TC, how many threads"),
    "--queue-depth": ("N", "QD, outstanding I/Os a thread"),
    "--point-seconds": ("S", "the time of each point"),
    "--max-rounds": ("N", "rounds at most"),
    "--stimulus": ("NAME", "which of the specification's patterns is the test stimulus"),
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
    "wsat": TestVerb(
        help="write saturation: continuous writes from a purged drive on", shortcuts={**_DEMAND, **_STIMULUS}
    ),
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
        epilog="A test destroys everything on its target. Exit codes and files: docs/.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"snia-pts {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    add = partial(verbs.add_parser, allow_abbrev=False)
    _devices(add("devices", help="the drives of this host: what each is, and whether it may be tested"))
    _host(add("host", help="what of this host may change the numbers; puts back what a killed run left"))
    for name, test in TESTS.items():
        _test(add(name, aliases=test.aliases, help=test.help), name, test)
    _profile(add("profile", help="workloads beside the standard: a matrix of them, repeated, held against limits"))
    _all(add("all", help="IOPS, throughput, latency and write saturation, one after the other"))
    _assess(add("assess", help="judge a stored run again, without a device"))
    _report(add("report", help="make the report of a stored run again"))
    _compare(add("compare", help="hold stored runs of one test against each other"))
    _import(add("import", help="make a run of the result file of another tool: TKperf"))
    _export(add("export", help="write a stored run as a file of another tool: TKperf"))
    _resume(add("resume", help="go on with a run that was stopped, by whatever"))
    _stop(add("stop", help="let a run stop after its current point"))
    _status(add("status", help="where runs stand, from any terminal"))
    _raid(add("raid-estimate", help="what the disks of an array must do, and what it carries: arithmetic alone"))
    return parser


def _devices(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Lists every disk of this host, and every loop device in use: what it is, where it hangs, and whether a test "
        "would take it, or why not. Reads only. Run as root to be told all."
    )
    parser.set_defaults(verb=LazyVerb("devices", "devices"))
    parser.add_argument("--json", action="store_true", help="as JSON")


def _host(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows what of this host, and of the way to TARGET, may change what is measured: its value, what would be "
        "better, and why. Reads only, but for --restore."
    )
    parser.set_defaults(verb=LazyVerb("host", "host"))
    parser.add_argument("target", metavar="TARGET", type=_path, nargs="?", help="a drive that is to be tested")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--restore",
        metavar="RUN",
        type=_path,
        nargs="?",
        const=Path(),
        default=None,
        help="put back what killed runs left on this host, and what the run in the folder RUN left",
    )


def _test(parser: argparse.ArgumentParser, name: str, test: TestVerb) -> None:
    parser.description = "Runs the test on TARGET: a whole drive, or a file made for it. Everything on TARGET is lost."
    parser.set_defaults(verb=LazyVerb("run", "run_one"), test=name, set=[])
    _target(parser)
    standard = _standard(parser)
    standard.add_argument("--spec", metavar="FILE", type=_path, help="a specification file of your own")
    for option, key in test.shortcuts.items():
        metavar, says = _SHORTCUT_HELP[option]
        setting = partial("{}={}".format, key)
        standard.add_argument(
            option, metavar=metavar, dest="set", action="append", type=setting, help=f"{says} ({key})"
        )
    standard.add_argument("--set", metavar="KEY=VALUE", action="append", help="any number of specs/")
    _how(parser, "runs/<test>-<model or file>-<time>")
    _plan(parser)


def _all(parser: Parser) -> None:
    for name in BASIC:
        for option, key in TESTS[name].shortcuts.items():
            parser.keys_instead.setdefault(option, []).append(f"{name}.{key}")
    parser.description = "Runs the tests on TARGET, each with its own purge. Everything on TARGET is lost."
    parser.set_defaults(verb=LazyVerb("run", "run_all"), set=[], spec=None)
    parser.add_argument(
        "--advanced", action="store_true", help="host idle, cross stimulus, composite and demand intensity as well"
    )
    _target(parser)
    _standard(parser).add_argument(
        "--set",
        metavar="TEST.KEY=VALUE",
        action="append",
        help="any number of a test, for example iops.rounds.maximum=7",
    )
    _how(parser, "runs/all-<model or file>-<time>")
    _plan(parser)


def _profile(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Lists, shows and runs workload profiles: what is measured beside the standard (docs/profiles.rst)."
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    verbs.add_parser("list", help="the profiles that come with the suite").set_defaults(
        verb=LazyVerb("profile", "show_all")
    )
    show = verbs.add_parser("show", help="print one, to be copied and changed")
    show.add_argument("name", metavar="NAME", help="one of the list, or the path of a file of yours")
    show.set_defaults(verb=LazyVerb("profile", "show"))
    run = verbs.add_parser("run", help="run one on a drive, a file, or in a directory", allow_abbrev=False)
    run.description = "Runs a profile on TARGET. Everything on a drive or file is lost; in a directory a file is made."
    run.set_defaults(verb=LazyVerb("run", "run_profile"), pts="2.0.2", test_class="enterprise")
    run.add_argument("name", metavar="NAME", help="one of the list, or the path of a file of yours")
    _target(run)
    profile = run.add_argument_group("profile", "Every value that differs from the profile is told in the report.")
    profile.add_argument("--repeats", metavar="N", help="how often each point is measured")
    profile.add_argument("--seconds", metavar="S", help="the time of each workload that has one")
    profile.add_argument("--ramp-seconds", metavar="S", help="what such a workload does before it is counted")
    profile.add_argument("--range", metavar="SIZE", help="the most that a workload goes over")
    profile.add_argument(
        "--axis",
        metavar="KEY=V,V",
        action="append",
        default=[],
        help="go through these values, for example queue_depth=1,8 or host.scheduler=none,bfq",
    )
    _how(run, "runs/<profile>-<model or file>-<time>")
    _plan(run)


def _target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="TARGET", type=_path, help="a whole drive (/dev/nvme0n1), a file, sim:PRESET, or array:FILE"
    )
    target = parser.add_argument_group("target")
    target.add_argument("--size", metavar="SIZE", help="size of the file to make, for example 1G")
    target.add_argument("--overwrite", action="store_true", help="the file may be one that snia-pts did not make")
    target.add_argument(
        "--discard-data", action="store_true", help="the drive may hold file systems or partitions that nobody uses"
    )
    target.add_argument("--serial", metavar="S", help="confirm the drive by its serial number, without a prompt")
    target.add_argument(
        "--member-run", metavar="RUN", type=_path, help="of an array: an IOPS run of one of its drives, to predict from"
    )
    way = target.add_mutually_exclusive_group()
    way.add_argument("--purge", metavar="METHOD", default="auto", help="auto (default), none, or one of docs/purge.rst")
    way.add_argument("--purge-command", metavar="CMD", help="purge with the vendor's tool, as in 'tool erase {device}'")
    target.add_argument(
        "--allow-unpurged", action="store_true", help="go on after a purge that failed or is not proven: a Deviation"
    )
    target.add_argument(
        "--keep-write-cache", action="store_true", help="leave the drive's write cache as it is, as a Deviation"
    )


def _standard(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    standard = parser.add_argument_group("standard", "Every value that the standard does not allow is a Deviation.")
    standard.add_argument(
        "--class",
        dest="test_class",
        choices=("enterprise", "client"),
        default="enterprise",
        help="the class of drive that the standard has the test for: enterprise (default) or client",
    )
    standard.add_argument("--pts", metavar="VERSION", default="2.0.2", help="2.0.2 (default) or 1.1")
    return standard


def _how(parser: argparse.ArgumentParser, place: str) -> None:
    how = parser.add_argument_group("run")
    how.add_argument(
        "--engine",
        choices=("auto", "io_uring", "libaio"),
        default="auto",
        help="fio's I/O engine: io_uring, libaio, or auto (default), the first of them that works here",
    )
    how.add_argument("--tune", action="store_true", help="set the host for the run, and put it back (docs/host.rst)")
    how.add_argument("--refill-buffers", action="store_true", help="new random data for every write (costs the host)")
    how.add_argument("--stall-seconds", metavar="S", type=float, default=120.0, help="longest stall of a drive (120)")
    how.add_argument("--seed", metavar="N", help="of the random offsets (default: a new one, recorded)")
    how.add_argument("--run-dir", metavar="DIR", type=_path, help=f"default: {place}")
    _limits(how)
    _about(how)
    _to(how)
    how.add_argument("--operator", metavar="NAME", default="", help="who tests, for the report")
    _mail(how)
    _progress(how)


def _progress(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--progress",
        choices=("auto", "line", "log", "none"),
        default="auto",
        help="one line that is written over, a log of many, none, or auto (default): a line on a terminal, else a log",
    )


def _plan(parser: argparse.ArgumentParser) -> None:
    plan = parser.add_argument_group("plan")
    plan.add_argument("--plan", action="store_true", help="show steps, duration and bytes written; touch nothing")
    plan.add_argument("--assume", metavar="MB/S", help="for --plan: what the drive moves, not what its link could")
    plan.add_argument("--json", action="store_true", help="the plan as JSON")


def _assess(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Judges a stored run again from its journal, compares result.xml and all evidence with that, and prints the "
        "verdict, the determinations and the figures. Needs no device, and changes nothing."
    )
    parser.set_defaults(verb=LazyVerb("stored", "assess"))
    parser.add_argument("run", metavar="RUN", type=_path, help="the folder of a run, or of all")
    _limits(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def _report(parser: argparse.ArgumentParser) -> None:
    parser.description = "Makes result.xml and the report of a stored run again, from its journal. Needs no device."
    parser.set_defaults(verb=LazyVerb("stored", "report"))
    parser.add_argument("run", metavar="RUN", type=_path, help="the folder of a run, or of all")
    _limits(parser)
    _about(parser)
    _to(parser)


def _limits(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument("--limits", metavar="FILE", type=_path, help="what is asked of the numbers (docs/usage.rst)")


def _to(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--to",
        metavar="FORMATS",
        help="the report: rst,pdf,html,xlsx (default), csv,json,junit,ocp,interactive; or none",
    )


def _about(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--about", metavar="FILE", type=_path, help="operator, device, logo, notes: for the report (docs/usage.rst)"
    )


def _mail(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--mail-to", metavar="ADDRESS", action="append", help="mail at the end, whatever it is; as often as needed"
    )
    parser.add_argument("--mail-server", metavar="HOST[:PORT]", help="the server that takes it, unencrypted (port 25)")
    parser.add_argument("--mail", metavar="FILE", type=_path, help="server, user, recipients (docs/usage.rst)")


def _compare(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compares stored runs of one test: drives, firmwares, hosts, file systems. Tells what else is not the same. "
        "The first run is what the others are held against."
    )
    parser.set_defaults(verb=LazyVerb("compare", "compare"))
    parser.add_argument("runs", metavar="RUN", type=_path, nargs="+", help="the folders of two runs or more")
    parser.add_argument("--out", metavar="DIR", type=_path, help="write the comparison there, as RST, PDF and HTML")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _import(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Reads a result file of TKperf, of any version, and makes a run folder of each test in it. Steady state is "
        "judged again; what the file does not tell stays unknown. Touches no device."
    )
    parser.set_defaults(verb=LazyVerb("exchange", "import_file"))
    parser.add_argument("file", metavar="FILE", type=_path, help="the XML file that TKperf left")
    parser.add_argument(
        "--run-dir", metavar="DIR", type=_path, help="default: runs/<test>-<model>-<time>; of several runs/all-..."
    )
    _to(parser)


def _export(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Writes IOPS, latency, throughput and write saturation runs as a file that TKperf loads and plots. Tells what "
        "such a file cannot hold."
    )
    parser.set_defaults(verb=LazyVerb("exchange", "export"))
    parser.add_argument("run", metavar="RUN", type=_path, help="the folder of a run, or of all")
    parser.add_argument("--to", choices=("tkperf",), required=True, help="the tool")
    parser.add_argument(
        "--out", metavar="FILE", type=_path, help="a new file; default: <model>.xml in the folder of the run"
    )


def _resume(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Goes on with a stopped run, or with several tests. Rounds go on where they were, and only a window after the "
        "interruption counts; what the standard wants without a break begins again at the last purge."
    )
    parser.set_defaults(verb=LazyVerb("resume", "resume"), policy="rule")
    parser.add_argument("run", metavar="RUN", type=_path, help="the folder of a run, or of all")
    policies = parser.add_mutually_exclusive_group()
    policies.add_argument(
        "--continue",
        dest="policy",
        action="store_const",
        const="continue",
        help="go on with the step that was broken off, in any case; the report says so",
    )
    policies.add_argument(
        "--from-purge", dest="policy", action="store_const", const="purge", help="begin at the last purge"
    )
    parser.add_argument("--target", metavar="TARGET", type=_path, help="where the drive is now, if it has another name")
    parser.add_argument("--serial", metavar="S", help="confirm the drive by its serial number, without a prompt")
    parser.add_argument("--overwrite", action="store_true", help="the file may be one that snia-pts did not make")
    parser.add_argument("--discard-data", action="store_true", help="what was put on the drive meanwhile may be lost")
    parser.add_argument("--purge-command", metavar="CMD", help="the vendor's tool, if the run was begun with one")
    _mail(parser)
    _progress(parser)


def _stop(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Asks a run to end after its current point or sample, and does not wait for it. What was measured is kept; "
        "snia-pts resume RUN goes on with it."
    )
    parser.set_defaults(verb=LazyVerb("status", "stop"))
    parser.add_argument("run", metavar="RUN", type=_path, help="the folder of a run, or of all")


def _status(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Tells of each run whether it runs, is stopped or finished, at which step, and which command goes on with it. "
        "Reads only; needs no device."
    )
    parser.set_defaults(verb=LazyVerb("status", "status"))
    parser.add_argument("runs", metavar="RUN", type=_path, nargs="+", help="a run, a run of all, or a folder of runs")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _raid(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Works out what the disks of an array must do for what is asked of it, what it carries, and what fabric and "
        "disks move. Touches no device."
    )
    parser.set_defaults(verb=LazyVerb("raid", "raid_estimate"))
    parser.add_argument("--level", metavar="N", type=int, required=True, help="0, 1, 5, 6 or 10")
    parser.add_argument("--disks", metavar="N", type=int, required=True, help="how many")
    parser.add_argument("--iops", metavar="N", type=float, help="what is asked of the array")
    parser.add_argument("--read-percent", metavar="P", type=float, help="the share of reads in these IOPS")
    parser.add_argument(
        "--cache-hit-percent", metavar="P", type=float, default=0.0, help="the share of reads from the cache (0)"
    )
    parser.add_argument("--disk-iops", metavar="N", type=float, help="what a disk carries")
    parser.add_argument("--disk-mb-per-second", metavar="N", type=float, help="what a disk moves")
    parser.add_argument("--links", metavar="N", type=int, help="how many links, or lanes, lead to the array (1)")
    link = parser.add_mutually_exclusive_group()
    link.add_argument("--link-gbit", metavar="N", type=float, help="the speed of a link in Gb/s, 8 bits a byte")
    link.add_argument("--link", metavar="KIND", choices=LINKS, help=f"its kind: {', '.join(LINKS)}")
    parser.add_argument("--json", action="store_true", help="as JSON")
