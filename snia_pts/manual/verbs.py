"""The verbs ``docs``, ``spec``, ``sim`` and ``completion`` of the command line."""

from __future__ import annotations

from ..cli.argument_parser import AddVerb, LazyVerb

_COMMANDS = "snia_pts.manual.commands"


def add_docs(add: AddVerb) -> None:
    """Add the parser of ``docs``."""
    parser = add("docs", help="show a page of the documentation, or list all pages")
    parser.description = (
        "Shows a page of the documentation, on a terminal with a pager. Without a page, lists all pages."
    )
    parser.add_argument("page", metavar="PAGE", nargs="?", help="a name from the list, for example purge")
    parser.add_argument("--man", action="store_true", help="print the man page in roff format")
    parser.set_defaults(verb=LazyVerb(f"{_COMMANDS}:docs"))


def add_completion(add: AddVerb) -> None:
    """Add the parser of ``completion``."""
    parser = add("completion", help="print the file with which a shell completes command lines")
    parser.description = "Prints the completion file of a shell (docs/install.rst)."
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    parser.set_defaults(verb=LazyVerb("snia_pts.manual.completion:completion"))


def add_spec(add: AddVerb) -> None:
    """Add the parser of ``spec``."""
    parser = add("spec", help="list or print the specifications of the tests")
    parser.description = (
        "Lists and prints the specifications: the values of the standard for each test, which --set changes and --spec "
        "replaces (docs/toml.rst)."
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="list the specifications")
    listing.set_defaults(verb=LazyVerb(f"{_COMMANDS}:list_specs"))
    show = verbs.add_parser("show", help="print a specification, as a template for your own", allow_abbrev=False)
    show.add_argument("test", metavar="TEST", help="a test from the list")
    show.add_argument("--pts", metavar="VERSION", default="2.0.2", help="2.0.2 (default) or 1.1")
    show.set_defaults(verb=LazyVerb(f"{_COMMANDS}:show_spec"))


def add_sim(add: AddVerb) -> None:
    """Add the parser of ``sim``."""
    parser = add("sim", help="list or print the simulated drives")
    parser.description = (
        "Lists and prints the presets of simulated drives, the targets sim:PRESET (docs/simulation.rst)."
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    verbs.add_parser("list", help="list the presets").set_defaults(verb=LazyVerb(f"{_COMMANDS}:list_presets"))
    show = verbs.add_parser("show", help="print a preset, as a template for your own")
    show.add_argument("name", metavar="PRESET", help="a name from the list")
    show.set_defaults(verb=LazyVerb(f"{_COMMANDS}:show_preset"))
