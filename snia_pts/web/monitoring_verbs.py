"""The verbs ``watch`` and ``metrics`` of the command line."""

from __future__ import annotations

from ..cli.argument_parser import AddVerb, LazyVerb, path

_COMMANDS = "snia_pts.web.monitoring_commands"


def add_watch(add: AddVerb) -> None:
    """Add the parser of ``watch``."""
    parser = add("watch", help="show the values of runs in the terminal until they end")
    parser.description = (
        "Shows the values of runs until all have ended: round, remaining time, determination so far, temperature and "
        "warnings. Redraws them on a terminal; elsewhere prints a line per event. Only reads; Ctrl-C ends the "
        "watching, not the runs."
    )
    parser.set_defaults(verb=LazyVerb(f"{_COMMANDS}:watch"))
    parser.add_argument(
        "runs",
        metavar="RUN",
        type=path,
        nargs="+",
        help="the folder of a run, of several tests (all), of a batch, or of runs (shows those in progress)",
    )


def add_metrics(add: AddVerb) -> None:
    """Add the parser of ``metrics``."""
    parser = add("metrics", help="write the metrics of runs for the textfile collector of node_exporter")
    parser.description = (
        "Writes the metrics of the runs in a folder in the text format of Prometheus (docs/metrics.rst). The file is "
        "replaced at once, so that a reader never sees a part of it. Only reads the run folders."
    )
    parser.set_defaults(verb=LazyVerb(f"{_COMMANDS}:metrics"))
    parser.add_argument("folder", metavar="FOLDER", type=path, help="the folder of the runs, for example runs")
    parser.add_argument("--to", metavar="FILE", type=path, required=True, help="the file, NAME.prom")
