"""The verbs ``lab`` and ``agent`` of the command line."""

from __future__ import annotations

from ..cli.argument_parser import AddVerb, LazyVerb, VerbParser, path
from ..cli.parser import add_notifications

_COMMANDS = "snia_pts.fleet.commands"


def add_agent(add: AddVerb) -> None:
    """Add the parser of ``agent``."""
    parser = add("agent", help="test the drives of this host for a lab")
    parser.description = (
        "Runs the tests that a lab requests of this host (docs/fleet.rst), until SIGTERM. Tests in progress go on when "
        "it ends; an agent that starts again attaches to them. Only the drives in FILE are tested: everything on them "
        "is destroyed."
    )
    parser.set_defaults(verb=LazyVerb("snia_pts.fleet.agent_commands:agent"))
    parser.add_argument("configuration", metavar="FILE", type=path, help="the configuration of the agent, in TOML")


def add_lab(add: AddVerb) -> None:
    """Add the parser of ``lab``."""
    parser = add("lab", help="test the drives of many hosts: one queue, one agent on each host")
    parser.description = (
        "Tests the drives of many hosts (docs/fleet.rst). The queue is a PostgreSQL database; on each host, snia-pts "
        "agent runs the tests."
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)

    def verb(name: str, text: str, function: str) -> VerbParser:
        added: VerbParser = verbs.add_parser(name, help=text, allow_abbrev=False)
        added.set_defaults(verb=LazyVerb(f"{_COMMANDS}:{function}"))
        return added

    verb("demo", "show a lab with simulated drives whose agent and database are killed (a minute or two)", "demo")
    up = verb("up", "make and start a PostgreSQL server for a lab of this machine, and print its URL", "up")
    down = verb("down", "stop the server of lab up; tests in progress go on", "down")
    for parser in (up, down):
        parser.add_argument("folder", metavar="DIR", type=path, help="the folder of the server, for example lab")
    _add_database(verb("init", "make or upgrade the tables and roles of a lab in an empty database", "init"))
    host = verbs.add_parser("host", help="add a host").add_subparsers(title="verbs", metavar="VERB", required=True)
    adding = host.add_parser("add", help="add a host and the role of its agent", allow_abbrev=False)
    adding.set_defaults(verb=LazyVerb(f"{_COMMANDS}:add_host"))
    adding.add_argument("name", metavar="NAME", help="letters a to z, digits, - and _; the role is agent_NAME")
    adding.add_argument(
        "--password-file",
        metavar="FILE",
        type=path,
        help="give the role a password, and write a line for ~/.pgpass with it into this new file",
    )
    _add_database(adding)
    _add_submit(verb("submit", "request a test on a drive, or all tests of a campaign file", "submit"))
    collect = verb("collect", "receive the results of all hosts, and add them to a store", "collect_results")
    collect.add_argument("--runs", metavar="DIR", type=path, required=True, help="the folder for the run folders")
    collect.add_argument(
        "--store",
        metavar="URL",
        help="the store of results (docs/store.rst); default: $SNIA_PTS_STORE, runs/store.sqlite",
    )
    add_notifications(collect)
    _add_database(collect, json=True)
    for name, text in {
        "queue": "list the runs that wait or are in progress, in their order on each drive",
        "drives": "list the drives, with their state and health",
        "runs": "list all runs, with their verdicts",
    }.items():
        _add_database(verb(name, text, f"show_{name}"), json=True)
    hosts = verb("hosts", "list the hosts, or change whether one starts runs", "show_hosts")
    change = hosts.add_mutually_exclusive_group()
    change.add_argument("--maintenance", metavar="NAME", help="let this host start nothing new")
    change.add_argument("--end-maintenance", metavar="NAME", help="let this host start runs again")
    _add_database(hosts, json=True)
    stop = verb("stop", "stop a run after its current point, or cancel it if it waits", "stop")
    stop.add_argument("--now", action="store_true", help="stop it at once; the current point is lost")
    resume = verb("resume", "resume a run that stopped, failed or is lost", "resume")
    resume.add_argument("--from-purge", action="store_true", help="start again at the last purge")
    log = verb("logs", "print what happened to a run, and what it printed", "show_log")
    log.add_argument("--follow", action="store_true", help="go on until the run ends")
    for parser in (stop, resume, log):
        parser.add_argument("run", metavar="RUN", help="the number of the run, or its first digits")
        _add_database(parser)
    hold = verb("hold", "start nothing new on a drive; a run in progress goes on", "hold")
    hold.add_argument("--reason", metavar="TEXT", default="by a person", help="shown with the drive")
    release = verb("release", "end a hold, bad health, or a retirement of a drive", "release")
    retire = verb("retire", "start nothing new on a drive, and accept no requests for it", "retire")
    for parser in (hold, release, retire):
        parser.add_argument("serial", metavar="DRIVE", help="the serial number of the drive")
        _add_database(parser)


def _add_submit(parser: VerbParser) -> None:
    parser.add_argument(
        "campaign", metavar="CAMPAIGN", nargs="?", type=path, help="a TOML file with drives and tests (docs/fleet.rst)"
    )
    parser.add_argument("--yes", action="store_true", help="submit the campaign without a question")
    parser.add_argument("--serial", metavar="S/N", help="one test: the serial number of the drive")
    parser.add_argument("--test", metavar="NAME", help="one test: iops, throughput, ..., or all")
    parser.add_argument(
        "--class",
        dest="test_class",
        choices=("enterprise", "client"),
        default="enterprise",
        help="class of the drive: enterprise (default) or client",
    )
    parser.add_argument("--pts", metavar="VERSION", default="2.0.2", help="2.0.2 (default) or 1.1")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="set any value of the specification (specs/)"
    )
    parser.add_argument("--purge", metavar="METHOD", default="auto", help="a method that the host allows")
    parser.add_argument(
        "--limits", metavar="FILE", type=path, help="limits that the results must meet (docs/limits.rst)"
    )
    parser.add_argument("--to", metavar="FORMATS", help="report formats, or none; default: rst,pdf,html,xlsx")
    parser.add_argument(
        "--on-lost",
        choices=("resume", "hold", "from-purge"),
        default="resume",
        help="what to do if the process of the run is gone, for example after a power failure (docs/fleet.rst)",
    )
    parser.add_argument("--label", metavar="NAME=VALUE", action="append", default=[], help="say this of the run")
    parser.add_argument(
        "--priority", metavar="N", type=int, default=0, help="-100 to 100; a higher one starts first (0)"
    )
    _add_database(parser, json=True)


def _add_database(parser: VerbParser, *, json: bool = False) -> None:
    parser.add_argument("--database", metavar="URL", help="postgresql://USER@HOST/NAME; default: $SNIA_PTS_LAB")
    if json:
        parser.add_argument("--json", action="store_true", help="as JSON")
