"""The verbs of ``store``: add runs, list them, show one."""

from __future__ import annotations

import argparse
import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from ..api.run import run_paths
from ..api.tables import Table, one_of
from ..cli.options import labels_of
from ..cli.text.formatting import json_text
from ..cli.text.formatting import table as text_table
from ..cli.text.lines import print_lines, say
from ..errors import RecordError, RegressionFound, RegressionUnknown, RunFolderError
from ..report.formats.csv_json import as_csv
from ..report.pages import Report
from ..report.writing import html_page, replace_files
from ..results.tables import DataTable
from ..text import printable
from ..units import number
from .database import DEFAULT, failures_named, require_recordable, shown
from .ingestion import in_order
from .pages import spread_report, trend_report
from .regression_rule import NO_BASIS
from .store import Filter, Store

_REGRESSION = ("run", "started", "model", "firmware", "metric", "at", "value", "median", "change_percent", "finding")
#: Columns of the key figures that are equal for all figures of a run.
_FACTS = ("run", "started", "model", "serial", "firmware")
_LISTED = ("id", "started", "test", "model", "serial", "firmware", "verdict")


def add(arguments: argparse.Namespace) -> int:
    """Add runs; a run that is refused does not keep the others out.  The exit code is then that of RecordError."""
    labels = labels_of(arguments.label)
    paths = in_order(run for path in arguments.runs for run in run_paths(path))
    with Store(_url(arguments), create=True) as store:
        changes, refused = _add(store, paths, labels)
    if arguments.json:
        print(json_text({"format": 1, **_counts(changes), "refused": refused}))
    else:
        counts = {**_counts(changes), "refused": len(refused)}
        print_lines([", ".join(f"{count} {change}" for change, count in counts.items())])
    return RecordError.exit_code if refused else 0


def storing_in(url: str) -> Callable[[Path], str]:
    """Return a function that adds the runs in a folder to a store, and says what changed.

    Raises UsageError for an invalid URL; the function raises StoreError and RecordError.
    """
    require_recordable(url)

    def store_runs(path: Path) -> str:
        with Store(url, create=True) as store:
            changes, _ = _add(store, in_order(run_paths(path)), {})
        return ", ".join([shown(url), *(f"{count} {change}" for change, count in changes.items())])

    return store_runs


def _add(store: Store, paths: Iterable[Path], labels: Mapping[str, str]) -> tuple[Counter[str], list[str]]:
    """Add runs; return how many changed in which way, and the paths of those that were refused, with a notice each."""
    changes, refused = Counter[str](), []
    for path in paths:
        try:
            changes[store.add(path, labels)] += 1
        except RecordError as error:
            refused.append(str(path))
            say(f"{error} {error.full_hint}".strip())
    return changes, refused


def _counts(changes: Mapping[str, int]) -> dict[str, int]:
    return {change: changes.get(change, 0) for change in ("added", "replaced", "unchanged")}


def show_runs(arguments: argparse.Namespace) -> int:
    """List the runs that match the filters, the newest first."""
    with Store(_url(arguments)) as store:
        found = store.runs(_filter(arguments))
    if arguments.json:
        print(json_text(_records(found)))
    elif len(found):
        print_lines(_text(found, _LISTED))
    else:
        say("the store has no such run")
    return 0


def show_drives(arguments: argparse.Namespace) -> int:
    """List the drives: models, serial numbers and firmwares."""
    with Store(_url(arguments)) as store:
        return _print(store.drives(_filter(arguments)), arguments)


def rebuild(arguments: argparse.Namespace) -> int:
    """Make the rows of all runs again; the exit code is that of RecordError if a run could not be read."""
    refused: list[str] = []

    def refuse(path: Path, error: RecordError) -> None:
        refused.append(str(path))
        say(f"{error} {error.full_hint}".strip())

    with Store(_url(arguments), create=True) as store:
        rebuilt = store.rebuild(refuse)
    if arguments.json:
        print(json_text({"format": 1, "rebuilt": rebuilt, "refused": refused}))
    else:
        print_lines([f"{rebuilt} rebuilt, {len(refused)} refused"])
    return RecordError.exit_code if refused else 0


def archive(arguments: argparse.Namespace) -> int:
    """Pack finished runs; the exit code is that of RecordError if one could not be packed, or not be removed."""
    refused: list[str] = []
    with Store(_url(arguments)) as store:
        found = [run for run in _records(store.runs(_filter(arguments))) if run["ending"] == "finished"]
        for run in found:
            try:
                packed = store.archive(int(str(run["id"])), arguments.to, remove=arguments.remove)
            except (RecordError, RunFolderError) as error:
                refused.append(str(run["folder"] or run["archive"]))
                say(f"{error} {error.full_hint}".strip())
            else:
                if not arguments.json:
                    print_lines([str(packed)])
    if arguments.json:
        print(json_text({"format": 1, "archived": len(found) - len(refused), "refused": refused}))
    return RecordError.exit_code if refused else 0


def run_sql(arguments: argparse.Namespace) -> int:
    """Print the result of a SELECT statement."""
    with Store(_url(arguments)) as store:
        return _print(store.sql(arguments.statement), arguments)


def export(arguments: argparse.Namespace) -> int:
    """Write all tables of the runs that match the filters into a folder."""
    formats = arguments.to.split(",")
    for name in formats:
        one_of(name, tuple(_FORMATS), "format")
    with Store(_url(arguments)) as store:
        tables = store.tables(_filter(arguments))
    files = {f"{name}.{suffix}": _FORMATS[suffix](table) for suffix in formats for name, table in tables.items()}
    replace_files(arguments.out, files, new=True)
    print_lines(str(arguments.out / name) for name in files)
    return 0


def _csv(table: Table) -> bytes:
    rows = tuple(zip(*table.columns.values(), strict=True))
    return as_csv(DataTable(name=table.name, title=table.title, fields=tuple(table.columns), rows=rows))


def _parquet(table: Table) -> bytes:
    arrow, content = table.to_arrow(), io.BytesIO()
    parquet = import_module("pyarrow.parquet")  # after to_arrow, which names the extra
    parquet.write_table(arrow, content)
    return content.getvalue()


_FORMATS: Mapping[str, Callable[[Table], bytes]] = {"csv": _csv, "parquet": _parquet}


def _print(found: Table, arguments: argparse.Namespace) -> int:
    if arguments.json:
        print(json_text(_records(found)))
    else:
        print_lines(_text(found, tuple(found.columns)))
    return 0


def show_trend(arguments: argparse.Namespace) -> int:
    """Show a metric over groups of runs."""
    where = _filter(arguments)
    with Store(_url(arguments)) as store:
        found = store.trend(arguments.metric, at=arguments.at, by=arguments.by, where=where)
        if arguments.out:
            values = store.trend_values(arguments.metric, at=arguments.at, by=arguments.by, where=where)
            _write_page("trend", trend_report, values, arguments)
    return _show(found, arguments)


def show_spread(arguments: argparse.Namespace) -> int:
    """Show the spread of metrics over the units of a model."""
    where = _filter(arguments)
    with Store(_url(arguments)) as store:
        found = store.spread(arguments.of_model, metric=arguments.metric, where=where)
        if arguments.out:
            values = store.spread_values(arguments.of_model, metric=arguments.metric, where=where)
            _write_page("spread", spread_report, values, arguments)
    return _show(found, arguments)


def _write_page(name: str, report: Callable[[Table], Report], values: Table, arguments: argparse.Namespace) -> None:
    """Write an HTML page into the folder ``--out``; the page of an earlier call is replaced."""
    with failures_named(_url(arguments)):
        page = html_page(report(values))
    hint = f"The store is safe; give snia-pts store {name} another folder."
    replace_files(arguments.out, {f"{name}.html": page}, hint=hint)


def show_regressions(arguments: argparse.Namespace) -> int:
    """Show the key figures that regressed or improved; raises RegressionFound, or RegressionUnknown without a basis."""
    with Store(_url(arguments)) as store:
        found = _records(store.regressions(_filter(arguments)))
    counts = Counter(record["finding"] or NO_BASIS for record in found)
    if arguments.json:
        print(json_text(found))
    else:
        changes = [record for record in found if record["finding"] in ("regression", "improvement")]
        if changes:
            rows = [[printable(_cell(record[name])) for name in _REGRESSION] for record in changes]
            print_lines(text_table(_REGRESSION, rows))
        findings = ("regression", "improvement", "unchanged", NO_BASIS)
        print_lines([", ".join(f"{finding}: {counts[finding]}" for finding in findings)])
    if counts["regression"]:
        raise RegressionFound(regressions=counts["regression"], total=counts.total())
    if counts[NO_BASIS] or not counts:
        raise RegressionUnknown(unknown=counts[NO_BASIS], total=counts.total())
    return 0


def _show(found: Table, arguments: argparse.Namespace) -> int:
    _print(found, arguments)
    if not arguments.json and max(map(int, found["specifications"]), default=1) > 1:
        say("the runs have different specifications of the test; --like ID takes those with that of one run")
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Show the facts, determinations, deviations, warnings, limits and key figures of a run."""
    with Store(_url(arguments)) as store:
        tables = store.run(arguments.run)
    if arguments.json:
        print(json_text({name: _records(table) for name, table in tables.items()}))
        return 0
    (facts,) = _records(tables["run"])
    print_lines(printable(f"{name}: {_cell(value)}") for name, value in facts.items() if value not in ("", None))
    for name, table in tables.items():
        if name != "run" and len(table):
            columns = tuple(column for column in table.columns if column not in _FACTS)
            print_lines(("", table.title, *_text(table, columns)))
    return 0


def _url(arguments: argparse.Namespace) -> str:
    return str(arguments.store or os.environ.get("SNIA_PTS_STORE") or DEFAULT)


def _filter(arguments: argparse.Namespace) -> Filter:
    names = ("test", "model", "serial", "firmware", "host", "since", "before", "like")
    values = {name: getattr(arguments, name) for name in names}
    return Filter(number=getattr(arguments, "number", None), **values, labels=labels_of(arguments.label))


def _records(table: Table) -> list[dict[str, object]]:
    """Return the rows of a table; binary values, which only a file that was changed has, are hexadecimal digits."""
    rows = zip(*table.columns.values(), strict=True)
    return [
        {
            name: value.hex() if isinstance(value, bytes) else value
            for name, value in zip(table.columns, row, strict=True)
        }
        for row in rows
    ]


def _text(table: Table, columns: Sequence[str]) -> Iterable[str]:
    rows = zip(*(table.columns[column] for column in columns), strict=True)
    return text_table(columns, [[printable(_cell(value)) for value in row] for row in rows])


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, float) else "-" if value in ("", None) else str(value)
