"""The verbs of ``lab``."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from ..cli.options import formats_of, labels_of
from ..cli.text.formatting import json_text
from ..cli.text.terminal import print_lines, say
from ..errors import HostFailed, UsageError
from ..files import create
from ..spec.limits import read_limits
from ..text import printable
from ..units import duration
from .connection import connection_parameters
from .operations import Lab
from .request import RunRequest, parse_request

_RUN_DIGITS = 8
_GAP = "  "
#: The text of a cell in each column of a table, of a row of the lab.
_Columns = Mapping[str, Callable[[Mapping[str, Any]], str]]


def init(arguments: argparse.Namespace) -> int:
    """Make or upgrade the tables."""
    with Lab(_url(arguments), create=True) as lab:
        say(f"{lab.name} is ready; snia-pts lab host add NAME adds a host")
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
    """Request a test on a drive."""
    with Lab(_url(arguments)) as lab:
        drives = {drive["serial"]: drive for drive in lab.drives()}
        request = _request(arguments, str(drives.get(arguments.serial, {}).get("model", "unknown")))
        host = lab.submit([request], priority=arguments.priority)[0]
    if arguments.json:
        print(json_text({"format": 1, "run_id": str(request.run_id), "host": host}))
    else:
        print_lines([f"{request.run_id} is in the queue of {host}"])
    return 0


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
        "result": lambda run: run["verdict"] or run["message"],
    }
    return _show(arguments, runs, columns, "the lab has no runs")


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
        "last call": lambda host: "never" if host["seconds_ago"] is None else f"{duration(host['seconds_ago'])} ago",
    }
    return _show(arguments, hosts, columns, "the lab has no hosts; snia-pts lab host add NAME adds one")


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
