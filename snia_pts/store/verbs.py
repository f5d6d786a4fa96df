"""The verb ``store`` of the command line."""

from __future__ import annotations

from ..cli.argument_parser import AddVerb, LazyVerb, VerbParser, path

_COMMANDS = "snia_pts.store.commands"
_FILTERS = {
    "--test": ("NAME", "runs of this test: iops, throughput, ..."),
    "--model": ("MODEL", "runs on drives of this model"),
    "--serial": ("S/N", "runs on the drive with this serial number"),
    "--firmware": ("REVISION", "runs with this firmware"),
    "--host": ("NAME", "runs on this host"),
    "--since": ("TIME", "runs that started at this time or later, in ISO 8601: 2026-01-31"),
    "--before": ("TIME", "runs that started before this time"),
}


def add_store(add: AddVerb) -> None:
    """Add the parser of ``store``."""
    parser = add("store", help="keep the results of many runs in a database, and query them")
    parser.description = (
        "Copies the results of runs into a database, SQLite or PostgreSQL, and queries it (docs/store.rst). The run "
        "folders stay as they are; only archive --remove removes them."
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    adding = verbs.add_parser("add", help="add runs, or replace those that were resumed since", allow_abbrev=False)
    adding.set_defaults(verb=LazyVerb(f"{_COMMANDS}:add"))
    adding.add_argument("runs", metavar="RUN", nargs="+", type=path, help="the folder of a run, or of runs")
    _add_labels(adding, "say this of the runs, for example project=alpha")
    _add_store(adding)
    listing = verbs.add_parser("list", help="list runs, the newest first", allow_abbrev=False)
    listing.set_defaults(verb=LazyVerb(f"{_COMMANDS}:show_runs"))
    _add_filters(listing)
    trend = verbs.add_parser("trend", help="show a number over time, by firmware or another property")
    trend.set_defaults(verb=LazyVerb(f"{_COMMANDS}:show_trend"))
    trend.add_argument("metric", metavar="METRIC", help="for example iops, mb_per_second, average_response_ms")
    trend.add_argument("--at", metavar="POINT", required=True, help="for example 'RND 4 KiB 0/100'")
    trend.add_argument("--by", metavar="COLUMN", default="firmware", help="default: firmware; for example serial, host")
    _add_page(trend, "trend.html")
    _add_filters(trend)
    spread = verbs.add_parser("spread", help="show how far the units of a model differ")
    spread.set_defaults(verb=LazyVerb(f"{_COMMANDS}:show_spread"))
    spread.add_argument("of_model", metavar="MODEL", help="the model of the drives, as store list shows it")
    spread.add_argument("--metric", metavar="NAME", help="only this metric; default: all")
    _add_page(spread, "spread.html")
    _add_filters(spread)
    regressions = verbs.add_parser(
        "regressions",
        help="show key figures that differ from the same figures of the last comparable runs",
        allow_abbrev=False,
    )
    regressions.set_defaults(verb=LazyVerb(f"{_COMMANDS}:show_regressions"))
    regressions.add_argument("--run", dest="number", metavar="ID", type=int, help="only this run of the list")
    _add_filters(regressions)
    drives = verbs.add_parser("drives", help="list drives, with their runs and bytes written", allow_abbrev=False)
    drives.set_defaults(verb=LazyVerb(f"{_COMMANDS}:show_drives"))
    _add_filters(drives)
    export = verbs.add_parser("export", help="write all tables as Parquet or CSV", allow_abbrev=False)
    export.set_defaults(verb=LazyVerb(f"{_COMMANDS}:export"))
    export.add_argument("--to", metavar="FORMATS", default="parquet", help="parquet (default), csv, or parquet,csv")
    export.add_argument("--out", metavar="DIR", type=path, required=True, help="the folder for the files")
    _add_filters(export)
    rebuild = verbs.add_parser("rebuild", help="read all runs again from their folders or archives", allow_abbrev=False)
    rebuild.set_defaults(verb=LazyVerb(f"{_COMMANDS}:rebuild"))
    _add_store(rebuild)
    packing = "pack the folders of finished runs into one file each"
    _add_archive(verbs.add_parser("archive", help=packing, allow_abbrev=False))
    sql = verbs.add_parser("sql", help="print the result of a SELECT statement", allow_abbrev=False)
    sql.set_defaults(verb=LazyVerb(f"{_COMMANDS}:run_sql"))
    sql.add_argument(
        "statement", metavar="STATEMENT", help="for example 'SELECT test, count(*) FROM run GROUP BY test'"
    )
    _add_store(sql)
    show = verbs.add_parser("show", help="show a run", allow_abbrev=False)
    show.set_defaults(verb=LazyVerb(f"{_COMMANDS}:show"))
    show.add_argument("run", metavar="ID", type=int, help="its number in the list")
    _add_store(show)


def _add_archive(parser: VerbParser) -> None:
    parser.set_defaults(verb=LazyVerb(f"{_COMMANDS}:archive"))
    parser.add_argument("--to", metavar="DIR", type=path, required=True, help="the folder for the archives")
    parser.add_argument("--remove", action="store_true", help="remove the folders of the runs that are packed")
    _add_filters(parser)


def _add_page(parser: VerbParser, name: str) -> None:
    parser.add_argument("--out", metavar="DIR", type=path, help=f"write an HTML page with plots, {name}, into a folder")


def _add_filters(parser: VerbParser) -> None:
    for option, (metavar, text) in _FILTERS.items():
        parser.add_argument(option, metavar=metavar, help=text)
    parser.add_argument("--like", metavar="ID", type=int, help="runs with the same specification of the test as run ID")
    _add_labels(parser, "runs with this label")
    _add_store(parser)


def _add_labels(parser: VerbParser, text: str) -> None:
    parser.add_argument("--label", metavar="NAME=VALUE", action="append", default=[], help=text)


def _add_store(parser: VerbParser) -> None:
    parser.add_argument(
        "--store",
        metavar="URL",
        help="the path of an SQLite file, or postgresql://USER@HOST/NAME; default: $SNIA_PTS_STORE, runs/store.sqlite",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
