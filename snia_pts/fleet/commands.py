"""The verbs of ``lab``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from ..cli.notifications.config import load_mail_config
from ..cli.notifications.webhook import load_webhook_config
from ..cli.options import formats_of, labels_of
from ..cli.text.formatting import json_text, table
from ..cli.text.lines import print_lines, say, say_all
from ..cli.text.plan import exclusions
from ..cli.text.terminal import answer
from ..errors import HostFailed, LabError, RecordError, UsageError
from ..files import create, shell_quoted
from ..runner.signals import stopped_by_signals
from ..spec.limits import read_limits
from ..store.database import DEFAULT
from ..text import printable
from ..units import capacity, counted, duration
from .campaign import CampaignPlan, plan_campaign, plans_of
from .collect import Awaited, awaited, collect
from .connection import connection_parameters
from .demo import run_demo
from .drive_facts import parse_facts
from .live_values import parse_live_values
from .messages import message_senders
from .notifications import notify
from .operations import Lab, LogEntry, reason_of
from .private_server import PrivateServer
from .request import RunRequest, parse_request

_RUN_DIGITS = 8
#: So many runs whose results are not received yet are listed.
_MAX_AWAITED = 10
_FOLLOW_SECONDS = 1.0
_MAX_REASON_LENGTH = 200
_GAP = "  "
#: The text of a cell in each column of a table, of a row of the lab.
_Columns = Mapping[str, Callable[[Mapping[str, Any]], str]]


def init(arguments: argparse.Namespace) -> int:
    """Make or upgrade the tables."""
    with Lab(_url(arguments), create=True) as lab:
        say(f"{lab.name} is ready; snia-pts lab host add NAME adds a host")
    return 0


def up(arguments: argparse.Namespace) -> int:
    """Start the server of a lab in a folder, make it if the folder is new, and print what a shell evaluates."""
    server = PrivateServer.at(arguments.folder)
    if not server.exists:
        server.create()
    if not server.is_running:
        server.start()
    server.create_database()
    with Lab(server.url(), create=True):
        say(f"PostgreSQL runs in {server.folder}; snia-pts lab down {shell_quoted(server.folder)} stops it")
        agent = f'database = "{server.url(role="agent_NAME")}"'
        say(f"snia-pts lab host add NAME adds a host; in its agent.toml: {agent}")
    print_lines([f"export SNIA_PTS_LAB='{server.url()}'"])
    return 0


def down(arguments: argparse.Namespace) -> int:
    """Stop the server of a lab; its data stay."""
    server = PrivateServer.at(arguments.folder)
    server.stop()
    say(f"the server in {server.folder} is stopped; tests go on; snia-pts lab up starts it again")
    return 0


def demo(_arguments: argparse.Namespace) -> int:
    """Show a lab that loses its agent and its database."""
    began = time.monotonic()

    def tell(sentence: str) -> None:
        print_lines([f"{time.monotonic() - began:6.1f} s  {sentence}"])
        sys.stdout.flush()

    with stopped_by_signals():
        runs = run_demo(tell)
    columns = ("drive", "host", "test", "state", "starts", "in the store")
    rows = (
        (run.serial, run.host, run.test, run.state, str(run.starts), "yes" if run.is_stored else "no") for run in runs
    )
    print_lines(["", *table(columns, rows), ""])
    wrong = [run for run in runs if not run.passed]
    if wrong:
        reason = f"{counted(len(wrong), 'test')} of the demo did not finish after one start, with a stored result"
        raise LabError(url="of the demo", reason=reason, hint="This is a defect: report the table above.")
    tell(f"All {len(runs)} tests were started once; nothing is lost.")
    return 0


def add_host(arguments: argparse.Namespace) -> int:
    """Add a host, and write the password of its role into a file."""
    url, path = _url(arguments), arguments.password_file
    with Lab(url) as lab:
        if path is None:
            lab.add_host(arguments.name)
        else:
            try:
                with create(path) as file:
                    os.fchmod(file.fileno(), 0o600)
                    secret = lab.add_host(arguments.name, password=True)
                    database = connection_parameters(url).get("dbname", "*")
                    file.write(f"*:*:{database}:agent_{arguments.name}:{secret}\n".encode())
            except OSError as error:
                raise HostFailed(step="creation of a file", what=path, reason=error.strerror or str(error)) from None
        say(f"{arguments.name} is added; its agent logs in as agent_{arguments.name}")
    return 0


def submit(arguments: argparse.Namespace) -> int:
    """Request a test on a drive, or those of a campaign file."""
    if arguments.campaign is not None:
        return _submit_campaign(arguments)
    if not arguments.serial or not arguments.test:
        detail = "lab submit: expected a campaign file, or --serial and --test."
        raise UsageError(detail=detail, hint="docs/fleet.rst describes campaign files.")
    with Lab(_url(arguments)) as lab:
        drives = {drive["serial"]: drive for drive in lab.drives()}
        drive = drives.get(arguments.serial, {})
        request = _request(arguments, str(drive.get("model", "unknown")))
        plans_of(request.test, request.options, request.model, parse_facts(drive.get("facts")))  # refuses as the run
        host = lab.submit([request], priority=arguments.priority)[0]
    if arguments.json:
        print(json_text({"format": 1, "run_id": str(request.run_id), "host": host}))
    else:
        print_lines([f"{request.run_id} is in the queue of {host}"])
    return 0


def _submit_campaign(arguments: argparse.Namespace) -> int:
    """Print the plan of a campaign; submit it if the operator agrees.  A plan alone ends with exit code 0, too."""
    if arguments.serial or arguments.test:
        detail = "--serial and --test do not go with a campaign file."
        raise UsageError(detail=detail, hint="Give one or the other.")
    with Lab(_url(arguments)) as lab:
        plan = plan_campaign(arguments.campaign, *lab.campaign_drives())
        if not arguments.json:
            print_lines(_plan_lines(plan))
        runs = counted(len(plan.runs), "run")
        agreed = arguments.yes or (not arguments.json and answer(f"Type yes to submit {runs}: ") == "yes")
        if agreed:
            lab.submit(
                [run.request for run in plan.runs],
                priority=plan.campaign.priority,
                campaign=plan.campaign.name,
                health_checks={run.request.run_id for run in plan.runs if run.is_health_check},
            )
    if arguments.json:
        print(json_text({**_plan_json(plan), "submitted": agreed}))
    else:
        say(f"{runs} submitted" if agreed else "nothing was submitted; --yes submits it")
    return 0


def _plan_lines(plan: CampaignPlan) -> Iterator[str]:
    """Yield the plan of a campaign: a row for each drive, one for each host, and the end."""
    tests, now = [test for run in plan.runs for test in run.plans], datetime.now().astimezone()
    hosts = counted(len(plan.hosts), "host")
    yield f"{plan.campaign.name}: {counted(len(plan.runs), 'run')} on {counted(len(plan.drives), 'drive')} of {hosts}"
    yield ""
    yield from table(
        ("drive", "host", "queued", "runs", "least", "greatest", "writes at least", "at most"),
        (
            (
                drive.drive.serial,
                drive.drive.host,
                str(drive.before or "-"),
                str(drive.runs),
                duration(drive.cost.least_seconds),
                duration(drive.cost.greatest_seconds),
                capacity(drive.cost.least_bytes),
                capacity(drive.cost.greatest_bytes),
            )
            for drive in plan.drives
        ),
    )
    yield ""
    yield from table(
        ("host", "drives", "runs", "side by side", "ends in at least", "at most", "at the latest on"),
        (
            (
                host.host,
                str(host.drives),
                str(host.runs),
                str(host.side_by_side.count),
                duration(host.least_seconds),
                duration(host.greatest_seconds),
                f"{now + timedelta(seconds=host.greatest_seconds):%Y-%m-%d %H:%M}",
            )
            for host in plan.hosts
        ),
    )
    yield "  (with the runs that are queued)"
    yield from _reasons((host.host, host.side_by_side.reason) for host in plan.hosts)
    missing = next((text for test in tests if (text := exclusions(test))), "")
    if missing:
        yield f"  not counted: the time for {missing.removeprefix(' besides ')}"
    if any(drive.cost.open_ended for drive in plan.drives):
        yield "  some steps end after an amount of data, so that a slow drive takes longer"


def _plan_json(plan: CampaignPlan) -> dict[str, Any]:
    """Return the plan of a campaign in the JSON form of docs/fleet.rst."""
    now = datetime.now().astimezone()
    return {
        "format": 1,
        "campaign": plan.campaign.name,
        "drives": [
            {
                "serial": item.drive.serial,
                "model": item.drive.model,
                "host": item.drive.host,
                "queued": item.before,
                "runs": item.runs,
                **asdict(item.cost),
            }
            for item in plan.drives
        ],
        "hosts": [
            {
                **asdict(host),
                "side_by_side": host.side_by_side.count,
                "side_by_side_reason": host.side_by_side.reason,
                "finish": (now + timedelta(seconds=host.greatest_seconds)).isoformat(timespec="seconds"),
            }
            for host in plan.hosts
        ],
        "runs": [
            {
                "run_id": str(run.request.run_id),
                "serial": run.request.serial,
                "test": run.request.test,
                "health_check": run.is_health_check,
            }
            for run in plan.runs
        ],
    }


def collect_results(arguments: argparse.Namespace) -> int:
    """Send messages about runs and drives, then receive results and store them.

    The exit code is that of RecordError if some are not in the store; a failure to send a message is one line.  What a
    host still has to send is a line, too.
    """
    store = arguments.store or os.environ.get("SNIA_PTS_STORE") or DEFAULT
    senders = message_senders(load_mail_config(arguments), load_webhook_config(arguments))
    for channel, reason in notify(_url(arguments), senders):
        text = printable(reason)[:_MAX_REASON_LENGTH]
        say(f"A message was not sent ({channel}): {text}. The next call sends it again.")
    results = []
    for result in collect(_url(arguments), arguments.runs, str(store)):
        results.append(result)
        if not arguments.json:
            cells = (_number(result.run_id), result.host, result.serial, result.test, result.outcome)
            reason = f": {result.message}" if result.message else ""
            print_lines([printable(f"{_GAP.join(cells)}{reason}")])
    if arguments.json:
        rows = [{**asdict(result), "folder": str(result.folder)} for result in results]
        print(json_text([{name: _json(value) for name, value in row.items()} for row in rows]))
    else:
        waiting = awaited(_url(arguments))
        say_all(_awaited_lines(waiting))
        if not results and not waiting:
            say("no results wait")
    return RecordError.exit_code if any(result.outcome in ("kept", "refused") for result in results) else 0


def _awaited_lines(runs: Sequence[Awaited]) -> Iterator[str]:
    """Yield what each host still has to send, for the first runs."""
    for run in runs[:_MAX_AWAITED]:
        results = f"the results of run {_number(run.run_id)}"
        sent = f", {capacity(run.sent_bytes)} so far" if run.sent_bytes else ""
        if run.silent:
            yield f"{run.host} is silent, and has not sent {results} yet{sent}"
        else:
            yield f"{run.host} is still sending {results}{sent}"
    if len(runs) > _MAX_AWAITED:
        yield f"the results of {counted(len(runs) - _MAX_AWAITED, 'further run')} are not sent yet"


def show_queue(arguments: argparse.Namespace) -> int:
    """List the unfinished runs."""
    with Lab(_url(arguments)) as lab:
        runs = lab.queue()
    columns: _Columns = {
        "run": lambda run: _number(run["run_id"]),
        "host": lambda run: run["host"],
        "drive": lambda run: run["serial"],
        "test": lambda run: run["test"],
        "state": lambda run: "stopping" if run["stop"] else run["state"],
        "waits for": lambda run: run["waits_for"],
    }
    return _show(arguments, runs, columns, "the queue is empty")


def show_runs(arguments: argparse.Namespace) -> int:
    """List all runs."""
    with Lab(_url(arguments)) as lab:
        runs = lab.runs()
    columns: _Columns = {
        "run": lambda run: _number(run["run_id"]),
        "host": lambda run: run["host"],
        "drive": lambda run: run["serial"],
        "test": lambda run: run["test"],
        "state": lambda run: run["state"],
        "result": lambda run: run["verdict"] or reason_of(run) or _position(run),
    }
    return _show(arguments, runs, columns, "the lab has no runs")


def _position(run: Mapping[str, Any]) -> str:
    """Return what a run in progress does now; empty if its agent has not reported that."""
    live = parse_live_values(run["live"])
    return live.state.position if live else ""


def show_drives(arguments: argparse.Namespace) -> int:
    """List the drives."""
    with Lab(_url(arguments)) as lab:
        drives = lab.drives()
    columns: _Columns = {
        "drive": lambda drive: drive["serial"],
        "host": lambda drive: drive["claimed_by_host"] or "-",
        "state": lambda drive: drive["state"],
        "health": lambda drive: drive["health"],
        "queued": lambda drive: str(drive["queued"]),
        "waits for": lambda drive: drive["waits_for"],
        "model": lambda drive: drive["model"],
    }
    return _show(arguments, drives, columns, "no agent has reported a drive")


def show_hosts(arguments: argparse.Namespace) -> int:
    """List the hosts, after a change of the maintenance of one."""
    with Lab(_url(arguments)) as lab:
        if name := arguments.maintenance or arguments.end_maintenance:
            lab.set_maintenance(name, on=bool(arguments.maintenance))
        hosts = lab.hosts()
    columns: _Columns = {
        "host": lambda host: host["name"],
        "state": lambda host: host["state"],
        "drives": lambda host: str(host["drives"]),
        "version": lambda host: host["version"] or "-",
        "side by side": lambda host: str(host["side_by_side"]),
        "last call": lambda host: "never" if host["seconds_ago"] is None else f"{duration(host['seconds_ago'])} ago",
    }
    code = _show(arguments, hosts, columns, "the lab has no hosts; snia-pts lab host add NAME adds one")
    if not arguments.json:
        print_lines(_reasons((host["name"], host["side_by_side_reason"]) for host in hosts))
    return code


def _reasons(hosts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield why each host tests no more drives side by side."""
    for name, reason in hosts:
        if reason:
            yield printable(f"  {name}: {reason}")


def show_log(arguments: argparse.Namespace) -> int:
    """Print what happened to a run and what it printed, and go on with that until it ends if wanted."""
    with Lab(_url(arguments)) as lab:
        for entries in lab.follow(arguments.run):
            for entry in entries:
                print_lines(_log_lines(entry))
            sys.stdout.flush()
            if not arguments.follow:
                break
            time.sleep(_FOLLOW_SECONDS)
    return 0


def _log_lines(entry: LogEntry) -> Iterator[str]:
    """Yield the line of an event, or the lines that a run printed, indented."""
    if entry.event:
        message = f": {entry.text}" if entry.text else ""
        yield printable(f"{entry.at.astimezone():%Y-%m-%d %H:%M:%S}  {entry.event}{message}")
        return
    for line in entry.text.splitlines():
        yield printable(f"  {line}")


def stop(arguments: argparse.Namespace) -> int:
    """Stop or cancel a run."""
    with Lab(_url(arguments)) as lab:
        say(f"{arguments.run}: {lab.stop(arguments.run, at_once=arguments.now)}")
    return 0


def resume(arguments: argparse.Namespace) -> int:
    """Resume a run."""
    with Lab(_url(arguments)) as lab:
        say(f"{arguments.run}: in the queue of {lab.resume(arguments.run, from_purge=arguments.from_purge)}")
    return 0


def hold(arguments: argparse.Namespace) -> int:
    """Hold a drive."""
    with Lab(_url(arguments)) as lab:
        lab.hold(arguments.serial, arguments.reason)
    return 0


def release(arguments: argparse.Namespace) -> int:
    """Release a drive."""
    with Lab(_url(arguments)) as lab:
        lab.release(arguments.serial)
    return 0


def retire(arguments: argparse.Namespace) -> int:
    """Retire a drive."""
    with Lab(_url(arguments)) as lab:
        lab.retire(arguments.serial)
    return 0


def _show(arguments: argparse.Namespace, rows: Sequence[Mapping[str, Any]], columns: _Columns, nothing: str) -> int:
    """Print rows of the lab, as a table or as JSON."""
    if arguments.json:
        print(json_text([{name: _json(value) for name, value in row.items()} for row in rows]))
    elif rows:
        print_lines(_table(rows, columns))
    else:
        say(nothing)
    return 0


def _table(rows: Sequence[Mapping[str, Any]], columns: _Columns) -> Iterator[str]:
    """Yield the lines of a table without the columns that are empty in each row; only the last one may be long."""
    cells = [{name: printable(cell(row)) for name, cell in columns.items()} for row in rows]
    shown = [name for name in columns if any(row[name] for row in cells)]
    widths = {name: max(len(name), *(len(row[name]) for row in cells)) for name in shown}
    for line in ({name: name for name in shown}, *cells):
        yield _GAP.join(f"{line[name]:{widths[name]}}" for name in shown).rstrip()


def _number(run_id: UUID) -> str:
    """Return the first digits of the number of a run, which distinguish it."""
    return str(run_id)[:_RUN_DIGITS]


def _json(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def _request(arguments: argparse.Namespace, model: str) -> RunRequest:
    """Return the request of the options; raises SpecError with all mistakes."""
    options: dict[str, Any] = {
        "test_class": arguments.test_class,
        "pts": arguments.pts,
        "overrides": arguments.set,
        "purge": arguments.purge,
        "formats": formats_of(arguments),
    }
    document = {
        "run_id": str(uuid4()),
        "serial": arguments.serial,
        "model": model,
        "test": arguments.test,
        "on_lost": arguments.on_lost,
        "options": options,
        "labels": labels_of(arguments.label),
    }
    request = parse_request(json.dumps(document))
    limits = read_limits(arguments.limits) if arguments.limits else ()
    return replace(request, options=replace(request.options, limits=limits))


def _url(arguments: argparse.Namespace) -> str:
    url = arguments.database or os.environ.get("SNIA_PTS_LAB")
    if not url:
        hint = "Give --database postgresql://USER@HOST/NAME, or set SNIA_PTS_LAB."
        raise UsageError(detail="The database of the lab is not known.", hint=hint)
    return str(url)
