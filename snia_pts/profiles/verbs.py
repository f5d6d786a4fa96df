"""The verb ``profile`` of the command line."""

from __future__ import annotations

from ..cli.argument_parser import AddVerb, LazyVerb
from ..cli.parser import add_plan, add_plugins, add_run_options, add_target

_COMMANDS = "snia_pts.profiles.commands"


def add_profile(add: AddVerb) -> None:
    """Add the parser of ``profile``."""
    parser = add("profile", help="run workloads that are not part of the standard, with repeats and limits")
    parser.description = (
        "Lists, shows and runs workload profiles, which are not part of the standard (docs/profiles.rst)."
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="list the profiles of the suite")
    listing.set_defaults(verb=LazyVerb(f"{_COMMANDS}:show_all"))
    add_plugins(listing)
    show = verbs.add_parser("show", help="print a profile, as a template for your own")
    show.add_argument("name", metavar="NAME", help="a name from the list, or the path of your own file")
    add_plugins(show)
    show.set_defaults(verb=LazyVerb(f"{_COMMANDS}:show"))
    run = verbs.add_parser("run", help="run a profile on a drive, on a file, or in a directory", allow_abbrev=False)
    run.description = (
        "Runs a profile on TARGET. Destroys everything on a drive or file; in a directory it creates a file. Several "
        "profiles run one after the other on a drive or file, in one folder with a summary."
    )
    run.set_defaults(verb=LazyVerb(f"{_COMMANDS}:run"), pts="2.0.2", test_class="enterprise")
    run.add_argument(
        "name",
        metavar="NAME[,NAME...]",
        help="a name from the list, or the path of your own file; several with commas between them",
    )
    add_target(run)
    profile = run.add_argument_group("profile", "The report lists every value that differs from the profile.")
    profile.add_argument("--repeats", metavar="N", help="number of measurements of each point")
    profile.add_argument("--seconds", metavar="S", help="duration of each workload that has one")
    profile.add_argument("--ramp-seconds", metavar="S", help="duration of the unmeasured start of each such workload")
    profile.add_argument("--range", metavar="SIZE", help="maximum range of each workload")
    profile.add_argument(
        "--axis",
        metavar="KEY=V,V",
        action="append",
        default=[],
        help="measure at each of these values, for example queue_depth=1,8 or host.scheduler=none,bfq",
    )
    add_run_options(run, "runs/<profile>-<model or file>-<time>")
    add_plan(run)
