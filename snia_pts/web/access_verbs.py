"""The verb ``access`` of the command line."""

from __future__ import annotations

from ..cli.argument_parser import AddVerb, LazyVerb, VerbParser, path
from .roles import ROLES

_COMMANDS = "snia_pts.web.access_commands"
_DAYS = 90


def add_access(add: AddVerb) -> None:
    """Add the parser of ``access``."""
    parser = add("access", help="users and tokens of the pages that snia-pts serve shows")
    parser.description = (
        "Says who may use the pages and the API of snia-pts serve (docs/serve.rst). A viewer reads; an operator also "
        "starts, stops and resumes runs; an admin also removes tokens. A change takes effect at once."
    )
    kinds = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    listing = kinds.add_parser("list", help="list the users and tokens", allow_abbrev=False)
    listing.add_argument("--json", action="store_true", help="as JSON")
    _complete(listing, "list_access")
    users = kinds.add_parser("user", help="add, change or remove a user").add_subparsers(
        title="verbs", metavar="VERB", required=True
    )
    adding = users.add_parser("add", help="add a user; the password is asked for", allow_abbrev=False)
    changing = users.add_parser("change", help="give a user another role or password", allow_abbrev=False)
    removing = users.add_parser("remove", help="remove a user, and end the user's sessions", allow_abbrev=False)
    changing.add_argument("--password", action="store_true", help="ask for a new password")
    for verb, function in ((adding, "add_user"), (changing, "change_user"), (removing, "remove_user")):
        verb.add_argument("name", metavar="NAME", help="letters, digits and . _ @ -")
        _complete(verb, function)
    adding.add_argument("--role", choices=ROLES, default="viewer", help="viewer (default), operator or admin")
    changing.add_argument("--role", choices=ROLES, help="viewer, operator or admin")
    for verb in (adding, changing):
        verb.add_argument("--password-file", metavar="FILE", type=path, help="the password is the first line of FILE")
    tokens = kinds.add_parser("token", help="add or remove a token, with which a program uses the API").add_subparsers(
        title="verbs", metavar="VERB", required=True
    )
    adding = tokens.add_parser("add", help="add a token, and print it once", allow_abbrev=False)
    adding.add_argument("--role", choices=ROLES, default="viewer", help="viewer (default), operator or admin")
    adding.add_argument("--days", metavar="N", type=int, default=_DAYS, help="how long it is valid (default: 90)")
    removing = tokens.add_parser("remove", help="remove a token", allow_abbrev=False)
    for verb, function in ((adding, "add_token"), (removing, "remove_token")):
        verb.add_argument("name", metavar="NAME", help="what the token is for; to remove one also its beginning")
        _complete(verb, function)


def _complete(parser: VerbParser, function: str) -> None:
    parser.set_defaults(verb=LazyVerb(f"{_COMMANDS}:{function}"))
    parser.add_argument(
        "--users", metavar="FILE", type=path, help="the file of users; default: ~/.config/snia-pts/users.json"
    )
