"""The verb ``export`` of the command line."""

from __future__ import annotations

from ..cli.argument_parser import AddVerb, LazyVerb, path


def add_export(add: AddVerb) -> None:
    """Add the parser of ``export``."""
    parser = add("export", help="write a stored run as a result file of TKperf")
    parser.description = (
        "Writes IOPS, latency, throughput and write saturation runs as a file that TKperf loads and plots. Lists what "
        "such a file cannot hold."
    )
    parser.set_defaults(verb=LazyVerb("snia_pts.tkperf.commands:export"))
    parser.add_argument("run", metavar="RUN", type=path, help="the folder of a run, or of several tests (all)")
    parser.add_argument("--to", choices=("tkperf",), required=True, help="the tool")
    parser.add_argument(
        "--out", metavar="FILE", type=path, help="a new file; default: <model>.xml in the folder of the run"
    )
