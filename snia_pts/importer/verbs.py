"""The verb ``import`` of the command line."""

from __future__ import annotations

from ..cli.argument_parser import AddVerb, LazyVerb, path
from ..cli.parser import add_formats


def add_import(add: AddVerb) -> None:
    """Add the parser of ``import``."""
    parser = add("import", help="convert result files of fio or TKperf to runs")
    parser.description = (
        "Reads result files of another tool and creates run folders with their reports: all files of fio (JSON, json+ "
        "or its normal output) become one run; each test in a file of TKperf becomes a run, in a folder for each file. "
        "Steady state is judged again; what the files do not contain stays unknown. Touches no device."
    )
    parser.set_defaults(verb=LazyVerb("snia_pts.importer.commands:import_files"))
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=path,
        help="files of fio, or of TKperf, or a folder: its *.json files, else its *.xml files, also in subfolders",
    )
    parser.add_argument(
        "--run-dir",
        metavar="DIR",
        type=path,
        help="default: runs/<test>-<model>-<time>; for several tests runs/all-...",
    )
    add_formats(parser)
